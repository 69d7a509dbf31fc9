"""Recipes of papers: optimizers around optimizers, self-supervision, continual and private learning, states kept between batches."""

import copy
import math
from collections import defaultdict

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.nn.utils import parameters_to_vector, vector_to_parameters
from tests.capture.corpus.harness import call, part, program, ramp
from tests.capture.corpus.learning import small
from tests.capture.corpus.modules import filled


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, adaptive=False, **kwargs):
        super().__init__(params, dict(rho=rho, adaptive=adaptive, **kwargs))
        self.base_optimizer = base(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        grad_norm = self._grad_norm()
        for group in self.param_groups:
            scale = group["rho"] / (grad_norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                e_w = (torch.pow(p, 2) if group["adaptive"] else 1.0) * p.grad * scale.to(p)
                p.add_(e_w)
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    def _grad_norm(self):
        return torch.norm(
            torch.stack([
                ((torch.abs(p) if group["adaptive"] else 1.0) * p.grad).norm(p=2)
                for group in self.param_groups for p in group["params"] if p.grad is not None
            ]), p=2,
        )  # fmt: skip


@program(tolerance=1e-4)
def sharpness_aware_steps():
    net = small(3, 2)
    optimizer = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9, rho=0.1)

    def f(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.first_step(zero_grad=True)
        F.cross_entropy(net(x), y).backward()
        optimizer.second_step(zero_grad=True)
        return loss.item()

    def adapt():
        for group in optimizer.param_groups:
            group["adaptive"], group["lr"] = True, 0.05

    c = (ramp(4, 3), torch.tensor([0, 1, 1, 0]))
    return f, [c, c, c, adapt, c, c, (c[0][:3], c[1][:3])], lambda: net


@program(tolerance=1e-5)
def lookahead_around_an_optimizer():
    class Lookahead:
        def __init__(self, optimizer, k=2, alpha=0.5):
            self.optimizer, self.k, self.alpha = optimizer, k, alpha
            self.param_groups = optimizer.param_groups
            self.state = defaultdict(dict)
            for group in self.param_groups:
                group["counter"] = 0

        def update(self, group):
            for fast in group["params"]:
                param_state = self.state[fast]
                if "slow_param" not in param_state:
                    param_state["slow_param"] = torch.zeros_like(fast.data)
                    param_state["slow_param"].copy_(fast.data)
                slow = param_state["slow_param"]
                slow += (fast.data - slow) * self.alpha
                fast.data.copy_(slow)

        def step(self, closure=None):
            loss = self.optimizer.step(closure)
            for group in self.param_groups:
                if group["counter"] == 0:
                    self.update(group)
                group["counter"] += 1
                if group["counter"] >= self.k:
                    group["counter"] = 0
            return loss

    net = small(3, 1)
    optimizer = Lookahead(torch.optim.RAdam(net.parameters(), lr=0.05), k=3)

    def f(x):
        optimizer.optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return f, [(ramp(4, 3, step=0.1 + 0.01 * i),) for i in range(8)], lambda: (net, [g["counter"] for g in optimizer.param_groups])


@program(tolerance=1e-4)
def gradients_of_tasks_projected():
    body, heads = small(3, 4), nn.ModuleList([filled(nn.Linear(4, 1)) for _ in range(2)])
    optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=0.01)

    def f(x, ys, surgery):
        h = torch.relu(body(x))
        losses = [F.mse_loss(head(h), y) for head, y in zip(heads, ys, strict=True)]
        grads = []
        for loss in losses:
            optimizer.zero_grad(set_to_none=True)
            loss.backward(retain_graph=True)
            grads.append(torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in body.parameters()]))
        merged = [g.clone() for g in grads]
        conflicts = 0
        if surgery:
            for i, g in enumerate(merged):
                for j in np.random.permutation(len(grads)):
                    dot = torch.dot(g, grads[j])
                    if dot < 0:
                        conflicts += 1
                        g -= dot * grads[j] / grads[j].norm() ** 2
                merged[i] = g
        optimizer.zero_grad()
        sum(losses).backward()
        total, index = torch.stack(merged).sum(0), 0
        for p in body.parameters():
            p.grad = total[index : index + p.numel()].view_as(p)
            index += p.numel()
        optimizer.step()
        return [loss.item() for loss in losses], conflicts

    x, y = ramp(4, 3), ramp(4, 1)
    return f, [(x, (y, -y), True), (x, (y, -y), True), (x, (y, y), True), (x, (y, -y), False), (x[:3], (y[:3], -y[:3]), True)], lambda: body


