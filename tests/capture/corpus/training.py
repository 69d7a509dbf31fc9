"""Whole training steps."""

import copy
import sys

import flambeau as torch
from flambeau import nn
from tests.capture.corpus.harness import program, ramp
from tests.capture.corpus.modules import filled


def training(make, step, calls=5):
    """A small network, its optimizer by ``make``, and ``step(net, optimizer, x, y)`` called with changing batches."""
    net = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    optimizer = make(net.parameters())
    losses = []

    def f(x, y):
        return step(net, optimizer, losses, x, y)

    def state():
        parameters = list(net.parameters())
        held = [optimizer.state[p] for p in parameters if p in optimizer.state]
        return parameters, losses, held, [g["lr"] for g in optimizer.param_groups]

    return f, [(ramp(4, 3, step=0.1 + 0.05 * i), ramp(4, 1)) for i in range(calls)], state


def plain_step(net, optimizer, losses, x, y):
    loss = ((net(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@program(tolerance=1e-5)
def step_sgd():
    return training(lambda p: torch.optim.SGD(p, lr=0.1), plain_step)


@program(tolerance=1e-5)
def step_sgd_momentum():
    return training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01), plain_step)


@program(tolerance=1e-5)
def step_adam():
    return training(lambda p: torch.optim.Adam(p, lr=0.05), plain_step, calls=7)


@program(tolerance=1e-5)
def step_adamw_weight_decay():
    return training(lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1), plain_step, calls=7)


@program(tolerance=1e-5)
def step_adamw_without_foreach():
    return training(lambda p: torch.optim.AdamW(p, lr=0.05, foreach=False), plain_step, calls=6)


