"""What users reported of other compilers, one program each; the numbers are of issues of pytorch/pytorch."""

import copy
import logging
import math

import flambeau as torch
from flambeau import nn
from tests.capture.corpus.harness import program, ramp
from tests.capture.corpus.modules import filled


@program()
def report_158642_item_in_the_middle():
    def f(x):
        y = x * 2
        k = y.max().item()
        return y / k, torch.full_like(y, k)

    return f, [(ramp(3) + 2,), (ramp(3) + 3,), (ramp(3) + 4,), (ramp(3) + 2,)]


@program()
def report_173915_item_bounds_a_slice():
    def f(x, lengths):
        out = []
        for row, n in zip(x, lengths, strict=True):
            out.append(row[: n.item()].sum())
        return torch.stack(out)

    x = ramp(2, 4)
    return f, [(x, torch.tensor([1, 2])), (x, torch.tensor([4, 1])), (x, torch.tensor([3, 3])), (x, torch.tensor([1, 2]))]


@program()
def report_93739_print_inside():
    def f(x):
        print("before")
        y = torch.sin(x)
        print("shape", y.shape)
        return torch.cos(y)

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def report_132635_logging_inside():
    logger = logging.getLogger("corpus.report")

    def f(x):
        logger.warning("warned %d", x.shape[0])
        y = x + 1
        logger.info("value %s", y[0].item())
        return y

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program(tolerance=1e-6)
def report_120814_backward_inside():
    net = filled(nn.Linear(2, 1))

    def f(x):
        loss = net(x).sum()
        loss.backward()
        return loss.detach(), [p.grad.clone() for p in net.parameters()]

    return f, [(ramp(2, 2),), (ramp(2, 2),), (ramp(3, 2),)], lambda: net


@program()
def report_185382_values_after_a_break():
    def f(x):
        a = x * 2
        b = a + 1
        n = int(b.sum().item())
        a.mul_(3)
        c = b + a
        if n % 2:
            c = c - b
        return a, b, c, n

    return f, [(ramp(3),), (ramp(3) + 1,), (ramp(3) + 2,), (ramp(3),)]


@program()
def report_183069_mode_leaks():
    def f(x):
        with torch.no_grad():
            y = x * 2
            n = y.sum().item()
            if n > 100:
                raise ValueError("large")
        return x * n

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True) + 99,), (ramp(2, grad=True),)], torch.is_grad_enabled


@program()
def report_114293_index_of_a_layer():
    weights = [ramp(2) + i for i in range(12)]

    def f(x, i):
        return x * weights[i] + i

    return f, [(ramp(2), i) for i in range(12)]


@program()
def report_recompile_limit_many_lengths():
    def f(x):
        return x.sum(0) / x.shape[0] + x[-1]

    return f, [(ramp(n, 2),) for n in range(1, 14)]


@program()
def report_recompile_limit_many_numbers():
    def f(x, t):
        return x * t + math.sqrt(t)

    return f, [(ramp(2), float(t)) for t in range(12)]


@program()
def report_149278_wrong_numbers_of_chained_casts():
    def f(x):
        y = x.to(torch.bfloat16).to(torch.float32)
        z = (x * 3).to(torch.float16)
        return y, z, (z.float() + 0.1).to(torch.int64), x.double().sum()

    x = ramp(5) * 1.2345
    return f, [(x,), (x * 1e4,), (x * 1e-6,)]


@program()
def report_136662_wrong_numbers_of_rounding():
    def f(x):
        return x.round(), torch.floor(x * 10) / 10, x % 0.7, torch.remainder(x, -2), x // 0.3, torch.fmod(x, 0.7)

    return f, [(ramp(6),), (ramp(6) * -1.7,), (ramp(6) * 1e6,)]


@program()
def report_141727_wrong_numbers_of_shared_memory():
    def f(x):
        y = x.view(-1)
        z = y[::2]
        x.add_(1)
        z.mul_(2)
        w = torch.as_strided(x, (2,), (1,), 1)
        return z + 0, y.clone(), w + z[:2]

    return f, [(ramp(4),), (ramp(4),), (ramp(2, 3),)]


@program()
def report_wrong_numbers_of_exact_functions():
    def f(x):
        return torch.exp(x) - torch.expm1(x), torch.log1p(x.abs()), x.sigmoid().logit(), torch.hypot(x, x + 1), x.abs() ** 0.5

    return f, [(ramp(4),), (ramp(4) * 30,), (ramp(4) * 1e-5,)]


