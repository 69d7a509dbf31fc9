"""Operators of programs (torch.library) and operators that choose by values: cond, while_loop, scan, map, associative_scan."""

import numpy as np

import flambeau as torch
from flambeau._higher_order_ops import associative_scan, scan, while_loop
from flambeau._higher_order_ops import map as map_slices
from tests.capture.corpus.harness import program, ramp

FACTOR = [2.0]


@torch.library.custom_op("corpus::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * np.float32(FACTOR[0]))


@torch.library.custom_op("corpus::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


@torch.library.custom_op("corpus::add_into", mutates_args=("target",))
def add_into(x: torch.Tensor, target: torch.Tensor) -> None:
    target.numpy()[:] += x.numpy()


def keep_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def gradient_of_cube(ctx, gradient):
    return gradient * 3 * ctx.saved_tensors[0] ** 2


scaled.register_fake(torch.empty_like)
scaled.register_autograd(lambda ctx, gradient: gradient * 2)
cube.register_autograd(gradient_of_cube, setup_context=keep_input)


@program()
def operators_of_the_program():
    def f(x):
        return scaled(x.sin()) + 1, torch.ops.corpus.scaled(x)

    def change():
        FACTOR[0] *= 1.5

    FACTOR[0] = 2.0
    return f, [(ramp(3),), (ramp(3) * 2,), change, (ramp(3),), (ramp(4),)]


@program()
def gradients_of_operators_of_the_program():
    def f(x):
        loss = (cube(x * 2) + scaled(x).relu()).sum()
        loss.backward()
        return loss

    FACTOR[0] = 2.0
    return f, [(ramp(3, grad=True),), (ramp(3, start=2.0, grad=True),), (ramp(3, grad=True),)]


@program()
def operators_of_the_program_that_change_tensors():
    def f(x, kept):
        made = torch.zeros(3) + x
        add_into(x, made)
        add_into(made, kept)
        return made * 2

    kept = ramp(3)
    return f, [(ramp(3), kept), (ramp(3) * 2, kept), (ramp(3), kept)], lambda: kept


@program()
def branches_by_cond():
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.yes, self.no, self.scale = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), 1.0
            for p in self.parameters():
                torch.nn.init.constant_(p, 0.5)

        def forward(self, x):
            def inner(x):
                return torch.cond(x.max() > 2, lambda x: self.yes(x) * self.scale, lambda x: x * limit[0], (x,))

            return torch.cond(x.mean() > 0, inner, self.no, (x,)).sum()

    limit, gate = [3.0], Gate()

    def f(x):
        loss = gate(x)
        gate.zero_grad()
        loss.backward()
        return loss, [p.grad for p in gate.parameters()]

    def change():
        limit[0], gate.scale = 5.0, 2.0

    big, small, low = ramp(1, 2, start=3.0), ramp(1, 2, start=0.5), ramp(1, 2, start=-3.0)
    return f, [(big,), (small,), (low,), change, (big,), (small,), (low,)]


@program()
def loops_by_while_loop():
    def f(a, most):
        def goes_on(i, x):
            return (i < most) & ((x * x - a).abs().max() > 1e-3)

        return while_loop(goes_on, lambda i, x: (i + 1, (x + a / x) / 2), (torch.tensor(0), a.clone()))

    return f, [(ramp(2, start=v, step=1.0), most) for v, most in ((2.0, 9), (9.0, 9), (100.0, 9), (2.0, 2), (2.0, 9))]


@program()
def functions_along_a_dimension():
    def f(h, xs, k):
        carried, steps = scan(lambda h, x: ((h + x).tanh() * k, h * x), h, xs)
        return carried, steps, map_slices(lambda x: x.sum() * k, xs), associative_scan(lambda a, b: a * b, xs, 0)

    return f, [(ramp(2, grad=True), ramp(n, 2), k) for n, k in ((3, 1.0), (3, 2.0), (5, 2.0))]