@program(tolerance=1e-5)
def consolidation_of_old_tasks():
    net = nn.ModuleDict({"body": small(3, 4), "heads": nn.ModuleDict()})
    held = {"fisher": {}, "mean": {}, "optimizer": None}

    def add(name, size):
        def act():
            net["heads"][name] = filled(nn.Linear(4, size))
            held["optimizer"] = torch.optim.SGD(net.parameters(), lr=0.05)

        return act

    def forward(x, task):
        return net["heads"][task](torch.tanh(net["body"](x)))

    def f(x, y, task, strength=1.0):
        loss = F.cross_entropy(forward(x, task), y)
        for n, p in net["body"].named_parameters():
            if n in held["fisher"]:
                loss = loss + strength * (held["fisher"][n] * (p - held["mean"][n]) ** 2).sum()
        held["optimizer"].zero_grad()
        loss.backward()
        held["optimizer"].step()
        return loss.detach()

    def consolidate():
        net.zero_grad()
        F.nll_loss(F.log_softmax(forward(ramp(4, 3), "a"), 1), torch.tensor([0, 1, 1, 0])).backward()
        for n, p in net["body"].named_parameters():
            held["fisher"][n] = p.grad.data.clone().pow(2)
            held["mean"][n] = p.data.clone()

    x, y = ramp(4, 3), torch.tensor([0, 1, 1, 0])
    calls = [
        add("a", 2),
        (x, y, "a"),
        (x, y, "a"),
        consolidate,
        add("b", 3),
        (x * 2, y, "b"),
        (x * 2, y, "b"),
        (x, y, "a"),
        (x, y, "b", 5.0),
    ]
    return f, calls, lambda: (net["body"], [p.grad for p in net.parameters()])


@program(tolerance=1e-5)
def private_steps_by_micro_batches():
    net = small(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def f(x, y, bound, noise):
        saved = {p: torch.zeros_like(p) for p in net.parameters()}
        norms = []
        for i in range(x.shape[0]):
            net.zero_grad()
            F.cross_entropy(net(x[i : i + 1]), y[i : i + 1]).backward()
            norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in net.parameters()))
            factor = min(1.0, bound / (norm.item() + 1e-6))
            norms.append(norm.item())
            for p in net.parameters():
                saved[p].add_(p.grad * factor)
        for p in net.parameters():
            p.grad = (saved[p] + noise * bound * torch.randn_like(p)) / x.shape[0]
        optimizer.step()
        return round(float(np.mean(norms)), 4), sum(n > bound for n in norms)

    x, y = ramp(3, 3), torch.tensor([0, 1, 1])
    return f, [(x, y, 1.0, 0.1), (x, y, 1.0, 0.1), (x * 3, y, 0.5, 0.1), (x[:2], y[:2], 1.0, 0.0), (x, y, 0.1, 0.2)], lambda: net


