"""Whole programs: loops of training, decoding and evaluation as people write them."""

import copy
import logging
import math
import time

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.capture.corpus.harness import program, ramp
from tests.capture.corpus.modules import filled

LOGGER = logging.getLogger("corpus.whole")


def mlp():
    return filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))


def batches(count):
    return [(ramp(2, 3, start=0.1 * i), ramp(2, 1, start=-0.2 * i)) for i in range(count)]


@program(tolerance=1e-5)
def loop_with_warmup_accumulation_and_logging():
    net = mlp()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 4))
    history = []

    def f(data, every):
        running = 0.0
        for i, (x, y) in enumerate(data):
            loss = F.mse_loss(net(x), y) / every
            loss.backward()
            running += loss.item() * every
            if (i + 1) % every == 0:
                norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad(set_to_none=True)
                history.append((i, round(norm.item(), 4), schedule.get_last_lr()[0]))
                LOGGER.info("step %d loss %.3f", i, running / (i + 1))
        return running

    return f, [(batches(4), 2), (batches(4), 2), (batches(3), 1)], lambda: (history, net)


@program(tolerance=1e-5)
def averaged_twin_of_a_model():
    net = mlp()
    twin = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.no_grad()
    def update(decay):
        for p, q in zip(net.parameters(), twin.parameters(), strict=True):
            q.lerp_(p, 1 - decay)

    def f(x, y, step):
        decay = min(0.99, (1 + step) / (10 + step))
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(net(x), y) + 0.1 * (net(x) - twin(x)).square().mean()
        loss.backward()
        optimizer.step()
        update(decay)
        return loss.detach(), decay

    return f, [(*b, i) for i, b in enumerate(batches(5))], lambda: twin


@program(tolerance=1e-5)
def evaluation_between_steps():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.0), nn.Linear(4, 1))
    filled(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    best = {"loss": math.inf, "state": None}

    def evaluate(data):
        net.eval()
        with torch.inference_mode():
            losses = [F.mse_loss(net(x), y).item() for x, y in data]
        net.train()
        return sum(losses) / len(losses)

    def f(x, y, data):
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
        loss = evaluate(data)
        if loss < best["loss"]:
            best.update(loss=loss, state={k: v.clone() for k, v in net.state_dict().items()})
        return round(loss, 4)

    return f, [(*b, batches(2)) for b in batches(4)], lambda: (best["state"], net.training)


@program(tolerance=1e-5)
def greedy_decoding_with_a_cache():
    embed, step, out = filled(nn.Embedding(5, 4)), filled(nn.GRUCell(4, 4)), filled(nn.Linear(4, 5))

    def f(start, most):
        ids, h, cache = [start], torch.zeros(1, 4), []
        while len(ids) < most:
            h = step(embed(torch.tensor([ids[-1]])), h)
            cache.append(h)
            token = out(h).argmax(-1).item()
            ids.append(token)
            if token == 0:
                break
        return ids, torch.cat(cache).sum(0)

    return f, [(1, 4), (2, 4), (3, 6), (1, 4)]


@program(tolerance=1e-5)
def attention_with_a_growing_cache():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4)
            self.past = None

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            if self.past is not None:
                k, v = (torch.cat([old, new], 1) for old, new in zip(self.past, (k, v), strict=True))
            self.past = (k.detach(), v.detach())
            y = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
            return self.out(y)

    net = filled(Block())
    return net, [(ramp(1, 1, 4) + 0.1 * i,) for i in range(5)], lambda: net.past


@program(tolerance=1e-5)
def parts_of_one_memory_kept_and_read_inside_try():
    kept = []

    def f(x):
        k, v = (x * 2).chunk(2, -1)
        try:
            if kept:
                k, v = torch.cat([kept[0], k]), torch.cat([kept[1], v])
        finally:
            kept[:] = k.detach(), v.detach()
        return (k * v).sum()

    return f, [(ramp(1, 4) + i,) for i in range(4)], lambda: kept


