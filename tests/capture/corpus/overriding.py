"""Subclasses of Tensor, ``__torch_function__`` and function modes."""

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def subclass_keeps_its_type():
    class Tagged(torch.Tensor):
        def doubled(self):
            return self * 2

    def f(x):
        t = x.as_subclass(Tagged)
        return type(t).__name__, type(t.doubled()).__name__, t.doubled(), isinstance(t + 1, Tagged)

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def subclass_argument():
    class Tagged(torch.Tensor):
        pass

    def f(x):
        y = x * 2
        return y, type(y).__name__, type(torch.relu(y)).__name__

    return f, [(ramp(2),), (ramp(2).as_subclass(Tagged),), (ramp(2),), (ramp(2).as_subclass(Tagged),)]


@program()
def torch_function_logs():
    log = []

    class Logging(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(x):
        t = x.as_subclass(Logging)
        return torch.relu(t) + 1

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)], lambda: list(log)


@program()
def torch_function_on_other_objects():
    class Diagonal:
        def __init__(self, n, value):
            self.n, self.value = n, value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.sum:
                return args[0].n * args[0].value
            if func is torch.add:
                return Diagonal(args[0].n, args[0].value + args[1].value)
            return NotImplemented

    def f(x, d):
        total = torch.sum(torch.add(d, d))
        try:
            torch.relu(d)
        except TypeError:
            total = total + 1
        return x * total

    return f, [(ramp(2), Diagonal(3, 2.0)), (ramp(2), Diagonal(2, 2.0)), (ramp(2), Diagonal(3, 1.5))]


@program()
def function_mode_inside():
    log = []

    class Counting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(func.__name__)
            return func(*args, **(kwargs or {}))

    def f(x):
        y = x * 2
        with Counting():
            z = torch.relu(y)
        return torch.abs(z)

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)], lambda: list(log)


@program()
def function_mode_around_the_call():
    class Swap(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return (torch.abs if func is torch.relu else func)(*args, **(kwargs or {}))

    mode = Swap()

    def f(x):
        return torch.relu(x) + 1

    def leave():
        mode.__exit__(None, None, None)

    return f, [(ramp(2),), mode.__enter__, (ramp(2),), (ramp(2),), leave, (ramp(2),)]


@program()
def device_as_context():
    def f(n):
        with torch.device("cpu"):
            x = torch.ones(n)
        return x, str(x.device), torch.get_default_device().type

    return f, [(2,), (2,), (3,)]


@program()
def parameter_is_a_subclass():
    p = torch.nn.Parameter(ramp(2))

    def f(x):
        y = p * x
        return type(y).__name__, isinstance(p, torch.nn.Parameter), y, p

    return f, [(ramp(2),), (ramp(2),), (ramp(2) * 2,)]


@program()
def subclass_with_own_operator():
    class Units(torch.Tensor):
        def __add__(self, other):
            return torch.Tensor.__add__(self, other) * 100

        def __radd__(self, other):
            return "reflected"

    u = ramp(2).as_subclass(Units)

    def f(x):
        return u + 1, x + 1, 1 + u

    return f, [(ramp(2),), (ramp(2),), (u,)]
