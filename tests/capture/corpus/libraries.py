"""The standard library and the outside world: printing, logging, warnings, files, time, threads."""

import collections.abc
import datetime
import json
import logging
import operator
import os
import pathlib
import string
import sys
import textwrap
import threading
import types
import warnings

import flambeau as torch
from tests.capture.corpus.harness import program, ramp

LOGGER = logging.getLogger("corpus")


@program()
def print_in_order():
    def f(x):
        y = x * 2
        print("y is", y)
        z = y + 1
        print(f"sum {z.sum().item():.2f}", end="!\n")
        return z

    return f, [(ramp(2),), (ramp(2) * 0,), (ramp(2) * 5,)]


@program()
def print_between_in_place_changes():
    def f(x):
        y = x * 1
        for i in range(3):
            y += i
            print(i, y.tolist(), sep=":")
        return y

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def logging_in_order():
    def f(x, level):
        LOGGER.info("start %s", tuple(x.shape))
        y = x * 2
        LOGGER.log(level, "mean %.2f", y.mean())
        LOGGER.debug("hidden %s", y)
        return y

    return f, [(ramp(2), logging.INFO), (ramp(2), logging.WARNING), (ramp(2) * 3, logging.INFO)]


@program()
def logging_level_changes():
    logger = logging.getLogger("corpus.level")

    def f(x):
        if logger.isEnabledFor(logging.INFO):
            logger.info("sum %s", x.sum().item())
        return x * 2

    def quiet():
        logger.setLevel(logging.ERROR)

    def loud():
        logger.setLevel(logging.INFO)

    return f, [(ramp(2),), quiet, (ramp(2),), (ramp(2),), loud, (ramp(2),)]


@program()
def warnings_in_order():
    def f(x, n):
        if n > 1:
            warnings.warn(f"n is {n}", UserWarning, stacklevel=2)
        print("after")
        return x * n

    return f, [(ramp(2), 1), (ramp(2), 2), (ramp(2), 3), (ramp(2), 2)]


@program()
def standard_error_is_not_mixed():
    def f(x):
        print("to stdout")
        sys.stdout.write(f"{x.shape[0]}\n")
        return x + 1

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def json_and_text():
    def f(x, text):
        config = json.loads(text)
        return x * config["k"], json.dumps({"shape": list(x.shape), **config}, sort_keys=True)

    return f, [(ramp(2), '{"k": 2}'), (ramp(2), '{"k": 3, "z": null}'), (ramp(3), '{"k": 2}')]


@program()
def json_error():
    def f(x, text):
        try:
            return x * json.loads(text)
        except json.JSONDecodeError as error:
            return error.pos, error.msg

    return f, [(ramp(2), "2"), (ramp(2), "{"), (ramp(2), "3.5"), (ramp(2), "")]


@program()
def environment_variable():
    os.environ["CORPUS_GAIN"] = "2"

    def f(x):
        return x * float(os.environ.get("CORPUS_GAIN", "1"))

    def change():
        os.environ["CORPUS_GAIN"] = "5"

    def drop():
        del os.environ["CORPUS_GAIN"]

    return f, [(ramp(2),), change, (ramp(2),), drop, (ramp(2),)]


@program()
def files_written_and_read():
    import tempfile

    folder = pathlib.Path(tempfile.mkdtemp())

    def f(x, name):
        path = folder / name
        with path.open("a") as file:
            file.write(f"{x.sum().item():.1f}\n")
        return x * len(path.read_text().splitlines()), path.suffix

    return (
        f,
        [(ramp(2), "a.txt"), (ramp(2), "a.txt"), (ramp(2), "b.log"), (ramp(3), "a.txt")],
        lambda: sorted(p.name for p in folder.iterdir()),
    )


@program()
def threads_inside():
    def f(x, n):
        out = [None] * n

        def work(i):
            out[i] = x * i

        threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return sum(out)

    return f, [(ramp(2), 2), (ramp(2), 3), (ramp(2), 2)]


@program()
def lock_and_thread_local():
    lock, local = threading.Lock(), threading.local()

    def f(x):
        with lock:
            local.n = getattr(local, "n", 0) + 1
        return x * local.n, lock.locked()

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: local.n


@program()
def dates():
    def f(x, days):
        when = datetime.date(2024, 1, 31) + datetime.timedelta(days=days)
        return x * when.day, when.isoformat(), when.strftime("%d/%m")

    return f, [(ramp(2), 1), (ramp(2), 30), (ramp(2), 1)]


@program()
def operator_module():
    get = operator.itemgetter("a", "b")
    name = operator.attrgetter("shape")
    twice = operator.methodcaller("mul", 2)

    def f(d):
        a, b = get(d)
        return operator.add(a, b), name(a), twice(b), operator.truth(len(d)), operator.index(3)

    x = ramp(2)
    return f, [({"a": x, "b": x},), ({"a": x, "b": x + 1, "c": 1},), ({"a": x, "b": x},)]


@program()
def simple_namespace_and_mapping_proxy():
    options = types.SimpleNamespace(k=2.0, names=["a"])
    frozen = types.MappingProxyType({"j": 3.0})

    def f(x):
        options.k += 1
        options.names.append(str(options.k))
        return x * options.k + frozen["j"], isinstance(frozen, collections.abc.Mapping)

    return f, [(ramp(2),), (ramp(2),), (ramp(2),)], lambda: vars(options)


@program()
def string_templates():
    template = string.Template("$name has $n")

    def f(x, name):
        text = template.substitute(name=name, n=x.shape[0])
        return x * len(text), textwrap.shorten(text, 6), text.encode().hex()[:4]

    return f, [(ramp(2), "a"), (ramp(3), "bb"), (ramp(2), "a")]


@program()
def import_inside():
    def f(x):
        import math as m
        from itertools import chain

        return x * m.tau, list(chain("a", "b"))

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def eval_and_exec():
    def f(x, text):
        space = {"x": x, "torch": torch}
        exec("y = torch.relu(x)", space)  # noqa: S102
        return eval(text, space), space["y"]  # noqa: S307

    return f, [(ramp(2), "x * 2"), (ramp(2), "x + y"), (ramp(2), "x * 2")]


@program()
def locals_and_globals():
    def f(x, k):
        y = x * k
        names = sorted(n for n in locals() if n != "names")
        return y, names, "ramp" in globals()

    return f, [(ramp(2), 1), (ramp(2), 2), (ramp(2), 1)]


@program()
def inspect_the_caller():
    def who():
        return sys._getframe(1).f_code.co_name

    def f(x):
        def inner():
            return who()

        return x * 2, inner(), who()

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def callback_through_native_code():
    log = []

    def key(t):
        log.append(t.shape[0])
        return float(t.sum())

    def f(xs):
        ys = sorted(xs, key=key)
        return list(map(lambda t: t + len(log), ys))

    return f, [([ramp(2) + 1, ramp(2)],), ([ramp(2), ramp(2) + 1],), ([ramp(3)],)], lambda: list(log)
