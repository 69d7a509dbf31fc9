"""Tensors over one memory: chunks, caches whose parts are kept, flat buffers of parameters, windows that overlap or come to."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.capture.corpus.harness import program, ramp
from tests.capture.corpus.modules import filled


@program(tolerance=1e-6)
def chunks_of_projections_of_changing_lengths():
    def f(q, k, v):
        k[..., 0] += 1
        return F.scaled_dot_product_attention(q, k, v), k.detach(), v[:, -1], q

    return f, [ramp(b, t, 12, step=0.05).chunk(3, -1) for b, t in ((1, 2), (1, 3), (2, 4), (1, 5), (2, 6), (1, 2))]


@program(tolerance=1e-5)
def chunks_with_gradients():
    weight = ramp(4, 12, step=0.03, grad=True)

    def f(q, k, v):
        return (q * k).sum(-1, keepdim=True) * v, q.detach() + 1

    def chunks(t):
        return (ramp(1, t, 4, step=0.1) @ weight).chunk(3, -1)

    return f, [chunks(t) for t in (2, 2, 3, 4)], lambda: weight.grad


@program(tolerance=1e-6)
def halves_of_a_cache_that_fills():
    cache = torch.zeros(2, 1, 2, 8, 4)

    def f(q, k, v):
        out = F.scaled_dot_product_attention(q, k, v)
        k[:, :, -1] += 1
        return out

    def calls():
        return [(ramp(1, 2, 1, 4), cache[0, :, :, :t], cache[1, :, :, :t]) for t in range(1, 8)]

    return f, calls(), lambda: cache


@program(tolerance=1e-6)
def views_of_a_cache_kept_between_calls():
    cache = torch.zeros(2, 3, 8)
    held = {"k": cache[0, :, :0], "v": cache[1, :, :0]}

    def f(x, t):
        before = held["k"].sum() + held["v"].sum()
        cache[0, :, t] = x
        cache[1, :, t] = x * 2
        again = held["k"].sum()
        held["k"], held["v"] = cache[0, :, : t + 1], cache[1, :, : t + 1]
        return before, again, held["k"] @ held["v"].t()

    return f, [(ramp(3, start=float(t)), t) for t in range(7)], lambda: (cache, held)


@program()
def windows_that_come_to_overlap():
    data = ramp(12)

    def f(a, b):
        a.mul_(2)
        b.add_(a.sum())
        return a + 1, b.sum()

    spans = (((0, 3), (3, 6)), ((0, 3), (4, 7)), ((0, 4), (5, 9)), ((0, 5), (4, 9)), ((2, 6), (3, 7)), ((0, 3), (3, 6)), ((6, 9), (1, 4)))
    return f, [(data[a:b], data[c:d]) for (a, b), (c, d) in spans], lambda: data


@program()
def windows_with_a_changing_distance():
    data = ramp(20)

    def f(a, b, c):
        b += a
        c -= 1
        return a.detach(), b[1:], c.flip(0), a.view(2, 2)

    return f, [(data[i : i + 4], data[j : j + 4], data[k : k + 4]) for i, j, k in ((0, 4, 8), (0, 8, 12), (8, 0, 16), (4, 4, 0), (0, 2, 4))]


@program()
def rows_and_columns_of_one_matrix():
    def f(m, row, column):
        row += 1
        column *= 2
        return m.sum(0), row * column

    def call(n):
        m = ramp(n, n)
        return m, m[1], m[:, 0]

    return f, [call(3), call(3), call(4), call(5)]


@program(tolerance=1e-5)
def parameters_in_one_flat_buffer():
    net = nn.Sequential(filled(nn.Linear(3, 4)), nn.Tanh(), filled(nn.Linear(4, 2)))
    flat = torch.cat([p.detach().flatten() for p in net.parameters()])
    gradients, place = torch.zeros_like(flat), 0
    for p in net.parameters():
        p.data = flat[place : place + p.numel()].view_as(p)
        p.grad = gradients[place : place + p.numel()].view_as(p)
        place += p.numel()

    def f(x):
        gradients.zero_()
        loss = net(x).square().mean()
        loss.backward()
        norm = gradients.norm()
        flat.sub_(0.1 * gradients / (1 + norm))
        return loss.detach(), norm

    return f, [(ramp(4, 3, step=0.1 + 0.1 * i),) for i in range(4)], lambda: (flat, net, gradients)


@program(tolerance=1e-5)
def optimizer_over_parts_of_a_buffer():
    flat = ramp(15, step=0.05)
    weight, bias = nn.Parameter(flat[:12].view(4, 3)), nn.Parameter(flat[12:])
    optimizer = torch.optim.Adam([weight, bias], lr=0.1)

    def f(x, value):
        optimizer.zero_grad()
        loss = F.linear(x, weight.t(), None).sum() + (x[:, :3] * bias).square().mean()
        if loss > 100:
            return None
        loss.backward()
        optimizer.step()
        return loss.detach(), flat.sum() if value else flat.max()

    return f, [(ramp(2, 4), False), (ramp(2, 4), True), (ramp(2, 4), True), (ramp(2, 4), False)], lambda: (flat, weight.grad, bias.grad)


@program()
def parts_returned_and_written_by_the_caller():
    store = torch.zeros(6, 4)

    def f(i, j, x):
        first, second = store[i], store[j]
        first.copy_(x)
        second.add_(first)
        return second, store[i : j + 1], first is second

    return f, [(0, 1, ramp(4)), (1, 3, ramp(4)), (2, 2, ramp(4)), (0, 5, ramp(4)), (3, 4, ramp(4))], lambda: store


@program()
def list_of_tensors_after_a_view_was_changed():
    count = 0

    def f(x, step):
        nonlocal count
        first = x * 1.0
        part = first[:2]
        held, pair = [first, x + 1], (first, [part])
        for _ in held:
            count += step
        if first.sum().item() > 1:
            count += 1
        try:
            part[1:] *= -1
            {}["missing"]
        except KeyError:
            total = sum(held[-3:])
        return total, part, torch.stack(held), sum(pair[1], pair[0][:2]), held

    return f, [(ramp(4, start=s, step=d, grad=True), n) for s, d, n in ((1.5, 0.375, 0), (1.5, -0.5, 3), (1.5, 0.375, 0), (1.5, -0.5, 2))]


@program(tolerance=1e-6)
def marks_of_arguments_set_before_they_are_joined():
    layer = torch.nn.Linear(2, 1)
    for p in layer.parameters():
        torch.nn.init.constant_(p, 0.5)

    def f(x, t):
        x.requires_grad_()
        t.requires_grad_()
        u = layer(torch.stack([x, t], 1)).tanh()
        by_x, by_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        (twice,) = torch.autograd.grad(by_x.sum(), x, create_graph=True)
        loss = ((by_t - 0.1 * twice) ** 2).mean()
        layer.zero_grad()
        loss.backward()
        return loss, [p.grad for p in layer.parameters()]

    return f, [(ramp(n) * k, ramp(n) + k) for n, k in ((3, 1), (3, 2), (5, 1))]