@program()
def report_148439_outputs_are_not_overwritten():
    kept = []

    def f(x):
        return x * 2, x + 1

    def g(x):
        out = f(x)
        kept.append(out)
        return out

    return g, [(ramp(2) * i,) for i in range(5)], lambda: kept


@program()
def report_170604_output_used_as_next_input():
    box = {}

    def f(x):
        h = box.get("h", torch.zeros(2))
        box["h"] = (h + x).tanh()
        return box["h"]

    return f, [(ramp(2),)] * 5, lambda: box


@program(lines=True)
def report_158384_errors_show_the_users_lines():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 2)

        def forward(self, x):
            y = x * 2
            return self.a(y)

    return filled(Net()), [(ramp(2, 3),), (ramp(2, 4),), (ramp(2, 3),)]


@program(tolerance=1e-5)
def report_197725_foreach_over_many():
    weights = [ramp(3) + i for i in range(20)]
    grads = [ramp(3) * i for i in range(20)]

    def f(lr):
        torch._foreach_add_(weights, grads, alpha=-lr)
        norms = torch._foreach_norm(weights)
        return torch.stack(norms).sum(), torch._foreach_mul(weights, 2.0)

    return f, [(0.1,), (0.1,), (0.2,), (0.3,)], lambda: weights


@program()
def report_142098_foreach_map_has_gradients():
    from flambeau._higher_order_ops import foreach_map

    def f(xs, ys):
        return foreach_map(lambda a, b: torch.relu(a * b) + a, xs, ys)

    return f, [([ramp(2, grad=True), ramp(3, grad=True)], [ramp(2), ramp(3)])] * 3


@program()
def report_191753_tiny_functions():
    def f(a, b, c):
        return a + b * c

    return f, [(ramp(1), ramp(1), 2.0), (ramp(1), ramp(1), 2.0), (ramp(1), ramp(1), 3.0)]


@program(tolerance=1e-5)
def report_deepcopy_of_model_inside():
    net = filled(nn.Linear(2, 2))

    def f(x):
        twin = copy.deepcopy(net)
        with torch.no_grad():
            twin.weight.zero_()
        return net(x), twin(x)

    return f, [(ramp(2, 2),), (ramp(2, 2),), (ramp(3, 2),)], lambda: net


@program()
def report_cond_and_loops_as_operators():
    def f(x):
        y = torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))
        from flambeau._higher_order_ops import while_loop

        n, z = while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x))
        return y, n, z

    return f, [(ramp(2),), (ramp(2) + 5,), (ramp(2),)]


@program()
def report_disabled_function_inside():
    log = []

    @torch.compiler.disable
    def unseen(x):
        log.append(x.sum().item())
        return x + 1

    def f(x):
        return unseen(x * 2) * 3

    return f, [(ramp(2),), (ramp(2) + 1,), (ramp(2),)], lambda: log


@program()
def report_asks_whether_it_is_compiled():
    def f(x):
        return (x * 2 if torch.compiler.is_exporting() else x * 3), isinstance(torch.compiler.is_compiling(), bool)

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def report_compiled_inside_compiled():
    inner = torch.compile(lambda t: t * 3 + 1)

    def f(x):
        return inner(inner(x)) + inner(x[0])

    return f, [(ramp(2),), (ramp(2),), (ramp(3, 2),)]


@program(tolerance=1e-5)
def report_padding_mask_built_from_lengths():
    def f(x, lengths):
        mask = torch.arange(x.shape[1])[None, :] < lengths[:, None]
        y = (x * mask).sum(1) / lengths
        return y, mask.all(dim=1).tolist()

    return f, [(ramp(2, 3), torch.tensor([1, 3])), (ramp(2, 3), torch.tensor([3, 3])), (ramp(2, 4), torch.tensor([2, 4]))]


@program(tolerance=1e-5)
def report_beam_search_sorts_by_value():
    def f(scores, beams):
        kept = []
        for score, beam in sorted(zip(scores.tolist(), beams, strict=True), reverse=True)[:2]:
            if score > 0:
                kept.append((beam + "x", score))
        return kept, scores.softmax(0)

    return f, [
        (torch.tensor([0.1, 0.7, 0.2]), ["a", "b", "c"]),
        (torch.tensor([0.9, -0.7, -0.2]), ["a", "b", "c"]),
        (torch.tensor([0.1, 0.7]), ["a", "b"]),
    ]
