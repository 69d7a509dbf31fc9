"""Numbers of the host: from tensors, to tensors, random ones."""

import math
import random

import numpy as np

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def item_used_in_arithmetic():
    def f(x):
        s = x.sum().item()
        n = int(x.abs().max())
        return x / (s + 10), s * 2, n, round(s, 1)

    return f, [(ramp(3),), (ramp(3) * 2,), (ramp(3),), (ramp(3) - 4,)]


@program()
def item_as_size():
    def f(x):
        n = int(x.max().item())
        return torch.zeros(n) + x.sum(), x[:n]

    return f, [(torch.tensor([1.0, 2.0, 3.0]),), (torch.tensor([1.0, 2.0, 1.0]),), (torch.tensor([1.0, 2.0, 3.0]),)]


@program()
def tolist_and_back():
    def f(x):
        values = (x * 2).tolist()
        return torch.tensor(values[::-1]), values, [v for v in values if v > 0]

    return f, [(ramp(3),), (ramp(3) + 5,), (ramp(2),)]


@program()
def float_int_bool_of_tensors():
    def f(x):
        return float(x[0]), int(x[1]), bool(x[2] > 0), x[0].item() == float(x[0]), [0, 1, 2][torch.tensor(2)], round(float(x[0]))

    return f, [(ramp(3),), (ramp(3) + 3,), (ramp(3) * 100,), (ramp(3),)]


@program()
def number_argument_changes():
    def f(x, k):
        return x * k + k

    return f, [(ramp(2), k) for k in (1.0, 2.0, 3.0, 4.5, -0.0, float("inf"))]


@program()
def int_argument_changes():
    def f(x, k):
        return x * k, x**k, k // 2, k % 3

    return f, [(ramp(2), k) for k in (1, 2, 3, 4, 5)]


@program()
def argument_kind_changes():
    def f(x, v):
        if isinstance(v, str):
            return x + len(v)
        return x if v is None else x * v

    return f, [(ramp(2), v) for v in (1, 1.0, True, None, "ab", torch.tensor(2.0), 1, None)]


@program()
def one_true_and_one_point_zero():
    def f(x, v):
        return x.to(torch.int64) * v, type(v).__name__, v == 1

    return f, [(ramp(2) * 4, v) for v in (1, 1.0, True, 1, True, 1.0)]


@program()
def counter_goes_up():
    step = [0]

    def f(x):
        step[0] += 1
        return x / (1 - 0.9 ** step[0])

    return f, [(ramp(2),)] * 5, lambda: step


@program()
def python_random():
    def f(x):
        k = random.random()
        y = x * k
        return (y + 1 if random.randint(0, 3) > 1 else y), random.choice("abc"), random.sample(range(9), 2)

    return f, [(ramp(2),)] * 5, random.getstate


@program()
def own_random_generator():
    r = random.Random(7)

    def f(x):
        v = r.choice([1, "a", 2.5, None])
        if v is None:
            return x
        return x * 2, v

    return f, [(ramp(2),)] * 8, r.getstate


@program()
def numpy_random():
    rng = np.random.default_rng(3)

    def f(x):
        noise = torch.from_numpy(rng.normal(size=x.shape[0]).astype(np.float32))
        return x + noise, float(np.random.rand())

    return f, [(ramp(2),)] * 4, lambda: rng.integers(100)


@program()
def random_decides_branch():
    def f(x):
        if random.random() < 0.5:
            return x * 2, "drop"
        return x, "keep"

    return f, [(ramp(2),)] * 8


@program()
def math_functions():
    def f(x, n):
        return x * math.sqrt(n) + math.pi, math.floor(n / 2), math.log2(n), math.isclose(n, 2.0), math.prod((n, 2))

    return f, [(ramp(2), 2.0), (ramp(2), 3.0), (ramp(2), 4), (ramp(2), 2.0)]


@program()
def math_of_tensor():
    def f(x):
        return math.exp(x.sum()), math.floor(x.max()), x * math.sin(x[0])

    return f, [(ramp(2),), (ramp(2) * 2,), (ramp(2),)]


@program()
def numpy_in_the_middle():
    def f(x):
        a = (x * 2).numpy()
        b = np.sort(a)[::-1].copy()
        return torch.from_numpy(b) + x, a.shape, float(np.median(a))

    return f, [(ramp(3),), (ramp(3) * -1,), (ramp(4),)]


@program()
def numpy_view_writes_through():
    def f(x):
        y = x * 1
        a = y.numpy()
        a[0] = 42.0
        y.add_(1)
        return y, a, a[0] == y[0].item()

    return f, [(ramp(3),), (ramp(3),), (ramp(4),)]


@program()
def numpy_scalars():
    def f(x, k):
        return x * k, k + 1, np.float64(2.0) * x, isinstance(k, np.generic)

    return f, [(ramp(2), np.float32(2)), (ramp(2), np.int64(3)), (ramp(2), np.float32(4)), (ramp(2), np.bool_(True))]


@program()
def bit_and_big_integers():
    def f(x, n):
        return x * (n << 2 | 1), n**70, -7 // 2, -7 % 3, divmod(n, 4), n.bit_length(), ~n

    return f, [(ramp(2), 3), (ramp(2), 5), (ramp(2), 3)]


@program()
def complex_and_special_floats():
    def f(x, v):
        c = complex(v, 1) * 2j
        return x * v, c.real, abs(c), v != v, math.copysign(1, v)

    return f, [(ramp(2), v) for v in (0.0, -0.0, float("nan"), float("-inf"), 0.0)]


@program()
def loop_over_tensor_as_numbers():
    def f(x, index):
        out = x * 0
        for i in index:
            out[i] += x[int(i)] * 2
        for j in index.tolist():
            out = out + j
        return out

    return f, [(ramp(4), torch.tensor([0, 2])), (ramp(4), torch.tensor([3])), (ramp(4), torch.tensor([1, 1]))]


@program()
def early_stop_by_value():
    best = [float("inf"), 0]

    def f(x):
        loss = (x * x).mean().item()
        if loss < best[0]:
            best[:] = [loss, 0]
        else:
            best[1] += 1
        return best[1] >= 2

    return f, [(ramp(2) * k,) for k in (3, 2, 2.5, 4, 1, 5)], lambda: best


@program()
def sum_of_items():
    total = {"loss": 0.0, "n": 0}

    def f(x):
        loss = (x**2).mean()
        total["loss"] += loss.item() * x.shape[0]
        total["n"] += x.shape[0]
        return loss

    return f, [(ramp(2),), (ramp(3),), (ramp(2) * 3,), (ramp(5),)], lambda: total


@program()
def number_from_dictionary_of_settings():
    settings = {"lr": 0.1, "steps": 2}

    def f(x):
        for _ in range(settings["steps"]):
            x = x - settings["lr"] * x
        return x

    def halve():
        settings["lr"] /= 2

    def more():
        settings["steps"] += 1

    return f, [(ramp(2),), halve, (ramp(2),), more, (ramp(2),), halve, (ramp(2),), halve, (ramp(2),)]


@program()
def integer_kept_inside_small_and_large():
    class Holder:
        pass

    def f(x, n):
        numbers, by_name, holder = [n], {"n": n}, Holder()
        holder.n = n
        return x * numbers[0], x + by_name["n"], x - holder.n, numbers, by_name

    return f, [(ramp(2), n) for n in (1, 2, 3, 300, 4, 301, -6, 256, 257, 2.5, 3.5)]
