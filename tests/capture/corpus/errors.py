"""Exceptions: raised inside and caught, raised out, chained, late."""

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def try_except_else_finally():
    log = []

    def f(d, k):
        try:
            log.append(("try", k))
            y = d[k] * 2
        except KeyError as error:
            log.append(("missing", str(error)))
            return None
        else:
            log.append("else")
            return y
        finally:
            log.append("finally")

    d = {"a": ramp(2)}
    return f, [(d, "a"), (d, "b"), (d, "a"), (d, "b")], lambda: list(log)


@program()
def raised_out():
    def f(x, n):
        y = x * 2
        if n > 1:
            raise ValueError(f"n is {n}")
        return y

    return f, [(ramp(2), 1), (ramp(2), 2), (ramp(2), 3), (ramp(2), 1)]


@program()
def raised_out_after_side_effects():
    log = []

    def f(x, n):
        log.append(x * n)
        x.add_(1)
        if n == 2:
            raise LookupError("two")
        return x

    return f, [(ramp(2), 1), (ramp(2), 2), (ramp(2), 1), (ramp(2), 2)], lambda: log


@program()
def raise_from():
    def f(x, how):
        try:
            return x * {"a": 2}[how]
        except KeyError as error:
            if how == "b":
                raise RuntimeError("wrapped") from error
            if how == "c":
                raise RuntimeError("bare") from None
            raise

    return f, [(ramp(2), "a"), (ramp(2), "b"), (ramp(2), "c"), (ramp(2), "d"), (ramp(2), "a")]


@program()
def own_exception_with_data():
    class TooLarge(ValueError):
        def __init__(self, value):
            super().__init__("too large")
            self.value = value

    def check(x, limit):
        y = x * 2
        if y.shape[0] > limit:
            raise TooLarge(y)
        return y

    def f(x, limit):
        try:
            return check(x, limit)
        except TooLarge as error:
            return error.value - 1, str(error)

    return f, [(ramp(2), 2), (ramp(3), 2), (ramp(2), 1), (ramp(2), 2)]


@program()
def nested_handlers():
    log = []

    def f(x, n):
        try:
            try:
                x = x + 1
                if n == 1:
                    raise KeyError("k")
                if n == 2:
                    raise IndexError("i")
            except KeyError:
                log.append("inner")
                raise TypeError("from inner") from None
            finally:
                log.append("inner finally")
        except (TypeError, IndexError) as error:
            log.append(type(error).__name__)
            x = x * 2
        return x

    return f, [(ramp(2), 0), (ramp(2), 1), (ramp(2), 2), (ramp(2), 0), (ramp(2), 1)], lambda: list(log)


@program()
def finally_overrides_return():
    def f(x, n):
        for i in range(3):
            try:
                if i == n:
                    return x * 100
            finally:
                x = x + 1
                if n == 2:
                    break  # noqa: B012 - the point of it
        return x

    return f, [(ramp(2), 0), (ramp(2), 1), (ramp(2), 2), (ramp(2), 5)]


@program()
def exception_groups():
    def f(x, n):
        try:
            if n:
                raise ExceptionGroup("several", [ValueError("v"), KeyError("k")])
        except* ValueError as group:
            x = x + len(group.exceptions)
        except* KeyError:
            x = x * 2
        return x

    return f, [(ramp(2), 0), (ramp(2), 1), (ramp(2), 0)]


@program()
def exception_notes_and_context():
    def f(x, bad):
        try:
            if bad:
                raise ValueError("v")
        except ValueError as error:
            error.add_note("with a note")
            try:
                raise KeyError("k")
            except KeyError as second:
                return x * 2, error.__notes__, second.__context__ is error
        return x

    return f, [(ramp(2), False), (ramp(2), True), (ramp(2), True)]


@program()
def shape_error_inside_try():
    def f(x, y):
        try:
            return x @ y
        except RuntimeError:
            return x * 0

    return f, [(ramp(3, 2), ramp(2, 2)), (ramp(3, 2), ramp(3, 2)), (ramp(3, 2), ramp(2, 2))]


