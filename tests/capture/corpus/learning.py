"""Ways of learning: players, pairs of networks, inner loops, teachers, queues, code books, physics."""

import copy
import math
import random
from collections import deque, namedtuple
from dataclasses import dataclass

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.capture.corpus.harness import call, part, program, ramp
from tests.capture.corpus.modules import filled


def small(inputs, outputs, hidden=4):
    return filled(nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)))


@program(tolerance=1e-5, forms=("function", "method", "parts"))
def deep_q_learning_with_a_replay_buffer():
    Transition = namedtuple("Transition", "state action next_state reward")

    class ReplayMemory:
        def __init__(self, capacity):
            self.memory = deque([], maxlen=capacity)

        def push(self, *args):
            self.memory.append(Transition(*args))

        def sample(self, size):
            return random.sample(self.memory, size)

        def __len__(self):
            return len(self.memory)

    policy, target = small(2, 3), small(2, 3)
    target.load_state_dict(policy.state_dict())
    policy_net, target_net = part(policy), part(target)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=0.01, amsgrad=True)
    memory, done = ReplayMemory(6), [0]

    def select(state):
        threshold = 0.05 + 0.85 * math.exp(-1.0 * done[0] / 3)
        done[0] += 1
        if random.random() > threshold:
            with torch.no_grad():
                return policy_net(state).max(1).indices.view(1, 1)
        return torch.tensor([[random.randrange(3)]], dtype=torch.long)

    def optimize(size):
        if len(memory) < size:
            return None
        batch = Transition(*zip(*memory.sample(size), strict=True))
        mask = torch.tensor(tuple(s is not None for s in batch.next_state), dtype=torch.bool)
        alive = torch.cat([s for s in batch.next_state if s is not None])
        chosen = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
        values = torch.zeros(size)
        with torch.no_grad():
            values[mask] = target_net(alive).max(1).values
        loss = F.smooth_l1_loss(chosen, (values * 0.9 + torch.cat(batch.reward)).unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        after, before = target.state_dict(), policy.state_dict()
        for key in before:
            after[key] = before[key] * 0.1 + after[key] * 0.9
        target.load_state_dict(after)
        return loss.item()

    def f(state, last):
        action = select(state)
        following = None if last else state.roll(1) * (1 + 0.1 * action.item())
        memory.push(state, action, following, torch.tensor([float(action.item()) - 1]))
        return action, optimize(3)

    calls = [(ramp(1, 2) + 0.3 * i, i % 3 == 2) for i in range(8)]
    return f, calls, lambda: (policy, target, done, [m.reward for m in memory.memory])


class RolloutBuffer:
    def __init__(self, size):
        self.states, self.actions = torch.zeros(size, 2), torch.zeros(size, dtype=torch.long)
        self.logp, self.values, self.rewards = torch.zeros(size), torch.zeros(size), np.zeros(size, dtype=np.float32)
        self.ptr, self.size = 0, size

    def store(self, s, a, lp, v, r):
        assert self.ptr < self.size
        i = self.ptr
        self.states[i], self.actions[i], self.logp[i], self.values[i], self.rewards[i] = s, a, lp, v, r
        self.ptr += 1

    def get(self, gamma=0.9, lam=0.8):
        self.ptr = 0
        advantages, last = torch.zeros(self.size), 0.0
        for t in reversed(range(self.size)):
            following = self.values[t + 1] if t + 1 < self.size else 0.0
            delta = self.rewards[t].item() + gamma * following - self.values[t]
            advantages[t] = last = delta + gamma * lam * last
        returns = advantages + self.values
        return (advantages - advantages.mean()) / (advantages.std() + 1e-8), returns


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def proximal_policy_with_a_rollout():
    class ActorCritic(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.pi, self.v = nn.Linear(2, 4), nn.Linear(4, 3), nn.Linear(4, 1)
            self.log_std = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            h = torch.tanh(self.body(x))
            return torch.distributions.Categorical(logits=self.pi(h), validate_args=False), self.v(h).squeeze(-1)

    net, buffer = filled(ActorCritic()), RolloutBuffer(4)
    model = part(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, eps=1e-5)

    def f(state, epochs, clip, stop):
        with torch.no_grad():
            for _ in range(buffer.size):
                distribution, value = model(state)
                action = distribution.sample()
                buffer.store(state, action, distribution.log_prob(action), value, float(action.item() == 1))
                state = (state + 0.1 * action).clamp(-1, 1)
        advantages, returns = buffer.get()
        for epoch in range(epochs):
            for index in torch.randperm(buffer.size).split(2):
                distribution, value = model(buffer.states[index])
                ratio = (distribution.log_prob(buffer.actions[index]) - buffer.logp[index]).exp()
                surrogate = torch.min(ratio * advantages[index], ratio.clamp(1 - clip, 1 + clip) * advantages[index])
                loss = -surrogate.mean() + 0.5 * F.mse_loss(value, returns[index]) - 0.01 * distribution.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
            divergence = (buffer.logp[index] - distribution.log_prob(buffer.actions[index])).mean().item()
            if stop is not None and divergence > 1.5 * stop:
                return epoch, state
        return loss.item(), state

    return f, [(ramp(2), 2, 0.2, None), (ramp(2), 2, 0.2, 0.5), (ramp(2), 1, 0.1, None), (ramp(2), 2, 0.1, -1.0)], lambda: (net, buffer.ptr)


@program(tolerance=1e-5, forms=("function", "parts"))
def twin_critics_with_delayed_actor():
    actor, first, second = small(2, 1), small(3, 1), small(3, 1)
    slow = [copy.deepcopy(m).requires_grad_(False) for m in (actor, first, second)]
    opt_q = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
    opt_pi = torch.optim.Adam(actor.parameters(), lr=0.01)
    pi, q1, q2 = part(actor), part(first), part(second)
    total = {"it": 0}

    def f(s, a, r, s2, done, delay=2):
        total["it"] += 1
        with torch.no_grad():
            noise = (torch.randn_like(a) * 0.2).clamp(-0.5, 0.5)
            a2 = (slow[0](s2).tanh() + noise).clamp(-1, 1)
            q = torch.minimum(slow[1](torch.cat([s2, a2], 1)), slow[2](torch.cat([s2, a2], 1)))
            target = r + (1 - done) * 0.99 * q
        sa = torch.cat([s, a], 1)
        loss_q = F.mse_loss(q1(sa), target) + F.mse_loss(q2(sa), target)
        opt_q.zero_grad()
        loss_q.backward()
        opt_q.step()
        info = dict(q=loss_q.item())
        if total["it"] % delay == 0:
            for p in first.parameters():
                p.requires_grad = False
            loss_pi = -q1(torch.cat([s, pi(s).tanh()], 1)).mean()
            opt_pi.zero_grad()
            loss_pi.backward()
            opt_pi.step()
            for p in first.parameters():
                p.requires_grad = True
            for m, t in zip((actor, first, second), slow, strict=True):
                for p, pt in zip(m.parameters(), t.parameters(), strict=True):
                    pt.data.mul_(0.9)
                    pt.data.add_((1 - 0.9) * p.data)
            info["pi"] = loss_pi.item()
        return info

    def batch(n, i):
        return ramp(n, 2) + i, ramp(n, 1), ramp(n, 1), ramp(n, 2) - i, torch.zeros(n, 1)

    calls = [batch(3, i) for i in range(5)] + [call(*batch(3, 5), delay=3), batch(4, 6), batch(2, 6)]
    return f, calls, lambda: (actor, first, second, slow)


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def momentum_contrast_with_a_queue():
    class MoCo(nn.Module):
        def __init__(self, dim=3, K=8, m=0.9, T=0.2):
            super().__init__()
            self.K, self.m, self.T = K, m, T
            self.encoder_q, self.encoder_k = small(4, dim), small(4, dim)
            for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True):
                k.data.copy_(q.data)
                k.requires_grad = False
            self.register_buffer("queue", F.normalize(ramp(dim, K, step=0.2), dim=0))
            self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

        @torch.no_grad()
        def _momentum_update(self):
            for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True):
                k.data = k.data * self.m + q.data * (1.0 - self.m)

        @torch.no_grad()
        def _enqueue(self, keys):
            size, ptr = keys.shape[0], int(self.queue_ptr)
            assert self.K % size == 0
            self.queue[:, ptr : ptr + size] = keys.T
            self.queue_ptr[0] = (ptr + size) % self.K

        def forward(self, a, b):
            q = F.normalize(self.encoder_q(a), dim=1)
            with torch.no_grad():
                self._momentum_update()
                order = torch.randperm(b.shape[0])
                k = F.normalize(self.encoder_k(b[order]), dim=1)[order.argsort()]
            positive = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
            negative = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
            logits = torch.cat([positive, negative], dim=1) / self.T
            self._enqueue(k)
            return logits, torch.zeros(logits.shape[0], dtype=torch.long)

    net = MoCo()
    model = part(net)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1, momentum=0.9, weight_decay=1e-4)

    def f(a, b):
        logits, labels = model(a, b)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), (logits.argmax(1) == labels).float().mean().item()

    calls = [(ramp(2, 4) + i, ramp(2, 4) * (1 + i)) for i in range(5)] + [(ramp(4, 4), ramp(4, 4) + 1)] * 2
    return f, calls, lambda: net


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def code_book_with_moving_averages():
    class Quantizer(nn.Module):
        def __init__(self, count=5, dim=3, decay=0.8, eps=1e-5):
            super().__init__()
            self.count, self.decay, self.eps = count, decay, eps
            book = ramp(dim, count, step=0.11)
            self.register_buffer("embed", book)
            self.register_buffer("cluster_size", torch.zeros(count))
            self.register_buffer("embed_avg", book.clone())

        def forward(self, x):
            flat = x.reshape(-1, x.shape[-1])
            dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.embed + self.embed.pow(2).sum(0, keepdim=True)
            _, index = (-dist).max(1)
            onehot = F.one_hot(index, self.count).type(flat.dtype)
            index = index.view(*x.shape[:-1])
            quantized = F.embedding(index, self.embed.transpose(0, 1))
            if self.training:
                ones, total = onehot.sum(0), flat.transpose(0, 1) @ onehot
                self.cluster_size.data.mul_(self.decay).add_(ones, alpha=1 - self.decay)
                self.embed_avg.data.mul_(self.decay).add_(total.detach(), alpha=1 - self.decay)
                n = self.cluster_size.sum()
                size = (self.cluster_size + self.eps) / (n + self.count * self.eps) * n
                self.embed.data.copy_(self.embed_avg / size.unsqueeze(0))
            diff = (quantized.detach() - x).pow(2).mean()
            return x + (quantized - x).detach(), diff, index

    encoder, decoder, quantizer = filled(nn.Linear(4, 3)), filled(nn.Linear(3, 4)), Quantizer()
    bottleneck = part(quantizer)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.02)

    def f(x):
        q, diff, index = bottleneck(encoder(x))
        loss = F.mse_loss(decoder(q), x) + 0.25 * diff
        if quantizer.training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        used = index.unique().numel()
        return loss.item(), index, used

    calls = [(ramp(2, 3, 4, step=0.1) * (i + 1),) for i in range(4)]
    return f, [*calls, quantizer.eval, calls[0], quantizer.train, calls[1], (ramp(5, 4),)], lambda: (quantizer, encoder, decoder)


