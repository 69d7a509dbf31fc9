"""Tensors: views, in-place changes, shapes, dtypes, gradients, random numbers."""

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def pending_views_and_in_place():
    def f(x):
        y = x * 2
        v = y[0]
        w = y.view(-1)
        v.add_(10)
        w[1:3].mul_(5)
        y.t_()
        return y, v, w

    return f, [(ramp(2, 3),), (ramp(2, 3) * 2,), (ramp(3, 3),)]


@program()
def argument_written_in_place():
    def f(x):
        x.mul_(2)
        x[0] = 7
        x += 1
        return x

    return f, [(ramp(3),), (ramp(3),), (ramp(2, 2),)]


@program()
def view_of_argument_returned():
    def f(x):
        y = x[1:]
        y.add_(1)
        return y, x.t() if x.ndim == 2 else x, x.reshape(-1)

    return f, [(ramp(3),), (ramp(3, 2),), (ramp(3),)]


@program()
def same_tensor_twice():
    def f(x, y):
        x.add_(1)
        return x is y, x + y, y * 2

    a, b = ramp(3), ramp(3)
    return f, [(ramp(3), ramp(3)), (a, a), (ramp(3), ramp(3)), (b, b)]


@program()
def views_of_one_base():
    def f(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y

    base, other = ramp(6), ramp(6)
    return f, [(base[:3], base[3:]), (base[:3], base[:3]), (base[:4:2], base[1:3]), (other[:3], ramp(3)), (base[0:3], base[2:5])]


@program()
def outside_tensor_written():
    buffer = ramp(3)

    def f(x):
        buffer.mul_(0.5).add_(x)
        return buffer * 2

    return f, [(ramp(3),), (ramp(3),), (ramp(3) * 2,)], lambda: buffer


@program()
def outside_tensor_replaced_between_calls():
    box = {"w": ramp(3)}

    def f(x):
        return x * box["w"]

    def other():
        box["w"] = ramp(3) + 5

    def longer():
        box["w"] = ramp(3, 3)

    return f, [(ramp(3),), other, (ramp(3),), longer, (ramp(3),), (ramp(3),)]


@program()
def shapes_change():
    def f(x):
        return x * 2 + x.shape[0], x.numel(), list(x.size())

    return f, [(ramp(n),) for n in (2, 3, 4, 5, 1, 0, 7)] + [(ramp(2, 3),), (ramp(),)]


@program()
def dtypes_change():
    def f(x):
        return x * 2, x + 0.5, x.dtype, x.is_floating_point()

    kinds = (torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.int32, torch.float32)
    return f, [((ramp(3) * 2).to(k),) for k in kinds]


@program()
def empty_and_zero_dimensional():
    def f(x):
        return x.sum(), x * 2, x.numel() == 0, torch.cat([x.reshape(-1), torch.ones(1)])

    return f, [(ramp(0),), (ramp(),), (ramp(2, 0, 3),), (ramp(1),), (ramp(0),)]


@program()
def strides_change():
    def f(x):
        return x.contiguous() + 1, x.is_contiguous(), x.reshape(-1), x.stride()

    x = ramp(2, 3)
    return f, [(x,), (x.t(),), (x[:, ::2],), (x.expand(2, 2, 3),), (x,)]


@program()
def indexing_many():
    def f(x, mask, index):
        y = x.clone()
        y[mask] = 0
        y[index] += 1
        y[..., -1] = y[0, 0]
        y[:, None, 0] *= 2
        return y, x[mask], x[index, 0], x[None, 1:, ::2], x[torch.tensor(0)], x[[0, 1]]

    x = ramp(2, 3)
    return f, [(x, x > 0, torch.tensor([1])), (x, x > 99, torch.tensor([0, 0])), (x, x < 99, torch.tensor([1]))]


@program()
def data_dependent_shapes():
    def f(x):
        found = x.nonzero()
        positive = x[x > 0]
        return found, positive * 2, positive.shape[0], torch.unique(x.round())

    return f, [(ramp(4),), (ramp(4) + 3,), (ramp(4) - 9,), (ramp(4),)]


@program()
def requires_grad_changes():
    def f(x):
        return x * x, x.requires_grad

    return f, [(ramp(2),), (ramp(2, grad=True),), (ramp(2),), (ramp(2, grad=True),)]


@program()
def requires_grad_set_inside():
    def f(x):
        y = (x * 2).detach().requires_grad_()
        z = (y * y).sum()
        (g,) = torch.autograd.grad(z, y)
        return g, y.is_leaf, z

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def detach_and_data():
    def f(x):
        y = x * 2
        y.detach().add_(1)
        y.data.mul_(3)
        return y, y.detach(), x.detach()

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True),), (ramp(3),)]


