"""Steps as programs write them: values needed before backward, hooks on its way, counters, queues, caches, slices of one tensor."""

import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.capture.corpus.harness import program, ramp
from tests.capture.corpus.modules import filled


def network():
    return filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))


def stepped(net, step, calls=5):
    """``step(x, y)`` with changing batches; what it leaves are the parameters and their gradients."""
    batches = [(ramp(4, 3, step=0.1 + 0.05 * i), ramp(4, 1)) for i in range(calls)]
    return step, batches, lambda: [(p, p.grad) for p in net.parameters()]


@program(tolerance=1e-5)
def step_with_a_guard_and_a_norm():
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)

    def step(x, y):
        loss = F.mse_loss(net(x), y)
        if not torch.isfinite(loss):
            return None
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0).item()
        optimizer.step()
        return loss.item(), norm

    return stepped(net, step)


@program(tolerance=1e-5)
def step_with_backward_twice_after_a_value():
    net = network()

    def step(x, y):
        loss = F.mse_loss(net(x), y)
        kept = loss.item() > 0
        loss.backward(retain_graph=kept)
        (first,) = torch.autograd.grad(loss * 2, net[0].weight)
        try:
            loss.backward()
        except RuntimeError as error:
            return first, "second time" in str(error)
        return first, None

    return stepped(net, step, calls=3)


@program(tolerance=1e-5)
def step_with_hooks_of_parameters():
    net, norms = network(), []
    for p in net.parameters():
        p.register_hook(lambda g: g.clamp(-0.1, 0.1))
        p.register_hook(lambda g: norms.append((g.numel(), g.norm())))

    def step(x, y):
        net.zero_grad()
        F.mse_loss(net(x), y).backward()

    def another():
        net[0].weight.register_hook(lambda g: g * 2)

    step, batches, state = stepped(net, step)
    return step, [*batches[:3], another, *batches[3:]], lambda: (state(), norms)


@program(tolerance=1e-5)
def step_with_hooks_that_need_values():
    net, seen = network(), []
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(lambda p: seen.append((p.numel(), p.grad.abs().max().item())))

    def step(x, y):
        net.zero_grad()
        loss = F.mse_loss(net(x), y)
        if loss.item() > 0.5:
            loss = loss * 2
        loss.backward()
        return loss.detach()

    step, batches, state = stepped(net, step)
    return step, batches, lambda: (state(), seen)


@program(tolerance=1e-5)
def step_with_hooks_set_inside():
    net, seen = network(), []

    def step(x, y):
        hidden = net[0](x)
        hidden.register_hook(lambda g: g * 2)
        hidden.retain_grad()
        handles = [hidden.register_hook(lambda g: seen.append(g.sum()))]
        handles += [p.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.max())) for p in net.parameters()]
        net.zero_grad()
        F.mse_loss(net[2](net[1](hidden)), y).backward()
        for handle in handles:
            handle.remove()
        return hidden.grad

    step, batches, state = stepped(net, step)
    return step, batches, lambda: (state(), seen)


@program(tolerance=1e-5)
def step_with_backward_hooks_of_modules():
    net, seen = network(), {}
    net[2].register_full_backward_hook(lambda module, into, out: seen.__setitem__("outside", out[0]))

    def step(x, y):
        handle = net[0].register_full_backward_hook(lambda module, into, out: seen.__setitem__("inside", out[0] * 2))
        net.zero_grad()
        F.mse_loss(net(x), y).backward()
        handle.remove()
        return seen["outside"], seen["inside"]

    return stepped(net, step)


@program(tolerance=1e-5)
def derivatives_of_functions_that_need_values():
    def f(x):
        def g(x):
            y = x.sin()
            return y * 2 if (y.detach() > 0).any() else y * 3

        return torch.func.grad(lambda x: g(x).sum())(x), torch.func.jacrev(g)(x), torch.func.vjp(g, x)[0]

    return f, [(ramp(3),), (ramp(3, step=0.1),), (-ramp(3, start=0.1),)]


@program(tolerance=1e-5)
def step_with_a_moving_average_and_a_counter():
    net = network()
    average = copy.deepcopy(net).requires_grad_(False)
    counts = [0]

    def step(x, y):
        net.zero_grad()
        F.mse_loss(net(x), y).backward()
        counts[0] += 1
        decay = min(0.99, (1 + counts[0]) / (10 + counts[0]))
        with torch.no_grad():
            for a, p in zip(average.parameters(), net.parameters(), strict=True):
                p.sub_(0.1 * p.grad)
                a.lerp_(p, 1 - decay)

    step, batches, state = stepped(net, step, calls=6)
    return step, batches, lambda: (state(), average, counts)


@program(tolerance=1e-5)
def data_of_parameters_replaced():
    net, other = network(), network()
    queue, place = torch.zeros(4, 8), torch.zeros(1, dtype=torch.long)

    def step(x):
        with torch.no_grad():
            for p, q in zip(net.parameters(), other.parameters(), strict=True):
                q.data = q.data * 0.5 + p.data * 0.5 + 0.01
        key = other(x)
        at = int(place)
        queue[at] = key.detach().flatten()
        place[0] = (at + 1) % 4
        return key @ queue[:1, :4]

    return step, [(ramp(8, 3, step=0.01 * i),) for i in range(6)], lambda: (queue, place, other)