class Diffusion(nn.Module):
    def __init__(self, model, steps=6):
        super().__init__()
        self.model, self.steps = model, steps
        betas = torch.linspace(1e-2, 0.3, steps, dtype=torch.float64)
        alphas = 1.0 - betas
        cumulative = alphas.cumprod(0)
        previous = F.pad(cumulative[:-1], (1, 0), value=1.0)
        register = lambda name, val: self.register_buffer(name, val.to(torch.float32))  # noqa: E731
        register("betas", betas)
        register("sqrt_cum", cumulative.sqrt())
        register("sqrt_one_minus", (1 - cumulative).sqrt())
        register("recip", (1 / alphas).sqrt())
        register("variance", betas * (1 - previous) / (1 - cumulative))

    @staticmethod
    def extract(a, t, shape):
        b, *_ = t.shape
        return a.gather(-1, t).reshape(b, *((1,) * (len(shape) - 1)))

    def loss(self, x0):
        t = torch.randint(0, self.steps, (x0.shape[0],)).long()
        noise = torch.randn_like(x0)
        x = self.extract(self.sqrt_cum, t, x0.shape) * x0 + self.extract(self.sqrt_one_minus, t, x0.shape) * noise
        return F.mse_loss(self.model(x, t), noise, reduction="none").flatten(1).mean(1)

    @torch.no_grad()
    def sample(self, shape, every=1):
        x, kept = torch.randn(shape), []
        for i in reversed(range(0, self.steps)):
            t = torch.full((shape[0],), i, dtype=torch.long)
            eps = self.model(x, t)
            mean = self.extract(self.recip, t, x.shape) * (
                x - self.extract(self.betas, t, x.shape) / self.extract(self.sqrt_one_minus, t, x.shape) * eps
            )
            x = mean if i == 0 else mean + self.extract(self.variance, t, x.shape).sqrt() * torch.randn_like(x)
            if i % every == 0:
                kept.append(x)
        return x.clamp(-1, 1), kept