@program()
def shape_error_raised_out():
    def f(x, y):
        z = x * 2
        return z + y

    return f, [(ramp(3), ramp(3)), (ramp(3), ramp(2)), (ramp(3), ramp(1))]


@program()
def index_out_of_range_inside_try():
    def f(weight, index):
        try:
            y = torch.nn.functional.embedding(index, weight)
        except IndexError:
            y = weight * 0
        return y.sum()

    w = ramp(3, 2)
    return f, [(w, torch.tensor([1])), (w, torch.tensor([7])), (w, torch.tensor([2])), (w, torch.tensor([-9]))]


@program()
def index_out_of_range_raised_out():
    def f(x, index):
        y = x * 2
        z = y[index]
        return z + 1

    x = ramp(4)
    return f, [(x, torch.tensor([0, 1])), (x, torch.tensor([0, 9])), (x, torch.tensor([3, 3])), (x, 2), (x, 11)]


@program()
def late_error_after_other_effects():
    log = []

    def f(x, index):
        log.append("before")
        y = torch.gather(x * 2, 0, index)
        log.append("recorded")
        try:
            total = y.sum().item()
        except (IndexError, RuntimeError) as error:
            log.append(type(error).__name__)
            total = 0.0
        return total

    x = ramp(4)
    return f, [(x, torch.tensor([0, 1])), (x, torch.tensor([3, 2])), (x, torch.tensor([1, 1]))], lambda: list(log)


@program()
def host_error_only_later():
    log = []

    def f(x, s):
        log.append("before")
        y = x + 1
        try:
            n = int(s)
        except ValueError:
            log.append("bad")
            n = 0
        return y * 2, n

    return f, [(ramp(2), "1"), (ramp(2), "1"), (ramp(2), "x"), (ramp(2), "x"), (ramp(2), "5")], lambda: list(log)


@program()
def integer_division_by_zero():
    def f(x, y):
        return torch.div(x, y, rounding_mode="floor") + 1

    a = torch.tensor([4, 5])
    return f, [(a, torch.tensor([2, 2])), (a, torch.tensor([1, 0])), (a, torch.tensor([2, 3]))]


@program()
def asserts():
    def f(x, n):
        assert x.ndim == 1, "one axis"
        assert n < 3, f"n is {n}"
        assert (x > -50).all()
        return x * n

    return f, [(ramp(2), 1), (ramp(2), 5), (ramp(2, 1), 1), (ramp(2) - 99, 2), (ramp(2), 2)]


@program(lines=True)
def error_comes_from_the_users_line():
    def inner(x, n):
        y = x + 1
        if n == 1:
            raise ValueError("from inner")
        return y[n]

    def f(x, n):
        z = inner(x * 2, n)
        return z * 2

    return f, [(ramp(2), 0), (ramp(2), 1), (ramp(2), 7), (ramp(2), 0), (ramp(2), 1)]


@program()
def in_place_on_leaf_raises():
    def f(x):
        y = x * 2
        x.add_(1)
        return y

    return f, [(ramp(2),), (ramp(2, grad=True),), (ramp(2),)]


@program()
def backward_twice_raises():
    def f(x):
        y = (x * x).sum()
        y.backward()
        try:
            y.backward()
        except RuntimeError as error:
            return type(error).__name__
        return "no error"

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True),), (ramp(3, grad=True),)]


@program()
def stop_iteration_as_control_flow():
    def f(x, n):
        items = iter(range(n))
        while True:
            try:
                x = x + next(items)
            except StopIteration:
                break
        return x

    return f, [(ramp(2), 2), (ramp(2), 3), (ramp(2), 2), (ramp(2), 0)]


@program()
def reraise_in_helper():
    log = []

    def guard(g, *args):
        try:
            return g(*args)
        except Exception as error:
            log.append(repr(error))
            raise

    def f(x, k):
        return guard(lambda v: v * {"a": 1}[k], x)

    return f, [(ramp(2), "a"), (ramp(2), "z"), (ramp(2), "a")], lambda: list(log)
