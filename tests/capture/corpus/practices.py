"""What training programs of users do between and inside calls: freezing, hooks, surgery on optimizers, modes, copies."""

import copy
import functools
from collections import OrderedDict, deque
from dataclasses import dataclass, field

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.capture.corpus.harness import program, ramp
from tests.capture.corpus.modules import filled


@program(tolerance=1e-5)
def step_with_lbfgs():
    net = filled(nn.Linear(3, 1))
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=3)
    evaluations = []

    def f(x, y):
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            evaluations.append(1)
            return loss

        return optimizer.step(closure).detach()

    return f, [(ramp(4, 3, step=0.2 + 0.01 * i), ramp(4, 1)) for i in range(4)], lambda: (net, len(evaluations))


@program(tolerance=1e-4)
def step_with_a_line_search():
    x = torch.nn.Parameter(torch.tensor([-1.2, 1.0]))
    optimizer = torch.optim.LBFGS([x], max_iter=4, history_size=3, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = 10 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss.backward()
        return loss

    def f(scale):
        loss = optimizer.step(closure)
        return loss.detach() * scale

    return f, [(1.0,), (1.0,), (1.0,), (2.0,)], lambda: x


@program(tolerance=1e-6)
def layers_swapped_between_calls():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleDict({"a": filled(nn.Linear(3, 3)), "b": nn.ReLU()})
            self.head = filled(nn.Linear(3, 2))
            self.order = ["a", "b"]

        def forward(self, x):
            for name in self.order:
                x = self.blocks[name](x)
            return self.head(x)

    net = Net()

    def swap():
        net.head = filled(nn.Linear(3, 1))

    def grow():
        net.blocks["c"] = nn.Tanh()
        net.order.append("c")

    def shrink():
        del net.blocks["c"]
        net.order.remove("c")

    x = ramp(2, 3)
    return net, [(x,), (x,), swap, (x,), grow, (x,), (x,), shrink, (x,)], lambda: net


@program(tolerance=1e-5)
def freezing_and_thawing():
    net = nn.Sequential(filled(nn.Linear(3, 4)), nn.Tanh(), filled(nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)

    def f(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), [p.requires_grad for p in net.parameters()]

    def freeze(flag):
        return lambda: net[0].requires_grad_(flag)

    x = ramp(4, 3)
    return (
        f,
        [(x,), (x,), freeze(False), (x,), (x,), freeze(True), (x,), freeze(False), (x,)],
        lambda: [(p, p.grad) for p in net.parameters()],
    )


@program(tolerance=1e-6)
def modes_toggled_inside_and_out():
    net = nn.Sequential(filled(nn.Linear(3, 3)), nn.BatchNorm1d(3), nn.Dropout(0.5))

    def f(x, evaluate):
        was = net.training
        net.train(not evaluate)
        try:
            return net(x), net[1].num_batches_tracked
        finally:
            net.train(was)

    x = ramp(4, 3)
    return f, [(x, True), (x, False), (x, True), (x, False), lambda: net.eval(), (x, True), (x, False)], lambda: (net, net.training)


@program(tolerance=1e-6)
def hooks_come_and_go():
    net = nn.Sequential(filled(nn.Linear(3, 3)), nn.ReLU(), filled(nn.Linear(3, 2)))
    kept, handles = {}, []

    def keep(name):
        def hook(module, args, out):
            kept[name] = out.detach().mean()

        return hook

    def add():
        for name, module in net.named_children():
            handles.append(module.register_forward_hook(keep(name)))

    def drop():
        while handles:
            handles.pop().remove()
        kept.clear()

    x = ramp(2, 3)
    return (lambda x: net(x) * 2), [(x,), add, (x,), (x,), drop, (x,), add, (x,), drop, (x,)], lambda: dict(kept)


@program()
def through_numpy_and_back():
    scale = np.float32(0.5)

    def f(x, mask):
        array = x.detach().numpy().copy()
        array[mask] = array.mean()
        order = np.argsort(-array, kind="stable")
        y = torch.from_numpy(array) * float(scale)
        return y[torch.from_numpy(order)], int(order[0]), np.asarray(y)

    return f, [(ramp(4), np.array([True, False, False, True])), (ramp(4), np.array([False] * 4)), (ramp(5), np.array([True] * 5))] * 2


@program(tolerance=1e-6)
def copies_of_modules():
    net = filled(nn.Linear(2, 2))

    def f(x):
        twin = copy.deepcopy(net)
        with torch.no_grad():
            twin.weight.mul_(2.0)
        return twin(x) - net(x)

    def change():
        net.weight.data += 1

    return f, [(ramp(3, 2),), (ramp(3, 2),), change, (ramp(3, 2),)], lambda: net


@program()
def subclass_that_carries_a_name():
    class Named(torch.Tensor):
        def __new__(cls, data, label="?"):
            made = torch.Tensor._make_subclass(cls, data)
            made.label = label
            return made

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs or {})
            if isinstance(out, Named):
                labels = [getattr(a, "label", "") for a in args if isinstance(a, Named)]
                out.label = f"{func.__name__}({','.join(labels)})"
            return out

    def f(x, y):
        z = (x + y).relu()
        return z * 2, getattr(z, "label", None), type(z).__name__

    return f, [
        (Named(ramp(3), "a"), Named(ramp(3), "b")),
        (Named(ramp(3), "a"), ramp(3)),
        (ramp(3), ramp(3)),
        (Named(ramp(3), "c"), ramp(3)),
    ]


@program(tolerance=1e-6)
def function_with_a_rounded_gradient():
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, levels):
            ctx.save_for_backward(x)
            ctx.levels = levels
            return (x * levels).round() / levels

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x.abs() <= 1), None

    held = {"levels": 4}

    def f(x):
        return Round.apply(x, held["levels"]).square().sum()

    def change():
        held["levels"] = 8

    x = ramp(6, grad=True)
    return f, [(x,), (x,), change, (x,), (x,)], lambda: x.grad