@program(tolerance=1e-4, forms=("function", "method", "parts"))
def denoising_with_a_schedule():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.time, self.a, self.b = nn.Embedding(6, 4), nn.Linear(3, 4), nn.Linear(4, 3)

        def forward(self, x, t):
            half = 2
            freqs = torch.exp(-math.log(100) * torch.arange(half, dtype=torch.float32) / half)
            angles = t[:, None].float() * freqs[None]
            wave = torch.cat([angles.sin(), angles.cos()], dim=-1)
            return self.b(F.silu(self.a(x) + self.time(t) + wave))

    net = filled(Net())
    diffusion = Diffusion(part(net))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)

    def f(x, sampling):
        if sampling:
            return diffusion.sample(tuple(x.shape), every=sampling)
        losses = diffusion.loss(x)
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        return losses.detach()

    return f, [(ramp(4, 3), 0), (ramp(4, 3), 0), (ramp(2, 3), 2), (ramp(3, 3), 0), (ramp(2, 3), 3), (ramp(4, 3), 0)], lambda: net


@program(tolerance=1e-4, forms=("function", "parts"))
def score_matching_by_slices():
    net = small(2, 2)
    score = part(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def langevin(x, steps, eps):
        x = x.clone()
        for _ in range(steps):
            x = x + eps / 2 * score(x).detach() + math.sqrt(eps) * torch.randn_like(x)
        return x

    def f(x, slices, reduced):
        dup = x.unsqueeze(0).expand(slices, *x.shape).contiguous().view(-1, *x.shape[1:])
        dup.requires_grad_(True)
        v = torch.sign(torch.randn_like(dup))
        grad1 = score(dup)
        gradv = torch.sum(grad1 * v)
        (grad2,) = torch.autograd.grad(gradv, dup, create_graph=True)
        loss1 = torch.sum(grad1 * grad1, dim=-1) / 2.0 if reduced else torch.sum(grad1 * v, dim=-1) ** 2 * 0.5
        loss = (loss1 + torch.sum(v * grad2, dim=-1)).view(slices, -1).mean(0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), langevin(x, 2, 0.1)

    calls = [(ramp(3, 2), 2, True), (ramp(3, 2), 2, True), (ramp(3, 2), 3, False), (ramp(4, 2), 2, True), (ramp(5, 2), 2, True)]
    return f, calls, lambda: net


@program(tolerance=1e-4, forms=("function", "method"))
def inner_loops_of_tasks():
    net = small(1, 1)
    meta = torch.optim.Adam(net.parameters(), lr=0.01)

    def forward(x, params):
        x = torch.tanh(F.linear(x, params["0.weight"], params["0.bias"]))
        return F.linear(x, params["2.weight"], params["2.bias"])

    def adapt(x, y, steps, lr, first_order):
        fast = dict(net.named_parameters())
        for _ in range(steps):
            loss = F.mse_loss(forward(x, fast), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=not first_order)
            fast = {k: w - lr * g for (k, w), g in zip(fast.items(), grads, strict=True)}
        return fast

    def f(tasks, steps, first_order=False):
        meta.zero_grad()
        outer, losses = 0.0, []
        for (xs, ys), (xq, yq) in tasks:
            fast = adapt(xs, ys, steps, 0.1, first_order)
            loss = F.mse_loss(torch.func.functional_call(net, fast, (xq,)), yq)
            outer = outer + loss
            losses.append(loss.item())
        (outer / len(tasks)).backward()
        meta.step()
        return losses

    def task(i, n=3):
        x = ramp(n, 1, step=0.3 + 0.1 * i)
        return (x, (x * i).sin()), (x + 0.1, (x + 0.1).mul(i).sin())

    calls = [([task(1), task(2)], 1), ([task(2), task(3)], 1), ([task(1)], 2), ([task(1), task(2)], 2, True), ([task(1, 4), task(3, 4)], 1)]
    return f, calls, lambda: net


@program(tolerance=1e-5, forms=("function", "parts"))
def student_and_teacher():
    student, teacher = small(3, 4), small(3, 4, 6)
    learner, expert = part(student), part(teacher)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
    features = {}
    student[1].register_forward_hook(lambda m, i, o: features.__setitem__("student", o))
    teacher[1].register_forward_hook(lambda m, i, o: features.__setitem__("teacher", o.detach()))
    projection = filled(nn.Linear(4, 6, bias=False))

    def f(x, y, temperature=2.0, alpha=0.5, hint=0.0):
        teacher.eval()
        with torch.no_grad():
            soft = expert(x)
        logits = learner(x)
        distill = F.kl_div(F.log_softmax(logits / temperature, 1), F.softmax(soft / temperature, 1), reduction="batchmean") * temperature**2
        loss = alpha * F.cross_entropy(logits, y, label_smoothing=0.1) + (1 - alpha) * distill
        if hint:
            loss = loss + hint * F.mse_loss(projection(features["student"]), features["teacher"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss.item(), "distill": distill.item(), "right": int((logits.argmax(1) == y).sum())}

    x, y = ramp(4, 3), torch.tensor([0, 1, 2, 3])
    calls = [call(x, y), call(x, y), call(x, y, temperature=4.0), call(x, y, temperature=3.0), call(x, y, hint=0.1), call(x[:3], y[:3])]
    return f, calls, lambda: (student, features, [p.grad for p in projection.parameters()])


@program(tolerance=1e-5, forms=("function", "parts"))
def pair_with_requires_grad_switched():
    def set_requires_grad(nets, requires_grad=False):
        if not isinstance(nets, list):
            nets = [nets]
        for net in nets:
            if net is not None:
                for param in net.parameters():
                    param.requires_grad = requires_grad

    class CycleModel:
        def __init__(self):
            self.g_ab, self.g_ba, self.d_a, self.d_b = small(2, 2), small(2, 2), small(2, 1), small(2, 1)
            self.run = {n: part(getattr(self, n)) for n in ("g_ab", "g_ba", "d_a", "d_b")}
            self.opt_g = torch.optim.Adam([*self.g_ab.parameters(), *self.g_ba.parameters()], lr=0.01, betas=(0.5, 0.999))
            self.opt_d = torch.optim.Adam([*self.d_a.parameters(), *self.d_b.parameters()], lr=0.01, betas=(0.5, 0.999))
            self.pool, self.pool_size = [], 3

        def query(self, images):
            out = []
            for image in images.detach():
                image = image.unsqueeze(0)
                if len(self.pool) < self.pool_size:
                    self.pool.append(image)
                    out.append(image)
                elif random.uniform(0, 1) > 0.5:
                    i = random.randint(0, self.pool_size - 1)
                    out.append(self.pool[i].clone())
                    self.pool[i] = image
                else:
                    out.append(image)
            return torch.cat(out, 0)

        def gan_loss(self, prediction, real):
            return F.mse_loss(prediction, torch.tensor(1.0 if real else 0.0).expand_as(prediction))

        def optimize(self, a, b):
            r = self.run
            fake_b = r["g_ab"](a)
            rec_a, fake_a = r["g_ba"](fake_b), r["g_ba"](b)
            set_requires_grad([self.d_a, self.d_b], False)
            self.opt_g.zero_grad()
            g = self.gan_loss(r["d_b"](fake_b), True) + self.gan_loss(r["d_a"](fake_a), True) + 10 * F.l1_loss(rec_a, a)
            g.backward()
            self.opt_g.step()
            set_requires_grad([self.d_a, self.d_b], True)
            self.opt_d.zero_grad()
            for name, real, fake in (("d_a", a, fake_a.detach()), ("d_b", b, self.query(fake_b))):
                d = (self.gan_loss(r[name](real), True) + self.gan_loss(r[name](fake), False)) * 0.5
                d.backward()
            self.opt_d.step()
            return g.item(), d.item()

    model = CycleModel()
    return model.optimize, [(ramp(2, 2) + 0.1 * i, ramp(2, 2) - 0.1 * i) for i in range(6)], lambda: (model.g_ab, model.d_b, model.pool)


@program(tolerance=1e-4, forms=("function", "parts"))
def physics_with_a_laplacian():
    net = small(2, 1, 5)
    u = part(net)
    conductivity = nn.Parameter(torch.tensor(0.5))
    optimizer = torch.optim.Adam([{"params": net.parameters()}, {"params": [conductivity], "lr": 0.1}], lr=0.01)
    history = []

    def grad(y, x):
        return torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True, retain_graph=True)[0]

    def f(xt, boundary, weights):
        xt = xt.requires_grad_(True)
        out = u(xt)
        first = grad(out, xt)
        u_x, u_t = first[:, 0:1], first[:, 1:2]
        u_xx = grad(u_x, xt)[:, 0:1]
        residual = u_t - conductivity * u_xx + out * u_x
        losses = {"pde": residual.pow(2).mean(), "bc": u(boundary).pow(2).mean()}
        loss = sum(weights.get(k, 1.0) * v for k, v in losses.items())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        conductivity.data.clamp_(0.0, 0.55)
        history.append({k: v.item() for k, v in losses.items()})
        return loss.detach()

    b = ramp(3, 2)
    calls = [(ramp(4, 2, step=0.2), b, {}), (ramp(4, 2, step=0.1), b, {}), (ramp(5, 2), b, {"bc": 10.0}), (ramp(6, 2), b, {"bc": 5.0})]
    return f, calls, lambda: (net, conductivity, history)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip, self.net = flip, small(2, 4)

    def forward(self, x, reverse=False):
        a, b = x.chunk(2, -1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, -1)
        s = torch.tanh(s)
        b, log_det = (b * s.exp() + t, s.sum(-1)) if not reverse else ((b - t) * (-s).exp(), -s.sum(-1))
        return torch.cat([b, a] if self.flip else [a, b], -1), log_det


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.loc, self.log_scale = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x, reverse=False):
        if self.initialized.item() == 0 and self.training:
            with torch.no_grad():
                self.loc.data.copy_(-x.mean(0))
                self.log_scale.data.copy_(-(x.std(0) + 1e-6).log())
            self.initialized.fill_(1)
        log_det = self.log_scale.sum().expand(x.shape[0])
        return (x / self.log_scale.exp() - self.loc, -log_det) if reverse else ((x + self.loc) * self.log_scale.exp(), log_det)


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def flow_of_couplings():
    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([ActNorm(4), Coupling(False), ActNorm(4), Coupling(True)])
            self.register_buffer("zero", torch.zeros(4))

        def forward(self, x, reverse=False):
            total = x.new_zeros(x.shape[0])
            for layer in reversed(self.layers) if reverse else self.layers:
                x, log_det = layer(x, reverse)
                total += log_det
            return x, total

    net = Flow()
    flow = part(net)
    optimizer = torch.optim.Adamax(net.parameters(), lr=0.01)

    def f(x, train=True):
        if not train:
            z, _ = flow(x)
            back, _ = flow(z, reverse=True)
            return (back - x).abs().max() < 1e-4, z
        prior = torch.distributions.Independent(torch.distributions.Normal(net.zero, 1.0), 1)
        z, log_det = flow(x)
        loss = -(prior.log_prob(z) + log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    x = ramp(5, 4, step=0.17).sin()
    return f, [(x,), (x,), (x, False), (x[:3],), net.eval, (x[:4], False), net.train, (x[:2],)], lambda: net


@program(tolerance=1e-5, forms=("function", "parts"))
def hyper_network_makes_the_weights():
    @dataclass
    class Shape:
        inputs: int
        outputs: int

        @property
        def size(self):
            return self.inputs * self.outputs + self.outputs

    shapes = [Shape(2, 3), Shape(3, 1)]
    hyper = filled(nn.Linear(2, sum(s.size for s in shapes)))
    codes = nn.ParameterDict({"a": nn.Parameter(ramp(2)), "b": nn.Parameter(ramp(2) + 1)})
    make = part(hyper)
    optimizers = {k: torch.optim.SGD([codes[k], *hyper.parameters()], lr=0.05) for k in codes}

    def f(name, x, y):
        flat, offset = make(codes[name]), 0
        for i, s in enumerate(shapes):
            weight = flat[offset : offset + s.inputs * s.outputs].view(s.outputs, s.inputs)
            offset += s.inputs * s.outputs
            bias = flat.narrow(0, offset, s.outputs)
            offset += s.outputs
            x = F.linear(x, weight, bias)
            if i < len(shapes) - 1:
                x = F.leaky_relu(x, 0.1)
        loss = (x - y).pow(2).mean()
        optimizers[name].zero_grad()
        loss.backward()
        optimizers[name].step()
        return loss.detach()

    calls = [(n, ramp(3, 2), ramp(3, 1)) for n in "aabba"] + [("a", ramp(4, 2), ramp(4, 1))]
    return f, calls, lambda: (hyper, dict(codes), codes["a"].grad, codes["b"].grad)