@program(tolerance=1e-5)
def step_with_loss_item():
    def step(net, optimizer, losses, x, y):
        loss = ((net(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) % 2:
            print(f"loss {losses[-1]:.3f}")
        return losses[-1]

    return training(lambda p: torch.optim.SGD(p, lr=0.1), step)


@program(tolerance=1e-5)
def step_with_clipping():
    def step(net, optimizer, losses, x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        return loss.detach(), norm

    return training(lambda p: torch.optim.AdamW(p, lr=0.05), step)


@program(tolerance=1e-5)
def step_with_clip_value():
    def step(net, optimizer, losses, x, y):
        optimizer.zero_grad(set_to_none=False)
        ((net(x) - y) ** 2).sum().backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.2)
        optimizer.step()

    return training(lambda p: torch.optim.SGD(p, lr=0.1), step)


@program(tolerance=1e-5)
def step_with_scheduler():
    net = filled(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)

    def f(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach(), scheduler.get_last_lr()[0]

    return f, [(ramp(4, 3),)] * 6, lambda: (net, optimizer.param_groups[0]["lr"])


@program(tolerance=1e-5)
def step_with_scheduler_outside():
    net = filled(nn.Linear(3, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)

    def f(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    calls = []
    for _ in range(6):
        calls += [(ramp(4, 3),), scheduler.step]
    return f, calls, lambda: (net, optimizer.param_groups[0]["lr"])


@program(tolerance=1e-5)
def step_with_moving_average():
    net = filled(nn.Linear(3, 1))
    average = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def f(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), net.parameters(), strict=True):
                a.mul_(0.9).add_(p, alpha=0.1)
        return loss.detach()

    return f, [(ramp(4, 3),)] * 4, lambda: (net, average)


@program(tolerance=1e-5)
def step_with_accumulation():
    net = filled(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def f(batches):
        total = 0.0
        for x in batches:
            loss = net(x).pow(2).mean() / len(batches)
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        return total

    x = ramp(4, 3)
    return f, [([x, x + 1],), ([x, x + 1],), ([x],), ([x, x + 1, x],)], lambda: net


@program(tolerance=1e-5)
def step_updates_only_sometimes():
    net = filled(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    count = [0]

    def f(x):
        loss = net(x).pow(2).mean()
        loss.backward()
        count[0] += 1
        if count[0] % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return f, [(ramp(4, 3),)] * 6, lambda: (net, count)


@program(tolerance=1e-5)
def step_skipped_when_not_finite():
    def step(net, optimizer, losses, x, y):
        loss = ((net(x) - y) ** 2).mean()
        if not torch.isfinite(loss):
            losses.append("skipped")
            return None
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    f, calls, state = training(lambda p: torch.optim.AdamW(p, lr=0.05), step)
    calls.insert(2, (ramp(4, 3) * float("nan"), ramp(4, 1)))
    return f, calls, state


@program(tolerance=1e-5)
def step_by_hand():
    w = ramp(3, grad=True)

    def f(x):
        loss = (x * w).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            w.sub_(0.01 * w.grad)
            w.grad = None
        if loss > 5:
            w.data.mul_(0.5)
        return loss.item()

    return f, [(ramp(3) * i,) for i in (1, 1, 2, 1, 2, 3)], lambda: w


@program(tolerance=1e-5)
def step_by_grad_function():
    parameters = [ramp(3, grad=True), ramp(1, grad=True)]

    def f(x):
        w, b = parameters
        loss = ((x * w).sum(1) + b).pow(2).mean()
        grads = torch.autograd.grad(loss, parameters)
        parameters[:] = [(p - 0.1 * g).detach().requires_grad_() for p, g in zip(parameters, grads, strict=True)]
        return loss.detach()

    return f, [(ramp(4, 3),)] * 4, lambda: parameters


@program(tolerance=1e-5)
def step_parameter_groups():
    net = filled(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)))
    groups = [{"params": net[0].parameters(), "lr": 0.01}, {"params": net[1].parameters(), "weight_decay": 0.1}]
    optimizer = torch.optim.AdamW(groups, lr=0.1)

    def f(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def slower():
        optimizer.param_groups[0]["lr"] = 0.001

    return f, [(ramp(4, 3),)] * 3 + [slower] + [(ramp(4, 3),)] * 3, lambda: net


@program(tolerance=1e-5)
def step_with_closure():
    net = filled(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def f(x):
        def closure():
            optimizer.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return f, [(ramp(4, 3),)] * 3, lambda: net


@program(tolerance=1e-5)
def step_two_networks():
    a, b = filled(nn.Linear(2, 2)), filled(nn.Linear(2, 1))
    first, second = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.2)

    def f(x):
        made = a(x)
        loss_b = b(made.detach()).pow(2).mean()
        second.zero_grad()
        loss_b.backward()
        second.step()
        first.zero_grad()
        loss_a = (b(made) - 1).pow(2).mean()
        loss_a.backward()
        first.step()
        return loss_a.detach(), loss_b.detach()

    return f, [(ramp(3, 2),)] * 4, lambda: (a, b)


@program(tolerance=1e-5)
def step_frozen_part():
    net = filled(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)))
    net[0].requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)

    def f(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), net[0].weight.grad

    def melt():
        net[0].requires_grad_(True)
        optimizer.add_param_group({"params": list(net[0].parameters()), "lr": 0.01})

    return f, [(ramp(4, 3),)] * 3 + [melt] + [(ramp(4, 3),)] * 2, lambda: net


@program(tolerance=1e-5)
def step_with_train_loop_inside():
    net = filled(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def f(batches, epochs):
        history = []
        for epoch in range(epochs):
            for x in batches:
                optimizer.zero_grad()
                loss = net(x).pow(2).mean()
                loss.backward()
                optimizer.step()
            history.append((epoch, loss.item()))
        return history

    x = ramp(4, 3)
    return f, [([x, x * 0.5], 2), ([x, x * 0.5], 2), ([x], 1)], lambda: net


@program(tolerance=1e-5)
def step_with_dropout_and_checkpoint_of_state():
    net = filled(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    best = {"loss": float("inf"), "state": None}

    def f(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        if loss.item() < best["loss"]:
            best.update(loss=loss.item(), state={k: v.clone() for k, v in net.state_dict().items()})
        return loss.detach()

    return f, [(ramp(4, 3),)] * 5, lambda: (net, best, torch.rand(1))


@program()
def written_where_earlier_parts_saved_for_backward():
    def f(x):
        y, z = x * 1.0, x + 1
        w = torch.where(z > y, z, y) * z.clamp(-9, 9)
        for k in range(3):
            if x.sum().item() > k:
                y[k] = 3
                y.add_(z)
                z.mul_(2)
        return w, y, z

    return f, [(ramp(4, start=1.0, grad=True),), (ramp(4, start=1.0, grad=True),), (ramp(4, grad=True),), (ramp(4, start=1.0, grad=True),)]


@program()
def tensors_of_a_replay_and_of_the_interpretation_after_it():
    seen, table = [], {}

    class Held:
        pass

    def f(x):
        y = x * 2
        flat, pair, inner, held = y.view(-1), [(y, 1)], {"y": y}, Held()
        held.flat = flat
        other = lambda: y  # noqa: E731
        if y.sum().item() > 0:  # the first call that comes here goes on with what the replay computed
            seen.append(y)
            table.setdefault("flat", flat)

        def alike():
            return [any(y is s for s in seen), table.get("flat") is flat, pair[0][0] is y, inner["y"] is y, held.flat is flat, other() is y]

        return y, flat, alike(), sys._getframe(0).f_code.co_name, alike(), pair, inner

    return f, [(-ramp(4).abs(),), (ramp(4).abs(),), (ramp(4).abs(),), (-ramp(4).abs(),)], lambda: (len(seen), table)


def failing(early):
    """Steps with an index that is too large: gradients that were reset before it are gone, those that wait for it are there."""
    table = torch.ones(4, 3, requires_grad=True)
    optimizer = torch.optim.SGD([table], lr=0.1)
    found = []

    def f(index):
        try:
            if early:
                optimizer.zero_grad()
            loss = nn.functional.embedding(index, table).sum()
            if not early:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except IndexError:
            found.append(None if table.grad is None else table.grad.clone())
        return table.grad

    return f, [(torch.tensor([i, 1]),) for i in (0, 2, 9, 3, 9)], lambda: (table, found)


@program()
def step_that_fails_after_resetting():
    return failing(early=True)


@program()
def step_that_fails_before_resetting():
    return failing(early=False)