@program()
def result_is_differentiated_outside():
    w = ramp(2, grad=True)

    def f(x):
        return (x * w).sum(), w.exp()

    return f, [(ramp(2),), (ramp(2),), (ramp(2, grad=True),)], lambda: w


@program()
def gradient_of_gradient():
    def f(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g, (g * g).sum()

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True),), (ramp(3, grad=True),)]


@program()
def gradient_hooks():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 10)
        x.register_hook(lambda g: seen.append(g.sum().item()))
        y.sum().backward()
        return x.grad

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True),), (ramp(3, grad=True),)], lambda: seen


@program()
def gradient_hook_from_outside():
    w = ramp(2, grad=True)
    seen = []
    w.register_hook(lambda g: seen.append(g * 2))

    def f(x):
        return (w * x).sum()

    return f, [(ramp(2),), (ramp(2),), (ramp(2) * 3,)], lambda: (w, seen)


@program()
def retain_grad_inside():
    def f(x):
        y = x * 2
        y.retain_grad()
        (y * y).sum().backward()
        return y.grad, x.grad

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True),), (ramp(3, grad=True),)]


@program()
def own_autograd_function():
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, limit):
            ctx.save_for_backward(x)
            ctx.limit = limit
            return x.clamp(-limit, limit)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x.abs() <= ctx.limit) * 3, None

    def f(x, limit):
        return Clip.apply(x * 2, limit)

    return f, [(ramp(4, grad=True), 1.0), (ramp(4, grad=True), 2.0), (ramp(4, grad=True), 1.0), (ramp(4), 1.0)]


@program()
def random_order_with_seed():
    def f(x):
        torch.manual_seed(3)
        a = torch.rand(3)
        b = torch.randn(2)
        torch.manual_seed(3)
        return a, b, torch.rand(3), torch.randint(0, 9, (2,)), torch.randperm(4)

    return f, [(ramp(3),)] * 3, lambda: torch.rand(1)


@program()
def random_stream_goes_on():
    def f(x):
        return x + torch.rand(3), torch.bernoulli(torch.full((3,), 0.5))

    return f, [(ramp(3),)] * 4, lambda: torch.rand(2)


@program()
def dropout_in_order():
    def f(x, training):
        a = torch.rand(2)
        y = torch.nn.functional.dropout(x, 0.5, training)
        return a, y, torch.rand(1)

    x = ramp(8)
    return f, [(x, True), (x, True), (x, False), (x, True)], lambda: torch.rand(1)


@program()
def random_state_kept_and_restored():
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(2)
        torch.set_rng_state(state)
        return x + torch.rand(2) - a, a

    return f, [(ramp(2),)] * 3, lambda: torch.rand(1)


@program()
def own_generator():
    g = torch.Generator().manual_seed(5)

    def f(x):
        return x + torch.rand(2, generator=g)

    return f, [(ramp(2),)] * 3, lambda: torch.rand(1, generator=g)


@program()
def tensor_attributes():
    def f(x):
        y = x * 2
        y.note = "kept"
        x.seen = getattr(x, "seen", 0) + 1
        return y.note, y, x.seen

    x = ramp(2)
    return f, [(x,), (x,), (ramp(2),)], lambda: x.seen


@program()
def out_arguments():
    def f(x, out):
        torch.mul(x, 2, out=out)
        made = torch.empty(0)
        torch.add(x, 1, out=made)
        return out, made

    return f, [(ramp(3), ramp(3)), (ramp(3), ramp(3)), (ramp(2), torch.empty(2))]


@program()
def tensors_that_get_another_size():
    def f(x):
        made, other = torch.empty(0), x * 2
        made.resize_(x.shape)
        made.copy_(x)
        other.resize_(2)
        return made + 1, other, torch.add(x, 1, out=torch.empty(0))

    return f, [(ramp(3),), (ramp(3) + 1,), (ramp(4),), (ramp(3),)]


