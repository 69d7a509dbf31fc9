"""Modules and inference as repositories have them: decoding, sparse and sequential models, adapters, geometry."""

import math
from types import SimpleNamespace
from typing import NamedTuple

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils.checkpoint import checkpoint
from tests.capture.corpus.harness import call, part, program, ramp
from tests.capture.corpus.learning import small
from tests.capture.corpus.modules import filled


@program(tolerance=1e-5, forms=("function", "parts"))
def generation_with_a_preallocated_cache():
    class Attention(nn.Module):
        def __init__(self, dim, heads, length):
            super().__init__()
            self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            shape = (1, heads, length, dim // heads)
            self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
            self.register_buffer("v_cache", torch.zeros(shape), persistent=False)
            self.register_buffer("mask", torch.tril(torch.ones(length, length, dtype=torch.bool)), persistent=False)

        def forward(self, x, pos):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
            self.k_cache[:, :, pos], self.v_cache[:, :, pos] = k, v
            y = F.scaled_dot_product_attention(q, self.k_cache, self.v_cache, attn_mask=self.mask[None, None, pos])
            return self.out(y.transpose(1, 2).reshape(b, t, c))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe, self.attn, self.norm = nn.Embedding(7, 4), nn.Embedding(12, 4), Attention(4, 2, 12), nn.LayerNorm(4)

        def forward(self, idx, pos):
            x = self.wte(idx) + self.wpe(pos)
            x = x + self.attn(self.norm(x), pos)
            return x @ self.wte.weight.T

    net = filled(Model()).eval()
    model = part(net)

    @torch.no_grad()
    def generate(prompt, new, temperature=1.0, top_k=None, stop=None):
        t = prompt.size(0)
        seq = torch.empty(t + new, dtype=torch.long)
        seq[:t] = prompt
        pos = torch.arange(t)
        token = prompt.view(1, -1)
        for i in range(new):
            logits = model(token, pos)[0, -1]
            if temperature == 0.0:
                chosen = logits.argmax(-1, keepdim=True)
            else:
                logits = logits / max(temperature, 1e-5)
                if top_k is not None:
                    v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                    logits = torch.where(logits < v.select(-1, -1).unsqueeze(-1), -float("Inf"), logits)
                probs = F.softmax(logits, dim=-1)
                q = torch.empty_like(probs).exponential_(1)
                chosen = torch.argmax(probs / q, dim=-1, keepdim=True).to(dtype=torch.int)
            seq[t + i] = chosen
            if stop is not None and chosen.item() == stop:
                return seq[: t + i + 1]
            pos = torch.tensor([t + i])
            token = chosen.view(1, -1).long()
        return seq

    p = torch.tensor([1, 2, 3])
    calls = [call(p, 3), call(p, 4, top_k=2), call(p[:2], 5, temperature=0.0), call(p, 6, stop=4), call(torch.tensor([5, 5, 1, 0]), 3)]
    return generate, calls, lambda: net


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def experts_chosen_for_each_token():
    class MoE(nn.Module):
        def __init__(self, dim=4, experts=4, top_k=2):
            super().__init__()
            self.experts = nn.ModuleList([small(dim, dim, 5) for _ in range(experts)])
            self.gate, self.top_k = filled(nn.Linear(dim, experts, bias=False)), top_k
            self.register_buffer("load", torch.zeros(experts))
            self.aux = None

        def forward(self, x):
            flat = x.view(-1, x.shape[-1])
            probs = F.softmax(self.gate(flat), dim=1, dtype=torch.float)
            weights, chosen = torch.topk(probs, self.top_k, dim=-1)
            weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
            out = torch.zeros_like(flat)
            mask = F.one_hot(chosen, num_classes=len(self.experts)).permute(2, 1, 0)
            for i, expert in enumerate(self.experts):
                slot, rows = torch.where(mask[i])
                if rows.shape[0] == 0:
                    continue
                current = expert(flat[None, rows].reshape(-1, flat.shape[-1])) * weights[rows, slot, None]
                out.index_add_(0, rows, current.to(x.dtype))
            self.load += mask.sum(dim=(1, 2))
            self.aux = len(self.experts) * (probs.mean(0) * mask.float().mean(dim=(1, 2))).sum()
            return out.view_as(x)

    net = MoE()
    model = part(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def f(x, y):
        loss = F.mse_loss(model(x), y) + 0.01 * net.aux
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), [p.grad is None for p in net.experts[0].parameters()]

    calls = [(ramp(2, n, 4, step=s).sin(), ramp(2, n, 4)) for n, s in ((3, 0.3), (3, 0.7), (2, 1.0), (4, 0.3), (3, 0.3))]
    return f, calls, lambda: (net, net.load)


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def messages_on_a_graph():
    class Conv(nn.Module):
        def __init__(self, a, b, aggregate="mean"):
            super().__init__()
            self.lin, self.root, self.aggregate = nn.Linear(a, b), nn.Linear(a, b, bias=False), aggregate

        def forward(self, x, edges):
            src, dst = edges
            messages = self.lin(x)[src]
            out = x.new_zeros(x.size(0), messages.size(1))
            if self.aggregate == "max":
                index = dst.unsqueeze(-1).expand_as(messages)
                out = out.scatter_reduce(0, index, messages, reduce="amax", include_self=False)
            else:
                out = out.scatter_add(0, dst.unsqueeze(-1).expand_as(messages), messages)
                if self.aggregate == "mean":
                    degree = torch.zeros(x.size(0)).index_add_(0, dst, torch.ones(dst.numel())).clamp_(min=1)
                    out = out / degree.unsqueeze(-1)
            return F.relu(out + self.root(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([Conv(3, 4), Conv(4, 4, "max"), Conv(4, 2, "add")])

        def forward(self, x, edges, batch=None):
            edges = torch.cat([edges, edges.flip(0)], 1).unique(dim=1) if edges.numel() else edges
            for conv in self.convs:
                x = conv(x, edges)
            if batch is None:
                return x
            count = int(batch.max()) + 1
            return torch.zeros(count, x.size(1)).index_add_(0, batch, x)

    net = filled(Net())
    model = part(net)

    def f(x, edges, batch=None):
        out = model(x, edges, batch)
        out.square().sum().backward()
        found = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        return out.detach(), found

    e = torch.tensor([[0, 1, 2, 2], [1, 2, 3, 0]])
    calls = [(ramp(4, 3), e), (ramp(4, 3) * 2, e), (ramp(4, 3), e[:, :2]), (ramp(5, 3), e), (ramp(4, 3), e, torch.tensor([0, 0, 1, 1]))]
    return f, [*calls, (ramp(3, 3), torch.zeros(2, 0, dtype=torch.long))]


@program(tolerance=1e-5, forms=("function", "module"))
def adapters_put_around_layers():
    class LoRA(nn.Module):
        def __init__(self, base, r, alpha=2.0):
            super().__init__()
            self.base, self.scaling, self.merged = base, alpha / r, False
            self.A = nn.Parameter(ramp(r, base.in_features, step=0.05))
            self.B = nn.Parameter(torch.zeros(base.out_features, r))
            base.requires_grad_(False)

        def merge(self):
            self.base.weight.data += (self.B @ self.A).data * self.scaling * (1 if not self.merged else -1)
            self.merged = not self.merged

        def forward(self, x):
            out = self.base(x)
            return out if self.merged else out + (x @ self.A.T @ self.B.T) * self.scaling

    net = nn.ModuleDict({"q": filled(nn.Linear(3, 4)), "v": filled(nn.Linear(3, 4)), "o": filled(nn.Linear(4, 2))})
    held = SimpleNamespace(optimizer=torch.optim.SGD(net.parameters(), lr=0.1))

    def f(x):
        out = net["o"](torch.sigmoid(net["q"](x)) * net["v"](x))
        if not out.requires_grad or not net.training:
            return out.detach()
        loss = out.square().mean()
        held.optimizer.zero_grad()
        loss.backward()
        held.optimizer.step()
        return loss.detach()

    def wrap(*names):
        def act():
            net.requires_grad_(False)
            for name in names:
                parent, layer = net, net[name]
                setattr(parent, name, LoRA(layer, 2)) if hasattr(parent, name) else parent.update({name: LoRA(layer, 2)})
            held.optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.05)

        return act

    def merge():
        for m in net.modules():
            if isinstance(m, LoRA):
                m.merge()
        net.train(not net.training)

    x = ramp(3, 3)
    calls = [(x,), (x,), wrap("q", "v"), (x,), (x,), (x,), merge, (x,), (x,), merge, (x,), wrap("o"), (x,)]
    return f, calls, lambda: ([(n, p.requires_grad, p) for n, p in net.named_parameters()],)


@program(tolerance=1e-5, forms=("function", "module"))
def weights_pruned_by_masks():
    net = small(4, 2, 5)
    masks = {}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)

    def prune(fraction):
        def act():
            flat = torch.cat([p.detach().abs().flatten() for n, p in net.named_parameters() if "weight" in n])
            threshold = flat.kthvalue(max(1, int(fraction * flat.numel()))).values
            for n, p in net.named_parameters():
                if "weight" in n:
                    masks[n] = (p.detach().abs() > threshold).float()
                    p.data.mul_(masks[n])

        return act

    def f(x, y):
        loss = F.huber_loss(net(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        for n, p in net.named_parameters():
            if n in masks:
                p.grad.mul_(masks[n])
        optimizer.step()
        with torch.no_grad():
            for n, p in net.named_parameters():
                if n in masks:
                    p *= masks[n]
        zeros = sum(int((p == 0).sum()) for p in net.parameters())
        return loss.detach(), zeros

    c = (ramp(3, 4), ramp(3, 2))
    return f, [c, c, prune(0.3), c, c, prune(0.6), c, masks.clear, c], lambda: (net, masks)


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def answers_given_early():
    class EarlyExit(nn.Module):
        def __init__(self, depth=3):
            super().__init__()
            self.stem = nn.Linear(3, 4)
            self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
            self.heads = nn.ModuleList([nn.Linear(4, 3) for _ in range(depth)])
            self.threshold = 0.9
            self.stats = [0] * depth

        def entropy(self, logits):
            p = logits.softmax(-1)
            return -(p * p.clamp_min(1e-9).log()).sum(-1) / math.log(p.shape[-1])

        def forward(self, x):
            h, outs = self.stem(x), []
            for i, (block, head) in enumerate(zip(self.blocks, self.heads, strict=True)):
                h = h + F.elu(block(h))
                logits = head(h)
                if self.training:
                    outs.append(logits)
                elif bool((self.entropy(logits) < self.threshold).all()) or i == len(self.blocks) - 1:
                    self.stats[i] += x.shape[0]
                    return logits, i
            return outs

    net = filled(EarlyExit())
    model = part(net)

    def f(x, y=None):
        if y is None:
            with torch.inference_mode():
                return model(x)
        weights = [(i + 1) / 3 for i in range(3)]
        loss = sum(w * F.cross_entropy(o, y, weight=torch.tensor([1.0, 2.0, 1.0])) for w, o in zip(weights, model(x), strict=True))
        loss.backward()
        return loss.detach()

    def threshold(value):
        return lambda: setattr(net, "threshold", value)

    x, y = ramp(2, 3), torch.tensor([0, 2])
    calls = [(x, y), net.eval, (x,), (x * 3,), threshold(0.5), (x,), threshold(2.0), (x,), (ramp(3, 3),), net.train, (x, y)]
    return f, [*calls, net.zero_grad, (x, y)], lambda: (net, net.stats)


class Ray(NamedTuple):
    origin: object
    direction: object


@program(tolerance=1e-4, forms=("function", "parts"))
def rays_through_a_field():
    class Encoding:
        def __init__(self, freqs, include=True, log=True):
            self.funcs = [lambda x: x] if include else []
            bands = 2.0 ** torch.linspace(0.0, freqs - 1, freqs) if log else torch.linspace(1.0, 2.0 ** (freqs - 1), freqs)
            for freq in bands:
                for fn in (torch.sin, torch.cos):
                    self.funcs.append(lambda x, fn=fn, freq=freq: fn(x * freq))

        def __call__(self, x):
            return torch.cat([f(x) for f in self.funcs], -1)

    encode = Encoding(2)
    net = filled(nn.Sequential(nn.Linear(15, 6), nn.ReLU(), nn.Linear(6, 4)))
    field = part(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)

    def render(rays, near, far, count, perturb, chunk):
        t = torch.linspace(0.0, 1.0, steps=count)
        z = (near * (1.0 - t) + far * t).expand(rays.origin.shape[0], count)
        if perturb:
            mids = 0.5 * (z[..., 1:] + z[..., :-1])
            upper, lower = torch.cat([mids, z[..., -1:]], -1), torch.cat([z[..., :1], mids], -1)
            z = lower + (upper - lower) * torch.rand(z.shape)
        points = rays.origin[..., None, :] + rays.direction[..., None, :] * z[..., :, None]
        flat = points.reshape(-1, 3)
        raw = torch.cat([field(encode(flat[i : i + chunk])) for i in range(0, flat.shape[0], chunk)], 0).reshape(*points.shape[:-1], 4)
        dists = torch.cat([z[..., 1:] - z[..., :-1], torch.full_like(z[..., :1], 1e10)], -1) * rays.direction[..., None, :].norm(dim=-1)
        alpha = 1.0 - torch.exp(-F.softplus(raw[..., 3]) * dists)
        trans = torch.cumprod(torch.cat([torch.ones((alpha.shape[0], 1)), 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * trans
        return (weights[..., None] * torch.sigmoid(raw[..., :3])).sum(-2), weights.sum(-1)

    def f(rays, target, count=3, perturb=True, chunk=4):
        rgb, acc = render(rays, 1.0, 2.0, count, perturb and net.training, chunk)
        if target is None:
            return rgb.detach(), acc.detach()
        loss = ((rgb - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), -10.0 * math.log10(loss.item())

    r = Ray(ramp(2, 3, step=0.1), F.normalize(ramp(2, 3), dim=-1))
    calls = [call(r, ramp(2, 3).abs()), call(r, ramp(2, 3).abs()), call(r, ramp(2, 3), count=4), call(r, None, perturb=False)]
    return f, [*calls, call(Ray(ramp(3, 3), ramp(3, 3)), None, chunk=3), call(r, ramp(2, 3).abs(), chunk=100)], lambda: net


@program(tolerance=1e-5, forms=("function", "parts"))
def sequences_packed_and_stepped_by_hand():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.rnn = nn.Embedding(6, 3, padding_idx=0), nn.GRU(3, 4, batch_first=True, bidirectional=True)

        def forward(self, ids, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
            out, h = self.rnn(packed)
            out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
            return out, torch.tanh(h.transpose(0, 1).flatten(1))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.cell, self.attn, self.out = nn.Embedding(6, 3), nn.LSTMCell(11, 8), nn.Linear(8, 8), nn.Linear(16, 6)

        def forward(self, token, state, memory, mask):
            h, c = state
            score = torch.bmm(memory, self.attn(h).unsqueeze(2)).squeeze(2).masked_fill(~mask, -1e9)
            context = torch.bmm(score.softmax(1).unsqueeze(1), memory).squeeze(1)
            h, c = self.cell(torch.cat([self.embed(token), context], 1), (h, c))
            return self.out(torch.cat([h, context], 1)), (h, c)

    encoder, decoder = filled(Encoder()), filled(Decoder())
    run = part(decoder)
    optimizer = torch.optim.Adagrad([*encoder.parameters(), *decoder.parameters()], lr=0.05)

    def f(source, target, forcing):
        lengths = (source != 0).sum(1)
        memory, h = encoder(source, lengths)
        mask = torch.arange(memory.shape[1])[None, :] < lengths[:, None]
        state, token, losses = (h, torch.zeros_like(h)), target[:, 0], []
        for t in range(1, target.shape[1]):
            logits, state = run(token, state, memory, mask)
            losses.append(F.cross_entropy(logits, target[:, t], reduction="none"))
            force = torch.rand(1).item() < forcing
            token = target[:, t] if force else logits.detach().argmax(1)
        loss = torch.stack(losses, 1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    s, t = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 2, 3, 4], [1, 3, 5, 2]])
    calls = [(s, t, 1.0), (s, t, 0.5), (s.flip(0), t, 0.0), (torch.tensor([[1, 0], [2, 3]]), t[:, :3], 0.5), (s, t, 1.0)]
    return f, calls, lambda: (encoder, decoder)


@program(tolerance=1e-5, forms=("function", "module", "parts"))
def labels_by_viterbi():
    class CRF(nn.Module):
        def __init__(self, tags):
            super().__init__()
            self.transitions = nn.Parameter(ramp(tags, tags, step=0.1))
            self.start, self.end = nn.Parameter(ramp(tags)), nn.Parameter(ramp(tags) + 0.1)

        def score(self, emissions, tags, mask):
            t, b = tags.shape
            score = self.start[tags[0]] + emissions[0, torch.arange(b), tags[0]]
            for i in range(1, t):
                step = self.transitions[tags[i - 1], tags[i]] + emissions[i, torch.arange(b), tags[i]]
                score = score + step * mask[i]
            last = mask.long().sum(0) - 1
            return score + self.end[tags[last, torch.arange(b)]]

        def partition(self, emissions, mask):
            score = self.start + emissions[0]
            for i in range(1, emissions.shape[0]):
                following = torch.logsumexp(score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1), dim=1)
                score = torch.where(mask[i].bool().unsqueeze(1), following, score)
            return torch.logsumexp(score + self.end, dim=1)

        def forward(self, emissions, tags, mask):
            return (self.partition(emissions, mask) - self.score(emissions, tags, mask)).mean()

        def decode(self, emissions, mask):
            score, history = self.start + emissions[0], []
            for i in range(1, emissions.shape[0]):
                best, index = (score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)).max(dim=1)
                score = torch.where(mask[i].bool().unsqueeze(1), best, score)
                history.append(index)
            score, ends, paths = score + self.end, mask.long().sum(0) - 1, []
            for b in range(emissions.shape[1]):
                path = [score[b].argmax().item()]
                for index in reversed(history[: ends[b]]):
                    path.append(index[b][path[-1]].item())
                paths.append(path[::-1])
            return paths

    crf = CRF(3)

    def f(emissions, tags=None, mask=None):
        mask = torch.ones(emissions.shape[:2], dtype=torch.uint8) if mask is None else mask
        if tags is None:
            return crf.decode(emissions, mask)
        loss = crf(emissions, tags, mask)
        loss.backward()
        return loss.detach()

    e, tags = ramp(3, 2, 3, step=0.13).cos(), torch.tensor([[0, 1], [2, 2], [1, 0]])
    m = torch.tensor([[1, 1], [1, 1], [1, 0]], dtype=torch.uint8)
    return f, [(e, tags), (e * 2, tags), (e, tags, m), (e,), (e, None, m), (e * -1, None, m), (e[:2], tags[:2])], lambda: crf


@program(tolerance=1e-5, forms=("function", "module"))
def blocks_recomputed_in_backward():
    class Block(nn.Module):
        def __init__(self, drop):
            super().__init__()
            self.norm, self.fc, self.drop = nn.LayerNorm(4), nn.Linear(4, 4), nn.Dropout(drop)

        def forward(self, x, scale=None):
            y = self.drop(F.mish(self.fc(self.norm(x))))
            return x + (y if scale is None else y * scale)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.gradient_checkpointing = nn.ModuleList([Block(0.0), Block(0.3)]), False
            self.gains = nn.ParameterList([nn.Parameter(torch.ones(())), None])

        def forward(self, x):
            for block, gain in zip(self.blocks, self.gains, strict=True):
                if self.gradient_checkpointing and self.training:
                    x = checkpoint(block, x, gain, use_reentrant=False)
                else:
                    x = block(x, gain)
            return x

    net = filled(Net())
    optimizer = torch.optim.NAdam(net.parameters(), lr=0.01)

    def f(x):
        loss = net(x).square().mean()
        if net.training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    def switch():
        net.gradient_checkpointing = not net.gradient_checkpointing

    x = ramp(3, 4, step=0.21)
    return f, [(x,), switch, (x,), (x,), net.eval, (x,), net.train, (x,), switch, (x,)], lambda: net


@program(tolerance=1e-5, forms=("function", "module"))
def points_sampled_and_grouped():
    def farthest(xyz, count):
        b, n, _ = xyz.shape
        centroids, distance = torch.zeros(b, count, dtype=torch.long), torch.ones(b, n) * 1e10
        far, batch = torch.zeros(b, dtype=torch.long), torch.arange(b)
        for i in range(count):
            centroids[:, i] = far
            d = ((xyz - xyz[batch, far, :].view(b, 1, 3)) ** 2).sum(-1)
            mask = d < distance
            distance[mask] = d[mask]
            far = torch.max(distance, -1)[1]
        return centroids

    def index_points(points, idx):
        b = points.shape[0]
        view, repeat = list(idx.shape), list(idx.shape)
        view[1:] = [1] * (len(view) - 1)
        repeat[0] = 1
        return points[torch.arange(b).view(view).repeat(repeat), idx, :]

    def ball(radius, k, xyz, centers):
        b, n, _ = xyz.shape
        idx = torch.arange(n).view(1, 1, n).repeat([b, centers.shape[1], 1])
        idx[torch.cdist(centers, xyz) > radius] = n
        idx = idx.sort(dim=-1)[0][:, :, :k]
        first = idx[:, :, 0].view(b, -1, 1).repeat([1, 1, k])
        mask = idx == n
        idx[mask] = first[mask]
        return idx

    mlp = filled(nn.Conv2d(3, 4, 1))

    def f(xyz, count, radius, k):
        centers = index_points(xyz, farthest(xyz, count))
        grouped = index_points(xyz, ball(radius, k, xyz, centers)) - centers.unsqueeze(2)
        features = F.relu(mlp(grouped.permute(0, 3, 2, 1))).max(2)[0]
        near = torch.topk(-torch.cdist(xyz, centers), k=min(2, count), dim=-1).indices
        return features, torch.gather(features.transpose(1, 2), 1, near[..., :1].expand(-1, -1, 4))

    x = ramp(2, 6, 3, step=0.37).sin()
    return (
        f,
        [(x, 3, 1.0, 2), (x * 2, 3, 1.0, 2), (x, 2, 0.5, 3), (x[:, :5], 3, 1.0, 2), (x[:1], 3, 2.0, 4)],
        lambda: [p.grad for p in mlp.parameters()],
    )


@program(tolerance=1e-5, forms=("function", "module"))
def norms_of_weights_and_power_iteration():
    class SNLinear(nn.Linear):
        def __init__(self, *args):
            super().__init__(*args)
            self.register_buffer("u", F.normalize(ramp(1, self.out_features, step=0.3), dim=-1))

        @property
        def sigma_weight(self):
            w, u = self.weight, self.u
            with torch.no_grad():
                for _ in range(2 if self.training else 0):
                    v = F.normalize(torch.matmul(u, w), dim=-1)
                    u = F.normalize(torch.matmul(v, w.t()), dim=-1)
                if self.training:
                    self.u[:] = u
                v = F.normalize(torch.matmul(u, w), dim=-1)
            return w / torch.squeeze(u @ w @ v.t())

        def forward(self, x):
            return F.linear(x, self.sigma_weight, self.bias)

    net = nn.Sequential(filled(SNLinear(3, 4)), nn.LeakyReLU(0.2), nn.utils.spectral_norm(filled(nn.Linear(4, 4))), nn.PReLU(),
                        nn.utils.parametrizations.weight_norm(filled(nn.Linear(4, 1))))  # fmt: skip
    optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01, alpha=0.9, centered=True)

    def f(real, fake):
        a, b = net(real), net(fake)
        loss = F.relu(1.0 - a).mean() + F.relu(1.0 + b).mean()
        if net.training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    c = (ramp(2, 3), ramp(2, 3) + 1)
    return f, [c, c, net.eval, c, c, net.train, c, (ramp(3, 3), ramp(3, 3))], lambda: (net, net[0].u)


@program(tolerance=1e-5, forms=("function",))
def sparse_rows_found_by_value():
    queue = torch.zeros(4, 3)
    count = {"filled": 0}

    def f(boxes, scores, iou, limit=10):
        order, keep = scores.sort(descending=True)[1], []
        while order.numel() > 0:
            i = order[0] if order.dim() else order
            keep.append(i.item())
            if order.numel() == 1 or len(keep) >= limit:
                break
            rest = boxes[order[1:]]
            low, high = torch.max(rest[:, :2], boxes[i, :2]), torch.min(rest[:, 2:], boxes[i, 2:])
            inter = (high - low).clamp(min=0).prod(1)
            area = lambda b: (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])  # noqa: E731
            overlap = inter / (area(rest) + area(boxes[i]) - inter)
            order = order[1:][(overlap <= iou).nonzero().squeeze(1)]
        kept = torch.tensor(keep, dtype=torch.long)
        queue[count["filled"] % 4] = boxes[kept, :3].mean(0)
        count["filled"] += 1
        return kept, scores[kept]

    b = torch.tensor([[0.0, 0, 2, 2], [0.1, 0, 2, 2], [1, 1, 3, 3], [5, 5, 6, 6]])
    s = torch.tensor([0.9, 0.8, 0.7, 0.6])
    calls = [(b, s, 0.5), (b, s.flip(0), 0.5), (b, s, 0.05), (b[:3], s[:3], 0.5), call(b, s, 0.99, limit=2), (b[:1], s[:1], 0.5)]
    return f, calls, lambda: (queue, count)