@program()
def views_changed_in_place():
    board = torch.zeros(4, 4)

    def f(x, row, column):
        board[row].add_(x)
        board[:, column] *= 2
        diagonal = board.diagonal()
        diagonal += 1
        corner = board[:2, :2]
        corner.t()[0, 1] = -5.0
        board.view(-1)[::5].clamp_(max=3.0)
        return corner.sum(), board[row].clone()

    return f, [(ramp(4), 0, 1), (ramp(4), 1, 1), (ramp(4), 0, 2), (ramp(4), 3, 3), (ramp(4), 2, 0)], lambda: board


@program(tolerance=1e-5)
def batches_of_changing_sizes():
    net = nn.Sequential(filled(nn.Linear(3, 4)), nn.LayerNorm(4), nn.GELU(), filled(nn.Linear(4, 2)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)

    def f(x, y):
        loss = F.cross_entropy(net(x), y, reduction="sum") / x.shape[0]
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss.detach(), x.shape[0]

    def batch(n):
        return ramp(n, 3, step=0.1), torch.arange(n) % 2

    return f, [batch(4), batch(4), batch(3), batch(5), batch(7), batch(1), batch(6)], lambda: net


@program(tolerance=1e-5)
def optimizer_state_operated_on():
    net = filled(nn.Linear(3, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

    def f(x):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        return [group["lr"] for group in optimizer.param_groups]

    def slower():
        for group in optimizer.param_groups:
            group["lr"] *= 0.5

    def reset():
        for state in optimizer.state.values():
            state["exp_avg"].zero_()

    def forget():
        optimizer.state.clear()

    def reload():
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    x = ramp(4, 3)
    return f, [(x,), (x,), slower, (x,), reset, (x,), forget, (x,), reload, (x,), slower, (x,)], lambda: net


@program(tolerance=1e-5)
def accumulation_by_step_number():
    net = filled(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    trainer = type("Trainer", (), {"step": 0, "every": 2, "losses": []})()

    def f(x):
        loss = net(x).square().mean() / trainer.every
        loss.backward()
        trainer.step += 1
        if trainer.step % trainer.every == 0:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        trainer.losses.append(loss.detach())
        if len(trainer.losses) > 3:
            del trainer.losses[0]
        return loss.detach()

    def often():
        trainer.every = 3

    x = ramp(4, 3)
    calls = [(x,)] * 5 + [often] + [(x,)] * 4
    return f, calls, lambda: (net, trainer.step, list(trainer.losses), [p.grad for p in net.parameters()])


@program(tolerance=2e-2)
def autocast_inside():
    net = nn.Sequential(filled(nn.Linear(4, 4)), nn.LayerNorm(4), filled(nn.Linear(4, 2)))

    def f(x, enabled):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            y = net(x)
            with torch.autocast("cpu", enabled=False):
                z = y.float().softmax(-1)
        return y, z, y.dtype == torch.bfloat16

    return f, [(ramp(3, 4), True), (ramp(3, 4), False), (ramp(3, 4), True), (ramp(5, 4), True)], lambda: [p.grad for p in net.parameters()]


@program()
def gradient_modes_nested():
    weight = torch.nn.Parameter(ramp(3))

    def f(x, how):
        outs = [x * weight]
        with torch.no_grad():
            outs.append(x * weight)
            with torch.enable_grad():
                outs.append(x * weight)
            with torch.set_grad_enabled(how):
                outs.append(weight.detach() * x)
                outs.append(weight + x)
        with torch.inference_mode():
            outs.append(weight * 2)
        return [o.requires_grad for o in outs], [o.is_inference() for o in outs], outs[0] + outs[2]

    return f, [(ramp(3), True), (ramp(3), False), (ramp(3), True), (ramp(3, grad=True), True)], lambda: weight.grad


@program(tolerance=1e-5)
def derivatives_inside():
    def energy(x, k):
        return (k * x**2).sum() + x.prod()

    def f(x, k):
        gradient = torch.func.grad(energy)(x, k)
        hessian = torch.func.hessian(energy)(x, k)
        value, pull = torch.func.vjp(lambda x: torch.sin(x) * k, x)
        per_row = torch.vmap(torch.func.grad(energy), in_dims=(0, None))(torch.stack([x, x * 2]), k)
        return gradient, hessian, value, pull(torch.ones_like(value))[0], per_row

    return f, [(ramp(3), 2.0), (ramp(3), 2.0), (ramp(3), 3.0), (ramp(4), 3.0)]


@program()
def compiled_within_compiled():
    seen = []

    @torch.compile
    def inner(x, k):
        seen.append(k)
        return x * k

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 1

        def forward(self, x):
            return inner(x, self.k) + 1

    block = torch.compile(Block())

    def f(x):
        y = block(x)
        return inner(y, 2) if y.sum() > 0 else y

    def change():
        block.k = 3

    return f, [(ramp(3),), (ramp(3) + 4,), (ramp(3),), change, (ramp(3) + 4,), (ramp(3),)], lambda: list(seen)


@program()
def functions_and_modules_made_inside():
    def f(x, rate):
        def scaled(y, times=2):
            return y * rate * times

        def rows():
            for row in x:
                yield scaled(row)

        class Double(nn.Module):
            def forward(self, y):
                return scaled(y, 3)

        return scaled, Double(), functools.partial(scaled, times=5), [r for r in rows()]

    def use(x, rate):
        scaled, module, times, made = f(x, rate)
        return scaled(x), module(x), times(x), made

    return use, [(ramp(2, 2), 1.0), (ramp(2, 2), 2.0), (ramp(2, 2), 3.0), (ramp(3, 2), 3.0)]


@program()
def history_of_a_player():
    @dataclass
    class Step:
        state: object
        reward: float
        done: bool = False
        tags: list = field(default_factory=list)

    buffer = deque(maxlen=4)
    episode = OrderedDict()

    def f(state, reward):
        step = Step(state * 2, reward, reward > 2)
        if step.done:
            step.tags.append("end")
            episode.clear()
        buffer.append(step)
        episode[len(episode)] = step
        returns, running = [], 0.0
        for past in reversed(buffer):
            running = past.reward + 0.5 * running * (not past.done)
            returns.insert(0, running)
        values = torch.tensor(returns)
        return (torch.stack([s.state for s in buffer]) * values[:, None]).sum(0), len(episode)

    return f, [(ramp(2), float(i)) for i in range(7)], lambda: ([(s.state, s.reward, s.done, s.tags) for s in buffer], list(episode))


@program()
def early_returns_by_item():
    def f(x, limit):
        if x.numel() == 0:
            return None
        if (top := x.max().item()) > limit:
            return "above", top
        if x.min().item() < -limit:
            return x.clamp(-limit, limit)
        norm = float(x.norm())
        if not norm:
            return 0
        return x / norm

    calls = [(ramp(3), 5), (ramp(3) * 20, 5), (ramp(3) - 7, 5), (torch.zeros(3), 5), (ramp(0), 5), (ramp(3), 1)]
    return f, calls * 2


@program(tolerance=1e-5)
def optimizer_written_by_the_user():
    class Lion(torch.optim.Optimizer):
        def __init__(self, parameters, lr=0.1, beta=0.9):
            super().__init__(parameters, {"lr": lr, "beta": beta})
            self.calls = 0

        @property
        def rate(self):
            return self.param_groups[0]["lr"]

        @torch.no_grad()
        def step(self):
            self.calls += 1
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["mean"], state["steps"] = torch.zeros_like(p), 0
                    state["steps"] += 1
                    state["mean"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                    p.add_(state["mean"].sign(), alpha=-self.rate / state["steps"])

    net = nn.Sequential(filled(nn.Linear(3, 4)), nn.Tanh(), filled(nn.Linear(4, 2)))
    optimizer = Lion(net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def f(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    calls = [c for i in range(5) for c in ((ramp(4, 3, step=0.1),), schedule.step)]
    return f, calls, lambda: (net, optimizer.calls, [s["steps"] for s in optimizer.state.values()])


@program()
def data_sets_and_distributions_that_change():
    class Rows(torch.utils.data.Dataset):
        def __init__(self):
            self.rows, self.scale = [ramp(2), ramp(2) + 1], 1.0

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            return self.rows[i] * self.scale

        def __iter__(self):
            yield from self.rows

    rows, normal = Rows(), torch.distributions.Normal(torch.zeros(2), torch.ones(2), validate_args=False)

    def f(x):
        total = sum(iter(rows)) + rows[0] if len(rows) > 2 else rows[-1]
        return x * rows.scale + total, normal.log_prob(x), normal.loc + normal.mean

    def more():
        rows.scale += 1
        rows.rows.append(ramp(2) * 3)
        normal.loc = normal.loc + 1

    return f, [(ramp(2),), more, (ramp(2),), more, (ramp(2),), (ramp(2),)]


@program(tolerance=1e-6)
def modules_with_methods_of_containers():
    class Bank(nn.Module):
        def __init__(self):
            super().__init__()
            self.size, self.items = 1, [filled(nn.Linear(2, 2))]

        def __len__(self):
            return self.size

        def __getitem__(self, i):
            return self.items[i % self.size]

        def __iter__(self):
            return iter(self.items)

        def __contains__(self, name):
            return name == f"size {self.size}"

        def __bool__(self):
            return self.size > 1

        def __neg__(self):
            return -self.size

    bank = Bank()

    def f(x):
        for layer in bank:
            x = layer(x)
        return x * len(bank) + bank[1].bias, "size 2" in bank, bool(bank), -bank

    def grow():
        bank.items.append(filled(nn.Linear(2, 2)))
        bank.size += 1

    return f, [(ramp(3, 2),), (ramp(3, 2),), grow, (ramp(3, 2),), grow, (ramp(3, 2),)]


@program()
def modes_and_types_of_modules_set_inside():
    net = nn.Sequential(filled(nn.Linear(2, 2)), nn.Dropout(0.5))

    def f(x, train, double):
        net[1].train(train)
        net.double() if double else net.float()
        y = net(x.to(net[0].weight.dtype))
        net[1].train(not net[1].training)
        net[0].bias.requires_grad_(train)
        return y.detach(), net[1].training

    calls = [(ramp(2, 2), i % 2 == 0, i % 3 == 0) for i in range(6)]
    return f, calls, lambda: (net.training, net[1].training, net[0].bias.requires_grad, net[0].weight.dtype)


@program()
def modules_that_find_attributes_elsewhere():
    class Wrapped(nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.inner, self.factor = filled(nn.Linear(2, 2)), 1

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return self.factor if name == "scale" else getattr(super().__getattr__("inner"), name)

        def forward(self, x):
            self.calls += 1
            self.factor += self.calls
            if self.calls == 3:
                self.cache = x.sum()
            return x * self.scale + self.in_features + (self.cache if hasattr(self, "cache") and self.calls > 3 else 0)

    class Plain(nn.Module):
        def forward(self, x):
            if hasattr(self, "cache"):
                return x + self.cache
            self.cache = x.sum() if x[0] > 0 else None
            if self.cache is None:
                del self.cache
            return x

    wrapped, plain = Wrapped(), Plain()
    return (lambda x: (wrapped(x), plain(x))), [(ramp(2, start=v),) for v in (-1.0, -2.0, 1.0, 2.0, 3.0, 4.0)], lambda: wrapped.calls
