"""Numerics around learning: differential equations, samplers, energies, searches, kernels, statistics that are computed in pieces."""

import copy
import math
from collections import deque
from functools import partial, reduce

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.func import functional_call, stack_module_state, vmap
from tests.capture.corpus.harness import call, part, program, ramp
from tests.capture.corpus.learning import small
from tests.capture.corpus.modules import filled


@program(tolerance=1e-5)
def batches_sliced_at_drawn_positions():
    data = torch.arange(60) * 13 % 7
    table = nn.Parameter(ramp(7, 7, step=0.01))

    def get_batch(block, size):
        ix = torch.randint(len(data) - block, (size,))
        x = torch.stack([data[i : i + block] for i in ix])
        y = torch.stack([data[i + 1 : i + 1 + block] for i in ix])
        return x, y

    def f(block, size):
        x, y = get_batch(block, size)
        loss = F.cross_entropy(table[x].flatten(0, 1), y.flatten())
        loss.backward()
        with torch.no_grad():
            table.sub_(table.grad)
        table.grad = None
        return loss.detach(), x

    return f, [(4, 2)] * 5 + [(6, 2), (6, 3), (5, 1)], lambda: table


@program(tolerance=1e-5, forms=("function", "method"))
def inputs_that_come_to_require_gradients():
    net = small(3, 2)

    def f(x, y, epsilon, steps, mode="fgsm"):
        if mode == "fgsm":
            x.requires_grad = True
            loss = F.cross_entropy(net(x), y)
            net.zero_grad()
            loss.backward()
            return torch.clamp(x + epsilon * x.grad.data.sign(), -2, 2).detach()
        adv = x.detach() + torch.zeros_like(x).uniform_(-epsilon, epsilon)
        for _ in range(steps):
            adv.requires_grad_()
            with torch.enable_grad():
                loss = F.cross_entropy(net(adv), y)
            grad = torch.autograd.grad(loss, [adv])[0]
            adv = adv.detach() + epsilon / 4 * torch.sign(grad.detach())
            adv = torch.min(torch.max(adv, x - epsilon), x + epsilon)
        return adv

    data, y = ramp(6, 3), torch.tensor([0, 1, 1])
    calls = [(data[:3], y, 0.1, 0), (data[3:], y, 0.1, 0), (data[1:4], y, 0.2, 0), (data[:3].clone(), y, 0.1, 0)]
    return (
        f,
        [*calls, (data[:3].clone(), y, 0.1, 3, "pgd"), (data[3:].clone(), y, 0.1, 2, "pgd")],
        lambda: [p.grad for p in net.parameters()],
    )


@program(tolerance=1e-6)
def operands_without_elements_have_gradients_of_zeros():
    w, v = nn.Parameter(ramp(3, 2)), nn.Parameter(ramp(3, 2) + 1)

    def f(index, how):
        if how == "cat":
            y = torch.cat([w[index], v])
        elif how == "scatter":
            y = torch.zeros(3, 2).scatter_add(0, index[:, None].expand(-1, 2), w[index]) + v
        elif how == "reduce":
            y = v.scatter_reduce(0, index[:, None].expand(-1, 2), w[index], "amax")
        elif how == "fill":
            y = torch.cat([w * 2, v])
            y[:3].zero_() if index.numel() else y.fill_(1.0)
        else:
            y = w.gather(0, index[:, None]) if index.numel() < 2 else v * 1.0
        if not y.requires_grad:
            return y, None
        y.sum().backward()
        found = [None if p.grad is None else p.grad.clone() for p in (w, v)]
        w.grad = v.grad = None
        return y.detach(), found

    none, some = torch.zeros(0, dtype=torch.long), torch.tensor([2, 0])
    return f, [(i, how) for how in ("cat", "scatter", "reduce", "fill", "gather") for i in (none, some)]


@program(tolerance=1e-5)
def boxes_of_images_some_of_which_have_none():
    head = filled(nn.Linear(4, 3))

    def f(images):
        features = [head(b) for b in images]
        labels = [b.sum(1).long() % 3 for b in images]
        logits, target = torch.cat(features), torch.cat(labels)
        loss = F.cross_entropy(logits, target, reduction="sum") / max(1, target.numel())
        loss.backward()
        found = [p.grad.clone() for p in head.parameters()]
        head.zero_grad()
        return loss.detach(), found, [len(x) for x in features]

    a, b, none = ramp(2, 4), ramp(3, 4) + 1, torch.zeros(0, 4)
    return f, [([a, b],), ([a, none],), ([none, b],), ([none, none],), ([none],), ([b, a, none],)]