@program(tolerance=1e-5)
def sampling_with_temperature_and_top_k():
    def f(logits, temperature, k):
        if temperature == 0:
            return logits.argmax(-1)
        logits = logits / temperature
        if k is not None:
            values, _ = torch.topk(logits, min(k, logits.shape[-1]))
            logits = logits.masked_fill(logits < values[..., [-1]], -float("inf"))
        probabilities = logits.softmax(-1)
        return torch.multinomial(probabilities, 1), probabilities

    return f, [(ramp(2, 5), 1.0, 2), (ramp(2, 5), 0.5, None), (ramp(2, 5), 0, 3), (ramp(2, 5), 0.7, 9), (ramp(1, 4), 1.0, 2)]


@program(tolerance=1e-5)
def early_stopping_and_patience():
    net = mlp()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)

    class Stopper:
        def __init__(self, patience):
            self.patience, self.best, self.bad = patience, None, 0

        def __call__(self, loss):
            if self.best is None or loss < self.best - 1e-3:
                self.best, self.bad = loss, 0
            else:
                self.bad += 1
            return self.bad >= self.patience

    def f(data, epochs):
        stop, trail = Stopper(2), []
        for epoch in range(epochs):
            for x, y in data:
                optimizer.zero_grad()
                loss = (net(x) - y).abs().mean()
                loss.backward()
                optimizer.step()
            trail.append(round(loss.item(), 3))
            if stop(trail[-1]):
                break
        return epoch, trail, stop.bad

    return f, [(batches(2), 3), (batches(2), 5), (batches(1), 2)], lambda: net


@program(tolerance=1e-5)
def adversarial_pair():
    generator, judge = filled(nn.Linear(2, 3)), filled(nn.Linear(3, 1))
    g, d = torch.optim.SGD(generator.parameters(), 0.1), torch.optim.SGD(judge.parameters(), 0.1)

    def f(noise, real):
        fake = generator(noise)
        d.zero_grad()
        ones, zeros = torch.ones(real.shape[0], 1), torch.zeros(noise.shape[0], 1)
        loss_d = F.binary_cross_entropy_with_logits(judge(real), ones) + F.binary_cross_entropy_with_logits(judge(fake.detach()), zeros)
        loss_d.backward()
        d.step()
        g.zero_grad()
        loss_g = F.binary_cross_entropy_with_logits(judge(fake), torch.ones_like(zeros))
        loss_g.backward()
        g.step()
        return {"d": loss_d.item(), "g": loss_g.item()}

    return f, [(ramp(2, 2), ramp(2, 3) + i) for i in range(4)], lambda: (generator, judge)


@program(tolerance=1e-4)
def gradient_penalty():
    net = mlp()

    def f(x):
        x = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        loss = ((g.norm(dim=1) - 1) ** 2).mean()
        loss.backward()
        found = [p.grad.clone() if p.grad is not None else None for p in net.parameters()]
        net.zero_grad()
        return loss.detach(), found

    return f, [(ramp(2, 3),), (ramp(2, 3) + 1,), (ramp(3, 3),)]


@program(tolerance=1e-5)
def clustering_until_it_settles():
    def f(points, k):
        centers = points[:k].clone()
        for round_ in range(10):
            nearest = torch.cdist(points, centers).argmin(1)
            moved = torch.stack([points[nearest == i].mean(0) if (nearest == i).any() else centers[i] for i in range(k)])
            if torch.allclose(moved, centers):
                break
            centers = moved
        return centers, nearest.bincount(minlength=k).tolist(), round_

    return f, [(ramp(5, 2), 2), (ramp(6, 2) ** 2, 3), (ramp(5, 2), 2)]


@program(tolerance=1e-5)
def losses_of_many_heads_by_configuration():
    net = filled(nn.Linear(3, 4))
    config = {"losses": {"mse": {"weight": 1.0}, "reg": {"weight": 0.1, "power": 2}}, "clip": None}
    table = {
        "mse": lambda out, y, **_: F.mse_loss(out, y),
        "reg": lambda out, y, power=1, **_: sum(p.abs().pow(power).sum() for p in net.parameters()),
        "hinge": lambda out, y, margin=0.5: F.relu(margin - out * y).mean(),
    }

    def f(x, y):
        out = net(x)
        parts = {}
        for name, options in config["losses"].items():
            options = dict(options)
            parts[name] = options.pop("weight") * table[name](out, y, **options)
        total = sum(parts.values())
        if config["clip"] is not None:
            total = total.clamp(max=config["clip"])
        total.backward()
        found = net.weight.grad.clone()
        net.zero_grad()
        return {k: v.detach() for k, v in parts.items()}, total.detach(), found

    def add():
        config["losses"]["hinge"] = {"weight": 2.0, "margin": 0.3}

    x, y = ramp(2, 3), ramp(2, 4)
    return f, [(x, y), (x, y), add, (x, y), lambda: config.update(clip=0.5), (x, y), (x + 1, y)]