@program(tolerance=1e-5)
def windows_of_one_sequence():
    net, held = filled(nn.GRU(3, 2, batch_first=True)), [None]
    sequence = ramp(2, 24, 3, step=0.01)

    def step(x):
        before = None if held[0] is None else held[0].detach()
        out, held[0] = net(x, before)
        loss = out.pow(2).mean()
        value = loss.item()
        net.zero_grad()
        loss.backward()
        return value

    return step, [(sequence[:, 4 * i : 4 * i + 4],) for i in range(6)], lambda: [p.grad for p in net.parameters()]


class _Lion(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr, "momentum": 0.9})
        self.calls = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.calls += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"], state["mean"] = 0, torch.zeros_like(p)
                state["step"] += 1
                state["mean"].mul_(group["momentum"]).add_(p.grad)
                p.add_(state["mean"].sign() / state["step"] + p.grad, alpha=-group["lr"] / self.calls)


class _Nesterov(torch.optim.SGD):
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            kept = self.state[p].setdefault("seen", torch.zeros(()))
            kept += p.grad.norm().detach()
        return super().step(closure)


class _Halving(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [base * 0.5**self.last_epoch for base in self.base_lrs]


@program(tolerance=1e-6)
def step_with_an_optimizer_of_the_program():
    layer = torch.nn.Linear(3, 1)
    for p in layer.parameters():
        torch.nn.init.constant_(p, 0.25)
    optimizer = _Lion(layer.parameters(), 0.1)
    schedule = _Halving(optimizer)

    def f(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    calls = [(ramp(2, 3) * k,) for k in (1, 2, 3)] + [schedule.step, (ramp(2, 3),), schedule.step, (ramp(2, 3),), (ramp(2, 3),)]
    return f, calls, lambda: [*layer.parameters(), optimizer.calls, [dict(s) for s in optimizer.state.values()]]


@program(tolerance=1e-6)
def step_with_an_optimizer_derived_from_ours():
    layer = torch.nn.Linear(3, 1)
    for p in layer.parameters():
        torch.nn.init.constant_(p, 0.25)
    optimizer = _Nesterov(layer.parameters(), 0.1, momentum=0.9)

    def f(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def slower():
        optimizer.param_groups[0]["lr"] = 0.01

    calls = [(ramp(2, 3) * k,) for k in (1, 2, 3)] + [slower, (ramp(2, 3),), (ramp(2, 3),)]
    return f, calls, lambda: [*layer.parameters(), [s["seen"] for s in optimizer.state.values()]]


def _sparse_step(make):
    torch.manual_seed(0)
    table, bag = torch.nn.Embedding(6, 3, sparse=True), torch.nn.Sequential(torch.nn.EmbeddingBag(5, 3, mode="sum", sparse=True))
    loose = torch.nn.Parameter(ramp(4, 3))
    optimizer = make([*table.parameters(), *bag.parameters(), loose])

    def f(i, target):
        optimizer.zero_grad()
        found = table(i) + bag(i.reshape(-1, 1) % 5) + torch.nn.functional.embedding(i % 4, loose, sparse=True)
        loss = (found.sum(1) - target).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    calls = [(torch.tensor([k, 2, 5, k]), ramp(4) * k) for k in range(4)]
    return f, calls, lambda: [*(p.detach() for p in (table.weight, bag[0].weight, loose)), loose.grad.is_sparse]


@program(tolerance=1e-5)
def step_sgd_with_sparse_gradients():
    return _sparse_step(lambda parameters: torch.optim.SGD(parameters, lr=0.1))


@program(tolerance=1e-5)
def step_adagrad_with_sparse_gradients():
    return _sparse_step(lambda parameters: torch.optim.Adagrad(parameters, lr=0.1))


@program(tolerance=1e-5)
def step_sparse_adam():
    return _sparse_step(lambda parameters: torch.optim.SparseAdam(parameters, lr=0.1))


def _settings_changed(make, **later):
    layer = torch.nn.Linear(3, 2, bias=False)
    torch.nn.init.constant_(layer.weight, 0.25)
    optimizer = make(layer.parameters())

    def f(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def change():
        optimizer.param_groups[0].update(later)

    return f, [(ramp(2, 3),), (ramp(2, 3),), change, (ramp(2, 3) * 2,), (ramp(2, 3),)], lambda: layer.weight


@program(tolerance=1e-6)
def step_adadelta_with_other_settings():
    return _settings_changed(lambda p: torch.optim.Adadelta(p, lr=0.1), rho=0.5, lr=0.2)


@program(tolerance=1e-6)
def step_muon_with_other_settings():
    return _settings_changed(lambda p: torch.optim.Muon(p, lr=0.1), lr=0.01, momentum=0.5)


@program(tolerance=1e-6)
def step_rprop_with_other_settings():
    return _settings_changed(lambda p: torch.optim.Rprop(p, lr=0.1), etas=(0.3, 1.5))