@program(tolerance=1e-5)
def losses_where_every_target_is_ignored():
    net = filled(nn.Linear(3, 4))

    def f(x, y, smoothing, reduction="mean"):
        loss = F.cross_entropy(net(x), y, ignore_index=-1, label_smoothing=smoothing, reduction=reduction)
        loss.backward()
        found = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        return torch.nan_to_num(loss.detach(), -1.0), found

    x, good, none = ramp(3, 3), torch.tensor([0, -1, 2]), torch.full((3,), -1)
    calls = [(x, good, 0.0), (x, none, 0.0), (x, none, 0.1), (x, good, 0.1), (x[:2], none[:2], 0.0), (x, none, 0.0, "sum"), (x, good, 0.0)]
    return f, calls


@program(tolerance=1e-5)
def masters_beside_parameters():
    net = small(2, 2)
    masters = [p.detach().clone().requires_grad_() for p in net.parameters()]
    history = deque(maxlen=3)

    def f(x, scale):
        net.zero_grad()
        (net(x).square().sum() * scale).backward()
        for master, p in zip(masters, net.parameters(), strict=True):
            if master.grad is None:
                master.grad = torch.empty_like(master)
            master.grad.copy_(p.grad).div_(scale)
        history.append(sum(m.grad.norm().item() ** 2 for m in masters) ** 0.5)
        limit = float(np.percentile(history, 50))
        norm = nn.utils.clip_grad_norm_(masters, limit)
        with torch.no_grad():
            for i, (master, (_, p)) in enumerate(zip(masters, net.named_parameters(), strict=True)):
                master.add_(master.grad, alpha=-0.1 / (i + 1))
                p.copy_(master)
        largest = max(m.abs().max().item() for m in masters)
        return norm, min(largest, 9.0), sum([m.sum().item() for m in masters])

    return f, [(ramp(2, 2) + 0.1 * i, 2.0 ** (i // 3)) for i in range(9)], lambda: (net, masters, list(history))


@program(tolerance=1e-5)
def parameters_renormalized_in_place():
    class Projected(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.gain = nn.Parameter(ramp(3, 2)), nn.Parameter(torch.ones(3))
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            if self.training:
                self.weight.data.copy_(self.weight.data / self.weight.data.norm(dim=1, keepdim=True).clamp(min=1e-6))
                self.steps += 1
            return F.linear(x, self.weight) * self.gain

    net = Projected()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def f(x):
        out = net(x)
        loss = (out - 1).abs().mean()
        value = loss.item()
        if net.training and value > 0.01:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return value, out.detach()

    x = ramp(4, 2)
    return f, [(x,), (x,), net.eval, (x,), net.train, (x + 1,), (ramp(3, 2),)], lambda: (net, net.steps)


@program(tolerance=1e-5)
def state_dictionaries_mixed_inside():
    net, slow = small(2, 2), small(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    held = {"best": None, "score": -math.inf}

    def f(x, tau, keep):
        loss = (net(x) - slow(x).detach() - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after, before = slow.state_dict(), net.state_dict()
        for key in before:
            after[key] = before[key] * tau + after[key] * (1 - tau)
        slow.load_state_dict(after)
        if keep and -loss.item() > held["score"]:
            held["score"], held["best"] = -loss.item(), copy.deepcopy(net.state_dict())
        elif held["best"] is not None:
            net.load_state_dict(held["best"])
        return loss.detach()

    x = ramp(3, 2)
    return f, [(x, 0.5, False), (x, 0.5, True), (x, 0.25, True), (x * 2, 0.25, False), (x, 0.1, True)], lambda: (net, slow, held["score"])


@program(tolerance=1e-5)
def settings_annealed_at_every_step():
    held = {"step": 0}
    logits, m = nn.Parameter(ramp(2, 3)), torch.zeros(2, 3)

    def f(x):
        held["step"] += 1
        t = held["step"]
        tau = max(0.5, math.exp(-0.1 * t))
        beta = min(1.0, t / 10)
        choice = F.gumbel_softmax(logits, tau=tau, hard=t % 2 == 0)
        loss = (choice * x).sum() + beta * logits.softmax(-1).log().neg().mean()
        loss.backward()
        with torch.no_grad():
            m.mul_(0.9).add_(logits.grad, alpha=0.1)
            step = 0.1 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            logits.addcdiv_(m, logits.grad.abs().sqrt() + 1e-3, value=-step)
            torch._foreach_mul_([m], 1 - 0.01 * t)
        logits.grad = None
        return loss.detach(), round(tau, 4)

    return f, [(ramp(2, 3) + i,) for i in range(8)], lambda: (logits, m)


@program(tolerance=1e-4, forms=("function", "module", "parts"))
def equations_integrated_with_steps_that_adapt():
    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.nfe = small(2, 2), 0

        def forward(self, t, y):
            self.nfe += 1
            return self.net(y**3) * (1 + t)

    field = Field()
    right = part(field)

    def rk4(t, dt, y):
        k1 = right(t, y)
        k2 = right(t + dt / 2, y + dt * k1 / 2)
        k3 = right(t + dt / 2, y + dt * k2 / 2)
        k4 = right(t + dt, y + dt * k3)
        return (k1 + 2 * k2 + 2 * k3 + k4) * dt / 6

    def f(y0, times, tolerance=None):
        out, y = [y0], y0
        for t0, t1 in zip(times[:-1], times[1:], strict=True):
            if tolerance is None:
                y = y + rk4(t0, t1 - t0, y)
            else:
                t, dt, tries = float(t0), float(t1 - t0), 0
                while t < float(t1) - 1e-6 and tries < 6:
                    tries += 1
                    whole = rk4(t, dt, y)
                    half = rk4(t, dt / 2, y)
                    half = half + rk4(t + dt / 2, dt / 2, y + half)
                    error = (whole - half).abs().max().item()
                    if error < tolerance:
                        t, y = t + dt, y + half
                        dt = min(dt * 1.5, float(t1) - t)
                    else:
                        dt = dt / 2
            out.append(y)
        loss = torch.stack(out).square().mean()
        loss.backward()
        return loss.detach()

    t = torch.linspace(0.0, 0.5, 3)
    calls = [
        (ramp(2, 2), t),
        (ramp(2, 2), t * 1.5),
        (ramp(2, 2), t, 1e-2),
        (ramp(2, 2) * 2, t, 1e-4),
        (ramp(3, 2), torch.linspace(0, 1, 2)),
    ]
    return f, calls, lambda: (field, field.nfe, [p.grad for p in field.parameters()])


@program(tolerance=1e-4)
def chains_of_a_sampler_with_a_buffer():
    energy = small(2, 1, 5)
    optimizer = torch.optim.Adam(energy.parameters(), lr=0.01, betas=(0.0, 0.999))
    buffer = [ramp(1, 2) * i for i in range(4)]

    def sample(x, steps, size):
        was = energy.training
        energy.eval()
        for p in energy.parameters():
            p.requires_grad = False
        x.requires_grad = True
        noise = torch.randn(x.shape)
        for _ in range(steps):
            noise.normal_(0, 0.005)
            x.data.add_(noise.data)
            x.data.clamp_(min=-1.0, max=1.0)
            out = -energy(x)
            out.sum().backward()
            x.grad.data.clamp_(-0.03, 0.03)
            x.data.add_(-size * x.grad.data)
            x.grad.detach_()
            x.grad.zero_()
        for p in energy.parameters():
            p.requires_grad = True
        energy.train(was)
        return x.detach()

    def f(real, steps):
        fake = sample(torch.cat([buffer[i] for i in (0, 2)]).clone(), steps, 10.0)
        buffer[:] = [*fake.chunk(2), *buffer][:4]
        out = energy(torch.cat([real, fake], 0))
        a, b = out.split([real.shape[0], fake.shape[0]])
        loss = 0.1 * (a**2 + b**2).mean() + b.mean() - a.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(energy.parameters(), max_norm=0.1)
        optimizer.step()
        return loss.detach(), fake

    return f, [(ramp(2, 2), 2), (ramp(2, 2) * 0.5, 2), (ramp(2, 2), 3), (ramp(2, 2), 2)], lambda: (energy, buffer)


@program(tolerance=1e-5)
def ensembles_by_stacked_states():
    nets = [small(2, 1) for _ in range(3)]
    for i, net in enumerate(nets):
        net[0].weight.data.mul_(i + 1)
    base = copy.deepcopy(nets[0])
    held = dict(zip(("params", "buffers"), stack_module_state(nets), strict=True))

    def one(params, buffers, x, y):
        return F.mse_loss(functional_call(base, (params, buffers), (x,)), y)

    def f(x, y, lr):
        grads, losses = vmap(torch.func.grad_and_value(one), in_dims=(0, 0, None, None))(held["params"], held["buffers"], x, y)
        with torch.no_grad():
            held["params"] = {k: p - lr * grads[k] for k, p in held["params"].items()}
        return losses.detach()

    x, y = ramp(4, 2), ramp(4, 1)
    return f, [(x, y, 0.1), (x, y, 0.1), (x, y, 0.05), (x[:3], y[:3], 0.02), (x, y, 0.01)], lambda: held["params"]


@program(tolerance=1e-5)
def posterior_of_a_process_by_cholesky():
    raw = nn.ParameterDict({"length": nn.Parameter(torch.tensor(0.0)), "noise": nn.Parameter(torch.tensor(-1.0))})
    optimizer = torch.optim.Adam(raw.parameters(), lr=0.1)
    kernels = {
        "rbf": lambda d, s: torch.exp(-0.5 * (d / s) ** 2),
        "matern": lambda d, s: (1 + math.sqrt(3) * d / s) * torch.exp(-math.sqrt(3) * d / s),
    }

    def f(x, y, kernel, new=None):
        s, n = F.softplus(raw["length"]), F.softplus(raw["noise"])
        distance = (x[:, None] - x[None, :]).abs()
        k = kernels[kernel](distance, s) + (n + 1e-4) * torch.eye(len(x))
        chol = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y[:, None], chol)
        if new is not None:
            cross = kernels[kernel]((new[:, None] - x[None, :]).abs(), s)
            v = torch.linalg.solve_triangular(chol, cross.T, upper=False)
            return (cross @ alpha).squeeze(1).detach(), (1 - v.square().sum(0)).detach()
        loss = 0.5 * (y @ alpha).sum() + chol.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    x = torch.linspace(0, 1, 5)
    calls = [
        (x, x.sin(), "rbf"),
        (x, x.cos(), "rbf"),
        (x, x.sin(), "matern"),
        (x[:4], x[:4].sin(), "rbf"),
        (x, x.sin(), "rbf", x[:2] + 0.1),
    ]
    return f, calls, lambda: dict(raw)


@program(tolerance=1e-5)
def search_over_a_tree_of_values():
    net = small(3, 2)

    class Node:
        __slots__ = ("children", "prior", "total", "visits")

        def __init__(self, prior):
            self.prior, self.visits, self.total, self.children = prior, 0, 0.0, {}

        def value(self):
            return self.total / self.visits if self.visits else 0.0

    def expand(node, state):
        with torch.no_grad():
            priors = net(state).softmax(-1)
        for action, p in enumerate(priors.tolist()):
            node.children[action] = Node(p)
        return float(state.mean())

    def f(state, simulations, c=1.5):
        root = Node(1.0)
        expand(root, state)
        for _ in range(simulations):
            node, path, current = root, [root], state
            while node.children:
                total = math.sqrt(sum(child.visits for child in node.children.values()) + 1)
                score = lambda item, total=total: item[1].value() + c * item[1].prior * total / (1 + item[1].visits)  # noqa: E731
                action, node = max(node.children.items(), key=score)
                current = torch.tanh(current.roll(1) + 0.3 * action)
                path.append(node)
            value = expand(node, current)
            for n in reversed(path):
                n.visits += 1
                n.total += value
        counts = torch.tensor([root.children[a].visits for a in sorted(root.children)], dtype=torch.float32)
        return counts / counts.sum(), root.value()

    return f, [(ramp(3), 3), (ramp(3) + 1, 3), (ramp(3), 5), call(ramp(3), 4, c=0.5)]


@program(tolerance=1e-5)
def statistics_gathered_in_pieces():
    class Welford:
        def __init__(self, size):
            self.count, self.mean, self.m2 = 0, torch.zeros(size), torch.zeros(size)

        def __call__(self, x, update=True):
            if update:
                for row in x:
                    self.count += 1
                    delta = row - self.mean
                    self.mean += delta / self.count
                    self.m2 += delta * (row - self.mean)
            if self.count < 2:
                return x - self.mean
            return ((x - self.mean) / (self.m2 / (self.count - 1)).sqrt().clamp(min=1e-6)).clamp(-5, 5)

    norm, window = Welford(2), deque(maxlen=3)

    def f(x, update):
        y = norm(x, update)
        window.append(y.mean(0))
        merged = reduce(torch.maximum, window)
        weights = torch.softmax(torch.arange(len(window), dtype=torch.float32), 0)
        return y, merged, sum(map(partial(torch.mul), weights, window))

    return f, [(ramp(1, 2), True), (ramp(2, 2), True), (ramp(2, 2), False), (ramp(3, 2) * 2, True), (ramp(2, 2), True)], lambda: norm.count
