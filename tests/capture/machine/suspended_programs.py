"""Small programs of exceptions, contexts and generators, which the tests run natively and by the machine."""

# ruff: noqa
# The constructs are odd on purpose.
from __future__ import annotations

import contextlib
import sys
import traceback
from typing import Any

PROGRAMS: list[Any] = []


def program(function: Any) -> Any:
    PROGRAMS.append(function)
    return function


@program
def raise_and_catch() -> Any:
    out = []
    for kind in (ValueError, KeyError, TypeError):
        try:
            raise kind("text")
        except ValueError as error:
            out.append(("value", str(error)))
        except (KeyError, IndexError) as error:
            out.append(("key", str(error)))
        except BaseException:
            out.append(("other", str(sys.exc_info()[1])))
        else:
            out.append(("none", ""))
        finally:
            out.append(("finally", str(sys.exc_info())))
    return out


@program
def uncaught() -> Any:
    return [1][5]


@program
def context_of_errors() -> Any:
    try:
        raise ValueError("first")
    except ValueError:
        raise KeyError("second")


@program
def cause_of_errors() -> Any:
    try:
        raise ValueError("first")
    except ValueError as error:
        raise KeyError("second") from error


@program
def cause_is_class() -> Any:
    raise KeyError("second") from ValueError


@program
def cause_none() -> Any:
    try:
        raise ValueError("first")
    except ValueError:
        raise KeyError("second") from None


@program
def cause_is_number() -> Any:
    raise KeyError from 5


@program
def raise_number() -> Any:
    raise 5


@program
def raise_alone() -> Any:
    try:
        raise ValueError("again")
    except ValueError:
        raise


@program
def raise_alone_in_call() -> Any:
    def again() -> Any:
        raise

    try:
        raise ValueError("again")
    except ValueError:
        again()


@program
def raise_nothing() -> Any:
    raise


@program
def catch_number() -> Any:
    try:
        raise ValueError("x")
    except 5:
        pass


@program
def nested_handlers() -> Any:
    out = []
    try:
        try:
            raise ValueError("a")
        except ValueError:
            try:
                raise KeyError("b")
            except KeyError as error:
                out.append((repr(error), repr(error.__context__), repr(sys.exc_info()[1])))
            out.append(repr(sys.exc_info()[1]))
            raise
    except ValueError as error:
        out.append((repr(error), repr(error.__context__)))
    return out, sys.exc_info()


@program
def finally_overrides() -> Any:
    def f() -> Any:
        try:
            return 1
        finally:
            return 2

    def g() -> Any:
        for i in range(3):
            try:
                raise ValueError
            finally:
                if i < 2:
                    continue
                break
        return i

    return f(), g()


@program
def error_in_finally() -> Any:
    try:
        raise ValueError("a")
    finally:
        raise KeyError("b")


@program
def formatted_traceback() -> Any:
    def inner() -> Any:
        raise ValueError("deep")

    try:
        inner()
    except ValueError:
        return [line.strip() for line in traceback.format_exc().splitlines() if "^" not in line]


@program
def custom_exception() -> Any:
    class Mine(Exception):
        def __init__(self, x: int) -> None:
            super().__init__(x, "more")
            self.x = x

    try:
        raise Mine(3)
    except Mine as error:
        return error.args, error.x


@program
def exception_groups() -> Any:
    out = []
    try:
        raise ExceptionGroup("group", [ValueError(1), TypeError(2), ExceptionGroup("inner", [KeyError(3), ValueError(4)])])
    except* ValueError as group:
        out.append(repr(group))
        out.append(repr(sys.exc_info()[1]))
    except* (TypeError, KeyError) as group:
        out.append(repr(group))
    return out


@program
def exception_group_rest() -> Any:
    try:
        raise ExceptionGroup("group", [ValueError(1), TypeError(2)])
    except* ValueError:
        raise RuntimeError("in the handler")


@program
def exception_group_naked() -> Any:
    try:
        raise ValueError(3)
    except* ValueError as group:
        return_value = repr(group)
    try:
        raise OSError("x")
    except* ValueError:
        pass
    return return_value


class Manager:
    def __init__(self, log: list[Any], swallow: bool = False) -> None:
        self.log, self.swallow = log, swallow

    def __enter__(self) -> Any:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.log.append((kind, repr(error), trace is None))
        return self.swallow


@program
def with_statements() -> Any:
    log: list[Any] = []
    with Manager(log) as a, Manager(log):
        log.append(a.swallow)
    with Manager(log, True):
        raise ValueError("swallowed")
    for _ in range(2):
        with Manager(log):
            continue
    try:
        with Manager(log):
            raise KeyError("through")
    except KeyError as error:
        log.append(repr(error))
    return log


@program
def with_of_number() -> Any:
    with 5:
        pass


@program
def context_library() -> Any:
    log = []

    @contextlib.contextmanager
    def manager(x: int) -> Any:
        log.append("in")
        try:
            yield x
        except ValueError as error:
            log.append(repr(error))
        finally:
            log.append("out")

    with manager(3) as x:
        log.append(x)
    with manager(4):
        raise ValueError("caught by the manager")
    with contextlib.suppress(KeyError), contextlib.ExitStack() as stack:
        stack.enter_context(manager(5))
        raise KeyError
    return log


@program
def generators() -> Any:
    def numbers(n: int) -> Any:
        total = 0
        for i in range(n):
            sent = yield i
            total += sent or 0
        return total

    def outer() -> Any:
        result = yield from numbers(3)
        yield ("result", result)
        yield from "ab"
        return 5

    g = outer()
    out = [next(g), g.send(5), g.send(6), g.send(7), *g]
    try:
        next(g)
    except StopIteration as stop:
        out.append(repr(stop))
    return out, [*numbers(2)], sum(x for x in numbers(4)), dict(zip("ab", numbers(2), strict=True))


@program
def generator_throw_and_close() -> Any:
    log: list[Any] = []

    def inner() -> Any:
        try:
            while True:
                try:
                    yield "ready"
                except ValueError as error:
                    log.append((repr(error), repr(sys.exc_info()[1])))
                    yield "caught"
        finally:
            log.append("closed")

    def outer() -> Any:
        yield from inner()

    g = outer()
    log += [next(g), g.throw(ValueError("x")), next(g), g.throw(ValueError, "y")]
    g.close()
    h = outer()
    next(h)
    try:
        h.throw(KeyError("z"))
    except KeyError as error:
        log.append(repr(error))
    log.append(list(h))
    del h
    k = inner()
    next(k)
    del k
    return log


@program
def generator_ignores_exit() -> Any:
    def g() -> Any:
        try:
            yield 1
        except GeneratorExit:
            yield 2

    i = g()
    next(i)
    try:
        i.close()
    finally:
        next(i, None)


@program
def generator_raises_stop() -> Any:
    def g() -> Any:
        yield 1
        raise StopIteration("x")

    return list(g())


@program
def generator_handled_errors() -> Any:
    def g() -> Any:
        try:
            raise ValueError("inside")
        except ValueError:
            yield repr(sys.exc_info()[1])
            yield repr(sys.exc_info()[1])
        yield repr(sys.exc_info()[1])

    i = g()
    out = [next(i)]
    try:
        raise KeyError("outside")
    except KeyError:
        out += [repr(sys.exc_info()[1]), next(i), next(i), repr(sys.exc_info()[1])]
    return out


@program
def send_to_unstarted() -> Any:
    def g() -> Any:
        yield 1

    g().send(5)


@program
def running_generator() -> Any:
    def g() -> Any:
        yield next(i)

    i = g()
    return next(i)