@program(tolerance=1e-5)
def clients_averaged_by_a_server():
    server = nn.Sequential(filled(nn.Linear(3, 4, bias=False)), nn.BatchNorm1d(4), nn.ReLU(), filled(nn.Linear(4, 2)))

    def local(data, epochs, lr):
        net = copy.deepcopy(server)
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        for _ in range(epochs):
            for x, y in data:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        return {k: v.cpu() for k, v in net.state_dict().items()}, sum(len(x) for x, _ in data)

    def f(clients, epochs, lr=0.1):
        states = [local(data, epochs, lr) for data in clients]
        total = sum(n for _, n in states)
        merged = {}
        for key in states[0][0]:
            merged[key] = sum(s[key].float() * (n / total) for s, n in states).to(states[0][0][key].dtype)
        server.load_state_dict(merged)
        return total

    a, b = (ramp(3, 3, step=0.7).sin(), torch.tensor([0, 1, 1])), (ramp(2, 3) * 2, torch.tensor([1, 0]))
    return f, [([[a], [b]], 1), ([[a], [b]], 1), ([[a, b], [b]], 1), ([[a]], 2, 0.05)], lambda: server


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def quantizers_with_observers():
    class FakeQuantize(nn.Module):
        def __init__(self, bits=4, momentum=0.5):
            super().__init__()
            self.levels, self.momentum, self.observing, self.quantizing = 2**bits - 1, momentum, True, False
            self.register_buffer("low", torch.tensor(float("inf")))
            self.register_buffer("high", torch.tensor(float("-inf")))

        def forward(self, x):
            if self.observing and self.training:
                low, high = x.detach().min(), x.detach().max()
                if torch.isinf(self.low):
                    self.low.copy_(low)
                    self.high.copy_(high)
                else:
                    self.low.lerp_(low, self.momentum)
                    self.high.lerp_(high, self.momentum)
            if not self.quantizing:
                return x
            scale = (self.high - self.low).clamp(min=1e-8) / self.levels
            q = ((x - self.low) / scale).round().clamp(0, self.levels) * scale + self.low
            return x + (q - x).detach()

    net = nn.Sequential(filled(nn.Linear(3, 4)), FakeQuantize(), nn.ReLU(), filled(nn.Linear(4, 2)), FakeQuantize(8))
    model = part(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def f(x, y):
        out = model(x)
        loss = F.mse_loss(out, y)
        if net.training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach(), out.detach()

    def switch(**flags):
        def act():
            for m in net.modules():
                if isinstance(m, FakeQuantize):
                    for k, v in flags.items():
                        setattr(m, k, v)

        return act

    c = (ramp(3, 3), ramp(3, 2))
    return f, [c, c, switch(quantizing=True), c, c, switch(observing=False), c, net.eval, c, c], lambda: net


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def hidden_state_carried_between_batches():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.rnn, self.out = nn.Embedding(5, 3), nn.LSTM(3, 4, num_layers=2), nn.Linear(4, 5)

        def init_hidden(self, size):
            weight = next(self.parameters())
            return (weight.new_zeros(2, size, 4), weight.new_zeros(2, size, 4))

        def forward(self, ids, hidden):
            y, hidden = self.rnn(self.embed(ids), hidden)
            return F.log_softmax(self.out(y).view(-1, 5), dim=1), hidden

    def repackage(h):
        return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage(v) for v in h)

    net = filled(Model())
    model = part(net)
    held = {"hidden": None, "lr": 1.0, "best": None, "total": 0.0}

    def f(ids, target):
        if held["hidden"] is None or held["hidden"][0].shape[1] != ids.shape[1]:
            held["hidden"] = net.init_hidden(ids.shape[1])
        net.zero_grad()
        held["hidden"] = repackage(held["hidden"])
        out, held["hidden"] = model(ids, held["hidden"])
        loss = F.nll_loss(out, target.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        for p in net.parameters():
            p.data.add_(p.grad, alpha=-held["lr"])
        held["total"] += loss.item()
        if not held["best"] or loss.item() < held["best"]:
            held["best"] = loss.item()
        else:
            held["lr"] /= 4.0
        return round(math.exp(min(held["total"], 5)), 3)

    def batch(length, size):
        ids = (torch.arange((length + 1) * size) * 3 % 5).view(-1, size)
        return ids[:-1], ids[1:]

    def end():
        held["hidden"] = None

    return f, [batch(3, 2), batch(3, 2), batch(2, 2), end, batch(3, 1), batch(4, 2), batch(3, 2)], lambda: (net, held["hidden"], held["lr"])


@program(tolerance=1e-5)
def evolution_of_a_flat_vector():
    net = small(2, 1)
    held = {"sigma": 0.1, "best": -math.inf}

    def fitness(x):
        with torch.no_grad():
            return -(net(x) - 1).square().mean().item()

    def f(x, population, lr):
        center = parameters_to_vector(net.parameters()).detach()
        noise = torch.randn(population, center.numel())
        scores = []
        for i in range(population):
            vector_to_parameters(center + held["sigma"] * noise[i], net.parameters())
            scores.append(fitness(x))
        ranks = np.argsort(np.argsort(scores)) / max(1, population - 1) - 0.5
        update = torch.from_numpy(ranks.astype(np.float32)) @ noise / (population * held["sigma"])
        vector_to_parameters(center + lr * update, net.parameters())
        held["best"] = max(held["best"], *scores)
        held["sigma"] *= 0.99
        return round(held["best"], 4)

    return (
        f,
        [(ramp(3, 2), 3, 0.1), (ramp(3, 2), 3, 0.1), (ramp(3, 2), 2, 0.1), (ramp(4, 2), 3, 0.05)],
        lambda: [p.detach() for p in net.parameters()],
    )


@program(tolerance=1e-5, forms=("function", "module"))
def teacher_centered_without_labels():
    class DINOLoss(nn.Module):
        def __init__(self, size, epochs, warmup=2):
            super().__init__()
            self.register_buffer("center", torch.zeros(1, size))
            self.schedule = np.concatenate((np.linspace(0.04, 0.07, warmup), np.ones(epochs - warmup) * 0.07))

        def forward(self, student, teacher, epoch):
            student = (student / 0.1).chunk(3)
            soft = F.softmax((teacher - self.center) / self.schedule[epoch], dim=-1).detach().chunk(2)
            total, terms = 0, 0
            for iq, q in enumerate(soft):
                for v, s in enumerate(student):
                    if v == iq:
                        continue
                    total += torch.sum(-q * F.log_softmax(s, dim=-1), dim=-1).mean()
                    terms += 1
            self.update_center(teacher)
            return total / terms

        @torch.no_grad()
        def update_center(self, teacher):
            self.center = self.center * 0.9 + torch.sum(teacher, dim=0, keepdim=True) / len(teacher) * 0.1

    student, teacher = small(3, 4), small(3, 4)
    teacher.load_state_dict(student.state_dict())
    for p in teacher.parameters():
        p.requires_grad = False
    criterion = DINOLoss(4, 8)
    optimizer = torch.optim.AdamW(student.parameters(), lr=0.01)
    momentum = [1 - 0.1 * (math.cos(math.pi * i / 8) + 1) / 2 for i in range(8)]

    def f(crops, it):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (it + 1) / 4 if it < 3 else 0.01
            group["weight_decay"] = 0.04 + 0.01 * it
        loss = criterion(student(torch.cat(crops)), teacher(torch.cat(crops[:2])), it)
        if not math.isfinite(loss.item()):
            raise FloatingPointError(f"loss is {loss.item()}")
        optimizer.zero_grad()
        loss.backward()
        for n, p in student.named_parameters():
            if p.grad is not None and it < 1 and n.startswith("2."):
                p.grad = None
            elif p.grad is not None:
                clip = 0.3 / (p.grad.data.norm(2) + 1e-6)
                if clip < 1:
                    p.grad.data.mul_(clip)
        optimizer.step()
        with torch.no_grad():
            m = momentum[it]
            for q, k in zip(student.parameters(), teacher.parameters(), strict=True):
                k.data.mul_(m).add_((1 - m) * q.detach().data)
        return loss.item()

    def crops(i, n=2):
        return [ramp(n, 3) + 0.1 * i, ramp(n, 3) - 0.1 * i, ramp(n, 3) * 0.5]

    calls = [(crops(i), i) for i in range(5)] + [(crops(5, 3), 5), ([c * float("inf") for c in crops(1)], 6)]
    return f, calls, lambda: (student, teacher, criterion.center)


@program(tolerance=1e-4)
def views_whose_correlations_count():
    net = nn.Sequential(filled(nn.Linear(3, 4, bias=False)), nn.BatchNorm1d(4, affine=False))

    def off_diagonal(x):
        n, m = x.shape
        assert n == m
        return x.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()

    def sinkhorn(scores, rounds):
        q = torch.exp(scores / 0.5).t()
        q /= q.sum()
        for _ in range(rounds):
            q /= q.sum(dim=1, keepdim=True) * q.shape[0]
            q /= q.sum(dim=0, keepdim=True) * q.shape[1]
        return (q * q.shape[1]).t()

    def f(a, b, how, weight=0.1):
        za, zb = net(a), net(b)
        if how == "barlow":
            c = za.T @ zb
            c.div_(a.shape[0])
            loss = torch.diagonal(c).add_(-1).pow_(2).sum() + weight * off_diagonal(c).pow_(2).sum()
        elif how == "vicreg":
            std = [torch.sqrt(z.var(dim=0) + 1e-4) for z in (za, zb)]
            loss = F.mse_loss(za, zb) + sum(F.relu(1 - s).mean() for s in std)
            loss = loss + weight * sum(off_diagonal((z - z.mean(0)).T @ (z - z.mean(0))).pow(2).sum() for z in (za, zb))
        elif how == "supcon":
            features = F.normalize(torch.cat([za, zb]), dim=1)
            logits = features @ features.T / 0.5
            logits = logits - logits.max(dim=1, keepdim=True).values.detach()
            eye = torch.eye(len(features), dtype=torch.bool)
            same = torch.arange(len(features)) % len(a)
            mask = (same[:, None] == same[None, :]) & ~eye
            log_prob = logits - torch.log((logits.exp() * ~eye).sum(1, keepdim=True))
            loss = -((mask * log_prob).sum(1) / mask.sum(1)).mean()
        else:
            with torch.no_grad():
                codes = sinkhorn(za, 2)
            loss = -torch.mean(torch.sum(codes * F.log_softmax(zb, dim=1), dim=1))
        loss.backward()
        found = net[0].weight.grad.clone()
        net.zero_grad()
        return loss.detach(), found

    a, b = ramp(4, 3, step=0.7).sin(), ramp(4, 3, step=0.5).cos()
    return (
        f,
        [(a, b, h) for h in ("barlow", "vicreg", "supcon", "swav", "barlow")] + [(a[:3], b[:3], "barlow"), (a, b, "supcon")],
        lambda: net,
    )


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def rotary_positions_cached_by_length():
    class Rotary(nn.Module):
        def __init__(self, dim, base=100):
            super().__init__()
            self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)))
            self.seq_len_cached = self.cos_cached = self.sin_cached = None

        def forward(self, x, seq_dim=1):
            seq_len = x.shape[seq_dim]
            if seq_len != self.seq_len_cached:
                self.seq_len_cached = seq_len
                t = torch.arange(x.shape[seq_dim]).type_as(self.inv_freq)
                freqs = torch.einsum("i,j->ij", t, self.inv_freq)
                emb = torch.cat((freqs, freqs), dim=-1)
                self.cos_cached, self.sin_cached = emb.cos()[None, :, None, :], emb.sin()[None, :, None, :]
            return self.cos_cached, self.sin_cached

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out, self.rotary = nn.Linear(8, 24), nn.Linear(8, 8), Rotary(4)
            self.slopes = torch.tensor([0.5, 0.25])
            self._bias = {}

        def bias(self, n):
            if n not in self._bias:
                distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]
                self._bias[n] = (self.slopes[:, None, None] * distance).masked_fill(distance > 0, float("-inf"))
            return self._bias[n]

        def forward(self, x):
            q, k, v = self.qkv(x).view(*x.shape[:2], 3, 2, 4).unbind(2)
            cos, sin = self.rotary(q)
            turn = lambda t: t * cos + torch.cat((-t[..., 2:], t[..., :2]), dim=-1) * sin  # noqa: E731
            scores = torch.einsum("bqhd,bkhd->bhqk", turn(q), turn(k)) / 2 + self.bias(x.shape[1])
            return self.out(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2))

    net = filled(Attention())
    model = part(net)

    def f(x):
        y = model(x)
        y.square().mean().backward()
        return y.detach()

    calls = [(ramp(2, n, 8, step=0.05),) for n in (3, 3, 4, 5, 3, 6, 6)]
    return f, calls, lambda: ([p.grad for p in net.parameters()], sorted(net._bias), net.rotary.seq_len_cached)


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def windows_shifted_and_padded():
    def partition(x, w):
        b, h, wid, c = x.shape
        return x.view(b, h // w, w, wid // w, w, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, w, w, c)

    def reverse(windows, w, h, wid):
        b = int(windows.shape[0] / (h * wid / w / w))
        return windows.view(b, h // w, wid // w, w, w, -1).permute(0, 1, 3, 2, 4, 5).contiguous().view(b, h, wid, -1)

    class Block(nn.Module):
        def __init__(self, window, shift, drop):
            super().__init__()
            self.window, self.shift, self.drop = window, shift, drop
            self.mix, self.norm = nn.Linear(window * window, window * window), nn.LayerNorm(3)

        def forward(self, x):
            b, h, w, c = x.shape
            pad_b, pad_r = (self.window - h % self.window) % self.window, (self.window - w % self.window) % self.window
            y = F.pad(self.norm(x), (0, 0, 0, pad_r, 0, pad_b))
            hp, wp = y.shape[1:3]
            if self.shift > 0:
                y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
            y = partition(y, self.window).flatten(1, 2)
            y = self.mix(y.transpose(1, 2)).transpose(1, 2)
            y = reverse(y.reshape(-1, self.window, self.window, c), self.window, hp, wp)
            if self.shift > 0:
                y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
            if pad_r > 0 or pad_b > 0:
                y = y[:, :h, :w, :].contiguous()
            if self.drop and self.training:
                keep = 1 - self.drop
                y = y.div(keep) * (keep + torch.rand((b,) + (1,) * (y.ndim - 1))).floor_()
            return x + y

    net = filled(nn.Sequential(Block(2, 0, 0.0), Block(2, 1, 0.3)))
    model = part(net)

    def f(x):
        out = model(x)
        if net.training:
            out.square().mean().backward()
        return out.detach()

    calls = [(ramp(2, h, w, 3, step=0.37).sin(),) for h, w in ((4, 4), (4, 4), (3, 4), (5, 6), (6, 6))]
    return f, [*calls, net.eval, calls[0], calls[2]], lambda: [p.grad for p in net.parameters()]


@program(tolerance=1e-4, forms=("function", "parts"))
def entropy_with_a_learned_temperature():
    actor, critic = small(2, 4), small(4, 1)
    target = copy.deepcopy(critic).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True)
    opts = [torch.optim.Adam(p, lr=0.01) for p in (actor.parameters(), critic.parameters(), [log_alpha])]
    policy = part(actor)

    def act(s):
        mean, log_std = policy(s).chunk(2, -1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp(), validate_args=False)
        z = normal.rsample()
        a = torch.tanh(z)
        return a, (normal.log_prob(z) - torch.log(1 - a.pow(2) + 1e-6)).sum(-1, keepdim=True)

    def f(s, a, r, s2, entropy=-2.0):
        alpha = log_alpha.exp()
        with torch.no_grad():
            a2, lp2 = act(s2)
            goal = r + 0.9 * (target(torch.cat([s2, a2], -1)) - alpha * lp2)
        loss_q = F.mse_loss(critic(torch.cat([s, a], -1)), goal)
        opts[1].zero_grad()
        loss_q.backward()
        opts[1].step()
        critic.requires_grad_(False)
        new, lp = act(s)
        loss_pi = (alpha.detach() * lp - critic(torch.cat([s, new], -1))).mean()
        opts[0].zero_grad()
        loss_pi.backward()
        opts[0].step()
        critic.requires_grad_(True)
        loss_alpha = -(log_alpha * (lp + entropy).detach()).mean()
        opts[2].zero_grad()
        loss_alpha.backward()
        opts[2].step()
        for p, q in zip(critic.parameters(), target.parameters(), strict=True):
            q.data.copy_(0.1 * p.data + 0.9 * q.data)
        return loss_q.item(), loss_pi.item(), alpha.item()

    def batch(n, i):
        return ramp(n, 2) + 0.1 * i, ramp(n, 2), ramp(n, 1), ramp(n, 2) - 0.1 * i

    calls = [batch(3, i) for i in range(4)] + [call(*batch(3, 4), entropy=-1.0), batch(2, 5)]
    return f, calls, lambda: (actor, critic, target, log_alpha)


@program(tolerance=1e-5)
def priorities_in_a_tree_of_sums():
    class SumTree:
        def __init__(self, capacity):
            self.capacity, self.tree, self.data = capacity, np.zeros(2 * capacity - 1), np.zeros(capacity, dtype=object)
            self.write = self.count = 0

        def update(self, index, p):
            change = p - self.tree[index]
            self.tree[index] = p
            while index != 0:
                index = (index - 1) // 2
                self.tree[index] += change

        def add(self, p, data):
            index = self.write + self.capacity - 1
            self.data[self.write] = data
            self.update(index, p)
            self.write = (self.write + 1) % self.capacity
            self.count = min(self.count + 1, self.capacity)

        def get(self, s):
            index = 0
            while 2 * index + 1 < len(self.tree):
                left = 2 * index + 1
                if s <= self.tree[left]:
                    index = left
                else:
                    s -= self.tree[left]
                    index = left + 1
            return index, self.tree[index], self.data[index - self.capacity + 1]

    net, tree = small(2, 1), SumTree(4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def f(state, reward, beta):
        error = abs(float(net(state).squeeze().detach()) - reward)
        tree.add((error + 0.01) ** 0.6, (state, reward))
        if tree.count < 3:
            return None
        found = [tree.get(np.random.uniform(0, tree.tree[0])) for _ in range(2)]
        weights = np.array([(tree.count * p / tree.tree[0]) ** -beta for _, p, _ in found])
        weights = torch.tensor(weights / weights.max(), dtype=torch.float32)
        states, goals = torch.stack([d[0] for *_, d in found]), torch.tensor([d[1] for *_, d in found])
        errors = net(states).squeeze(-1) - goals
        loss = (weights * errors.pow(2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for (index, _, _), e in zip(found, errors.detach().abs().numpy(), strict=True):
            tree.update(index, (float(e) + 0.01) ** 0.6)
        return loss.item()

    return f, [(ramp(2) + 0.2 * i, 0.5 * (i % 3), 0.4 + 0.1 * i) for i in range(6)], lambda: (net, tree.tree, tree.count)


@program(tolerance=1e-5)
def modules_and_optimizers_made_at_every_call():
    net = small(2, 2)
    made = {
        "adam": lambda p: torch.optim.Adam([{"params": p}], lr=0.05),
        "momentum": lambda p: torch.optim.SGD(filter(lambda q: q.ndim > 1, p), lr=0.1, momentum=0.9),
        "rprop": lambda p: torch.optim.Rprop(list(p), lr=0.01),
    }

    def f(x, how, steps=2):
        clone = copy.deepcopy(net)
        optimizer = made[how](clone.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(steps):
            optimizer.zero_grad()
            (clone(x) - 1).square().mean().backward()
            nn.utils.clip_grad_norm_(clone.parameters(), 0.5)
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            whole = nn.Sequential(clone, nn.ReLU())(x), torch.func.functional_call(clone, {}, (x,))
            for p, q in zip(net.parameters(), clone.parameters(), strict=True):
                p.lerp_(q, 0.5)
        return whole, parameters_to_vector(clone.parameters()).detach(), schedule.get_last_lr()

    x = ramp(3, 2)
    return f, [(x, h) for h in ("adam", "adam", "momentum", "adam", "momentum", "rprop", "rprop")] + [(x * 2, "adam", 1)], lambda: net


@program(tolerance=1e-5)
def optimizers_of_one_call_over_lasting_parameters():
    code, net = nn.Parameter(ramp(2)), small(2, 1)

    def f(target, steps):
        optimizer = torch.optim.AdamW([{"params": [code], "weight_decay": 0.0}], lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (net(code) - target).square().sum()
            loss.backward(inputs=[code])
            optimizer.step()
        return loss.item(), len(optimizer.state), optimizer.param_groups[0]["lr"]

    return f, [(0.5, 2), (0.5, 2), (1.0, 2), (1.0, 3), (0.0, 2)], lambda: code