@program()
def base_of_a_changed_view_in_a_list():
    def f(x):
        base = x + 1.0
        view, held = base.view(2, 2), [base]
        s = x[1] * 0.5
        while s < 2:
            s = s + 0.75
        view.clamp_(max=0)
        return view, held

    return f, [(ramp(4),), (ramp(4, start=1.5, step=-0.5, grad=True),), (ramp(4, start=-1.0, step=0.375, grad=True),)]


@program()
def set_data_between_calls():
    w = ramp(3, grad=True)

    def f(x):
        return x * w

    def swap():
        w.data = ramp(3) + 3

    return f, [(ramp(3),), swap, (ramp(3),), (ramp(3),)], lambda: w


@program()
def element_writes_in_loop():
    def f(x):
        out = torch.zeros(4)
        for i in range(4):
            out[i] = x[i % x.shape[0]] * i
            if i:
                out[i] += out[i - 1]
        return out

    return f, [(ramp(3),), (ramp(3),), (ramp(2),)]


@program()
def constants_made_inside():
    def f(x):
        bias = torch.tensor([1.0, 2.0, 3.0])
        bias.add_(1)
        ones = torch.ones(3)
        ones[0] = 5
        return x + bias * ones, torch.arange(3) + torch.tensor(2), torch.full((2,), 1.5)

    return f, [(ramp(3),)] * 3


@program()
def in_place_keeps_gradient_history():
    def f(x):
        y = x * 2
        y.mul_(x)
        y[0] = 0
        z = y.clone()
        z.relu_()
        return y, z

    return f, [(ramp(3, grad=True),), (ramp(3, grad=True),), (ramp(4, grad=True),)]


@program()
def split_views_written():
    def f(x):
        y = x * 1
        a, b = y.chunk(2)
        a.zero_()
        b.copy_(a + 1)
        c = y.unbind()[0]
        c += 5
        return y, a, b, torch.stack([a, b])

    return f, [(ramp(4),), (ramp(4),), (ramp(2, 2),)]


@program()
def reductions_and_sorting():
    def f(x):
        values, index = x.sort(dim=-1, descending=True)
        top = x.topk(2)
        return values, index, top.values, x.argmax(), x.cumsum(-1), x.var(), torch.max(x, -1).indices

    return f, [(ramp(3),), (-ramp(3),), (ramp(2, 3),), (ramp(3),)]


@program()
def where_and_masks():
    def f(x, y):
        mask = x > y
        return torch.where(mask, x, y), x.masked_fill(mask, 0), mask.sum().item(), torch.where(mask)[0]

    return f, [(ramp(4), ramp(4) * 0), (ramp(4), ramp(4) + 1), (ramp(4), ramp(4) * 0)]


@program()
def broadcast_and_promotion():
    def f(x, y):
        return x + y, x * 2, y / 2, (x > y) | (y < 0)

    return f, [(ramp(2, 1), ramp(3)), (torch.tensor([1, 2]), ramp(2)), (torch.tensor(2), torch.tensor([1.5])), (ramp(2, 1), ramp(3))]


@program()
def tensor_compared_by_value():
    def f(x, y):
        if torch.equal(x, y):
            return "equal"
        return "close" if torch.allclose(x, y, atol=1) else (x - y).abs().max().item()

    return f, [(ramp(2), ramp(2)), (ramp(2), ramp(2) + 0.5), (ramp(2), ramp(2) + 5), (ramp(2), ramp(2))]


@program()
def results_over_one_memory_are_apart():
    def f(x):
        y = x + 1
        return y, y.detach(), y.detach(), y

    return f, [(ramp(3),), (ramp(3),), (ramp(3),), (ramp(3, grad=True),), (ramp(3, grad=True),)]


@program()
def random_numbers_that_nothing_reads():
    def f(x):
        torch.rand_like(x)
        first = torch.rand(3)
        for _ in range(2):
            left = torch.nn.functional.dropout(x * 2, 0.5)
        left.normal_()
        second, third = torch.randn(20), torch.randperm(4)
        return x + first, third

    def after():
        seen.append(torch.rand(2).tolist())

    torch.manual_seed(3)
    seen = []
    return f, [(ramp(3),), after, (ramp(3),), after, (ramp(3, grad=True),), after, (ramp(2, 3),), after], lambda: seen
