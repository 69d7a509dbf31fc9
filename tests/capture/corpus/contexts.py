"""Context managers."""

import contextlib
import io

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def context_manager_of_own():
    log = []

    class Scope:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append("in " + self.name)
            return self

        def __exit__(self, kind, error, trace):
            log.append(f"out {self.name} {kind and kind.__name__}")
            return kind is ZeroDivisionError

    def f(x, n):
        with Scope("a") as a, Scope("b"):
            y = x * len(a.name)
            y = y + 1 // n
        return y

    return f, [(ramp(2), 1), (ramp(2), 0), (ramp(2), 1), (ramp(2), 0)], lambda: list(log)


@program()
def context_manager_from_generator():
    depth = []

    @contextlib.contextmanager
    def scope(name):
        depth.append(name)
        try:
            yield name.upper()
        finally:
            depth.append("-" + name)

    def f(x, bad):
        with scope("a") as s, scope("bc") as t:
            if bad:
                raise KeyError(s)
            return x * len(s + t)

    return f, [(ramp(2), False), (ramp(2), True), (ramp(2), False)], lambda: list(depth)


@program()
def suppress_and_nullcontext():
    def f(x, n):
        with contextlib.suppress(ZeroDivisionError, KeyError):
            x = x + 10 // n
            x = x * 2
        with contextlib.nullcontext(3.0) as three:
            return x * three

    return f, [(ramp(2), 1), (ramp(2), 0), (ramp(2), 2), (ramp(2), 0)]


@program()
def exit_stack():
    log = []

    def f(x, names):
        with contextlib.ExitStack() as stack:
            for name in names:
                stack.callback(log.append, name)
            stack.enter_context(torch.no_grad())
            y = x * len(names)
        return y, x * 2

    return f, [(ramp(2, grad=True), "ab"), (ramp(2, grad=True), "abc"), (ramp(2, grad=True), "")], lambda: list(log)


@program()
def closing_and_redirect():
    def f(x):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("inside", x.shape[0])
        print("outside")
        return x * len(text.getvalue())

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def return_inside_with():
    log = []

    @contextlib.contextmanager
    def scope():
        yield
        log.append("left")

    def f(x, n):
        for i in range(3):
            with scope():
                if i == n:
                    return x * i
                if i == 1:
                    continue
                x = x + 1
        return x

    return f, [(ramp(2), 0), (ramp(2), 1), (ramp(2), 5), (ramp(2), 0)], lambda: list(log)


@program()
def context_as_decorator():
    log = []

    class Timed(contextlib.ContextDecorator):
        def __enter__(self):
            log.append("start")
            return self

        def __exit__(self, *_):
            log.append("stop")
            return False

    @Timed()
    @torch.no_grad()
    def inner(x):
        return x * 2

    def f(x):
        return inner(x) + x

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True),), (ramp(2),)], lambda: list(log)


@program()
def gradient_modes():
    def f(x):
        a = x * 2
        with torch.no_grad():
            b = x * 3
            with torch.enable_grad():
                c = x * 4
            d = torch.is_grad_enabled()
        with torch.set_grad_enabled(x.shape[0] > 2):
            e = x * 5
        return a, b, c, d, e, torch.is_grad_enabled()

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True),), (ramp(3, grad=True),), (ramp(2),)]


@program()
def inference_mode():
    def f(x):
        with torch.inference_mode():
            a = x * 2
            flag = torch.is_inference_mode_enabled()
        return a.is_inference(), flag, x * 3, a.requires_grad

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True),), (ramp(2),)]


@program()
def gradient_mode_of_the_caller_changes():
    def f(x):
        return x * 2

    x = ramp(2, grad=True)
    on, off = (lambda: torch.set_grad_enabled(True)), (lambda: torch.set_grad_enabled(False))
    return f, [(x,), off, (x,), on, (x,), off, (x,), on]


@program()
def gradient_mode_left_changed():
    def f(x, on):
        torch.set_grad_enabled(on)
        return x * 2

    def back():
        torch.set_grad_enabled(True)

    x = ramp(2, grad=True)
    return f, [(x, True), (x, False), (x, True), (x, False), back, (x, True)], torch.is_grad_enabled


@program()
def error_leaves_mode_as_it_was():
    def f(x, bad):
        with torch.no_grad():
            y = x * 2
            if bad:
                raise ValueError("bad")
        return y + x

    x = ramp(2, grad=True)
    return f, [(x, False), (x, True), (x, False), (x, True)], torch.is_grad_enabled


@program()
def default_dtype_changes_between_calls():
    def f(n):
        return torch.ones(n) * 2, torch.tensor(1.5)

    def double():
        torch.set_default_dtype(torch.float64)

    def single():
        torch.set_default_dtype(torch.float32)

    return f, [(2,), double, (2,), single, (2,)]