@program(tolerance=1e-5)
def statistics_kept_by_a_meter():
    class Meter:
        def __init__(self):
            self.reset()

        def reset(self):
            self.total = self.count = 0
            self.values = []

        def update(self, value, n=1):
            self.total += float(value) * n
            self.count += n
            self.values.append(value)

        @property
        def mean(self):
            return self.total / max(self.count, 1)

    meters = {name: Meter() for name in ("loss", "accuracy")}

    def f(logits, target):
        loss = F.cross_entropy(logits, target)
        right = (logits.argmax(1) == target).float().mean()
        meters["loss"].update(loss, logits.shape[0])
        meters["accuracy"].update(right.item())
        if meters["loss"].count > 5:
            meters["loss"].reset()
        return {k: m.mean for k, m in meters.items()}

    return f, [(ramp(2, 3) + i, torch.tensor([i % 3, 1])) for i in range(5)], lambda: [m.mean for m in meters.values()]


@program(tolerance=1e-5)
def time_budget_and_progress():
    log = []

    def f(x, steps):
        begin = time.perf_counter()
        for i in range(steps):
            x = (x * 1.1).sin()
            if time.perf_counter() - begin > 60:
                break
            if i % 2 == 0:
                log.append(f"{i}/{steps}")
        return x

    return f, [(ramp(2), 3), (ramp(2), 4), (ramp(2), 3)], lambda: log


@program(tolerance=1e-5)
def augmentation_by_choice():
    class Flip:
        def __init__(self, p):
            self.p = p

        def __call__(self, x):
            return x.flip(-1) if torch.rand(1).item() < self.p else x

    class Noise:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, x):
            return x + self.scale * torch.randn_like(x)

    steps = [Flip(0.5), Noise(0.1), lambda x: x.clamp(-1, 1), Flip(1.0)]

    def f(x):
        for step in steps:
            x = step(x)
        return x

    return f, [(ramp(2, 3),)] * 5


@program(tolerance=1e-5)
def beam_of_hypotheses():
    scores = ramp(4, 4).log_softmax(-1)

    def f(width, length):
        beams = [([0], torch.zeros(()))]
        for _ in range(length):
            grown = []
            for path, score in beams:
                values, ids = scores[path[-1]].topk(width)
                grown += [([*path, i], score + v) for v, i in zip(values, ids.tolist(), strict=True)]
            beams = sorted(grown, key=lambda b: (-b[1].item(), b[0]))[:width]
        return [p for p, _ in beams], torch.stack([s for _, s in beams])

    return f, [(2, 2), (2, 3), (1, 2), (2, 2)]


@program(tolerance=1e-5)
def policy_gradient_episode():
    policy = filled(nn.Linear(2, 3))
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)

    def f(state, length, gamma):
        log_probabilities, rewards = [], []
        for t in range(length):
            distribution = policy(state).softmax(-1)
            action = int(distribution.argmax())
            log_probabilities.append(distribution[action].log())
            rewards.append(1.0 if action == t % 3 else -0.5)
            state = state.roll(1) + 0.1 * action
        returns, running = [], 0.0
        for r in reversed(rewards):
            running = r + gamma * running
            returns.insert(0, running)
        returns = torch.tensor(returns)
        loss = -(torch.stack(log_probabilities) * (returns - returns.mean())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), sum(rewards)

    return f, [(ramp(2), 3, 0.9), (ramp(2) + 1, 3, 0.9), (ramp(2), 2, 0.5)], lambda: policy


@program(tolerance=1e-5)
def statistics_of_numpy_beside_training():
    net = mlp()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
    rows = []

    def f(x, y):
        optimizer.zero_grad()
        out = net(x)
        loss = F.huber_loss(out, y)
        loss.backward()
        optimizer.step()
        a = out.detach().numpy()
        rows.append({"mean": np.round(a.mean(), 4), "top": int(np.argmax(a)), "loss": round(loss.item(), 4)})
        return round(float(np.percentile(a, 50)), 3)

    return f, batches(4), lambda: (rows, net)
