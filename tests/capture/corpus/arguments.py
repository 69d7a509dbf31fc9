"""What is handed in and comes back: kinds, aliases, structures."""

import collections
import dataclasses

import flambeau as torch
from tests.capture.corpus.harness import call, program, ramp


@program()
def tuple_length_changes():
    def f(xs):
        out = 1
        for x in xs:
            out = out * x
        return out, len(xs)

    x = ramp(2)
    return f, [((x,),), ((x, x),), ((),), ((x, x, 2.0),), ((x,),)]


@program()
def list_of_changing_kinds():
    def f(xs):
        return [x * 2 if isinstance(x, torch.Tensor) else x for x in xs]

    x = ramp(2)
    return f, [([x, 1],), ([1, x],), ([x, None, "a"],), ([x, 1],)]


@program()
def keyword_names_change():
    def f(x, **options):
        for name, value in options.items():
            x = x * value if name.startswith("s") else x + value
        return x, sorted(options)

    x = ramp(2)
    return f, [(x,), call(x, s=2), call(x, t=3), call(x, t=3, s=2), call(x, s=2, t=3), (x,)]


@program()
def none_or_tensor():
    def f(x, mask=None, *, bias=None):
        y = x if mask is None else x * mask
        return y if bias is None else y + bias

    x = ramp(3)
    return f, [(x,), (x, x > 0), call(x, bias=x), call(x, x > 0, bias=2.0), (x,)]


@program()
def string_argument_changes():
    def f(x, mode):
        return {"relu": torch.relu, "abs": torch.abs}[mode](x) if mode else x

    return f, [(ramp(3), m) for m in ("relu", "abs", "", "relu", "abs")] + [(ramp(3), "no")]


@program()
def dtype_and_device_arguments():
    def f(x, dtype, device="cpu"):
        return x.to(dtype), torch.zeros(2, dtype=dtype, device=device), str(x.device)

    return f, [(ramp(2), torch.float64), (ramp(2), torch.int64), (ramp(2), torch.float64), (ramp(2), torch.float32, torch.device("cpu"))]


@program()
def function_argument():
    def f(x, g):
        return g(x) + 1

    return f, [(ramp(2), torch.relu), (ramp(2), lambda t: t * 3), (ramp(2), torch.Tensor.abs), (ramp(2), torch.relu)]


@program()
def own_object_argument():
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        scale: float = 1.0

    def f(batch):
        batch.scale += 1
        batch.x = batch.x * batch.scale
        return batch.x

    return f, [(Batch(ramp(2)),), (Batch(ramp(2), 2.0),), (Batch(ramp(3)),), (Batch(ramp(2)),)]


@program()
def argument_is_returned():
    def f(x, y):
        return x, [y, x], {"k": y}

    return f, [(ramp(2), ramp(2)), (ramp(2), 3), (ramp(3), ramp(2))]


@program()
def nothing_is_returned():
    log = []

    def f(x):
        log.append(x.shape[0])

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)], lambda: log


@program()
def results_that_share_memory():
    def f(x):
        y = x * 2
        return y, y[0], y.view(-1), y

    return f, [(ramp(2, 2),), (ramp(2, 2),), (ramp(3, 2),)]


@program()
def earlier_results_stay():
    kept = []

    def f(x):
        y = x * 2
        kept.append(y)
        return y

    return f, [(ramp(2),), (ramp(2) + 1,), (ramp(2) + 2,)], lambda: kept


@program()
def result_fed_back():
    box = [ramp(3)]

    def f():
        box[0] = box[0] * 1.5 + 1
        return box[0]

    return f, [(), (), (), ()], lambda: box


@program()
def result_is_modified_by_caller():
    last = []

    def f(x):
        y = x * 2
        last[:] = [y]
        return y

    def modify():
        last[0].zero_()

    return f, [(ramp(2),), modify, (ramp(2),), modify, (ramp(2),)], lambda: last


@program()
def namedtuple_and_size_arguments():
    Point = collections.namedtuple("Point", "x y")

    def f(p, size):
        return p.x.reshape(size) * p.y, tuple(size), len(size)

    return f, [(Point(ramp(4), 2), torch.Size([2, 2])), (Point(ramp(4), 3.0), (4,)), (Point(ramp(4), 2), [1, 4])]


@program()
def tensor_and_number_take_turns():
    def f(a, b):
        return a * 2 + b

    return f, [(ramp(2), 1.0), (1.0, ramp(2)), (2, 3), (ramp(2), ramp(2)), (torch.tensor(2.0), 1), (ramp(2), 1.0)]


@program()
def zero_d_tensor_number():
    def f(x, k):
        return x * k, k + 1, k.item() if isinstance(k, torch.Tensor) else k

    return f, [(ramp(2), torch.tensor(2.0)), (ramp(2), torch.tensor(3.0)), (ramp(2), torch.tensor(3)), (ramp(2), 3)]


@program()
def many_arguments_of_changing_order():
    def f(*xs):
        return sum(x * (i + 1) for i, x in enumerate(xs))

    a, b = ramp(2), ramp(2) + 5
    return f, [(a, b, a), (b, a, a), (a, a, a), (a, b), (a, b, a)]


@program()
def arguments_unpacked_from_containers_outside():
    batches = [(ramp(3), ramp(3, start=2.0))]

    def g(a, b=1.0, *rest, **named):
        return a * 2 + b, len(rest), sorted(named)

    def f(pair, numbers, options):
        first, *others = pair
        return (
            g(*pair), g(*list(pair)), g(first, *others), g(*pair[::-1]), g(*reversed(pair)), g(*batches[0]), torch.sub(*pair),
            g(first, *numbers), g(*pair, **options), g(first, **options), g(*(v + 1 for v in pair)), g(*map(torch.neg, pair)),
            g(*zip(*[pair], strict=True))[1:],
        )  # fmt: skip

    def other():
        batches[0] = (ramp(3) * 3, ramp(3) - 1)

    def args(k, n, **options):
        return (ramp(3) * k, ramp(3) + k), n, options

    return f, [args(1, (2.5,)), args(2, (3.5,)), other, args(3, [7, 300]), args(3, [8, 301], c=1), args(4, [8], c=ramp(2))]


@program()
def arguments_unpacked_into_a_module():
    m = torch.nn.Bilinear(2, 2, 1)
    for p in m.parameters():
        torch.nn.init.constant_(p, 0.5)

    def f(batch):
        loss = m(*batch["x"]).sum()
        loss.backward()
        return loss

    return f, [({"x": (ramp(3, 2) * k, ramp(3, 2) + k)},) for k in (1, 2, 3)], lambda: [p.grad for p in m.parameters()]
