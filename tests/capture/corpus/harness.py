"""Runs small programs plainly and compiled, and tells the first thing in which the two differ.

A program is a function that makes everything anew and returns ``(function, calls)`` or ``(function, calls, state)``. ``calls`` lists
tuples of arguments, `call` objects where keywords are wanted, and plain functions that are run between two calls. ``state()`` gives
what the function is expected to have changed. Each side makes the program for itself, so that both get equal arguments.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
import logging
import math
import os
import random
import re
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

import flambeau as torch

PROGRAMS: dict[str, Program] = {}
FORMS = ("function", "method", "module", "parts")
OVERWRITTEN = "what backward needs was overwritten"
FOLDER = os.path.dirname(__file__)


@dataclasses.dataclass(frozen=True)
class Program:
    """``tolerance``: how far floats may be apart, relative to the largest. ``lines``: compare also the lines that errors come from.
    ``forms``: how it is compiled."""

    name: str
    make: Callable[[], tuple[Any, ...]]
    tolerance: float
    backward: bool
    lines: bool
    forms: tuple[str, ...]


def program(*, tolerance: float = 0.0, backward: bool = True, lines: bool = False, forms: tuple[str, ...] = ()) -> Any:
    """Decorate a function that makes a program. Every second program is also compiled in another form than as a function."""

    def add(make: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
        name = make.__name__
        assert name not in PROGRAMS, f"there are two programs called {name}"
        chosen = forms or ("function", *{1: ("method",), 3: ("module",)}.get(len(PROGRAMS) % 4, ()))
        PROGRAMS[name] = Program(name, make, tolerance, backward, lines, chosen)
        return make

    return add


class call:  # noqa: N801 - reads like a call
    """The arguments of one call with keywords."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


def part(made: Any) -> Any:
    """A Module or function that the form "parts" compiles, in a program that is itself not compiled in that form."""
    return PARTS_BY[-1](made)


PARTS_BY: list[Callable[[Any], Any]] = [lambda made: made]


def ramp(*shape: int, start: float = -1.0, step: float = 0.375, grad: bool = False) -> Any:
    """A tensor of evenly spaced numbers."""
    size = math.prod(shape)
    made = torch.tensor([start + step * i for i in range(size)], dtype=torch.float32).reshape(shape)
    return made.requires_grad_() if grad else made


# -- pictures: what can be seen of values, as plain data ------------------------------------------------
class Picture:
    """Takes pictures that also tell which objects and which memory are the same."""

    def __init__(self) -> None:
        self._objects: dict[int, int] = {}
        self._kept: list[Any] = []
        self._storages: dict[int, int] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, type):
            return ("type", value.__qualname__)
        if isinstance(value, enum.Enum):
            return (type(value).__name__, value.name)
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            return (type(value).__name__, value)
        if isinstance(value, (torch.dtype, torch.device, ModuleType)):
            return (type(value).__name__, str(value))
        if isinstance(value, tuple):  # which of equal tuples are one object is up to the Python that runs
            return (type(value).__name__, *self._inside(value))
        known = id(value) in self._objects
        number = self._objects.setdefault(id(value), len(self._objects))
        self._kept.append(value)
        if known:
            return ("again", number)
        return (type(value).__name__, number, *self._inside(value))

    def _inside(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, torch.Tensor):
            with torch._C.DisableTorchFunctionSubclass():
                return self._tensor(value)
        if isinstance(value, np.ndarray):
            return (value.shape, str(value.dtype), value.copy())
        if isinstance(value, dict):
            return tuple((self.of(k), self.of(v)) for k, v in value.items())
        if isinstance(value, (set, frozenset)):
            return tuple(sorted(repr(v) for v in value))
        if isinstance(value, BaseException):
            return (str(value), self.of(value.__cause__), *map(self.of, getattr(value, "__notes__", ())))
        if isinstance(value, torch.nn.Module):
            return (value.training, self.of(dict(value.named_parameters())), self.of(dict(value.named_buffers())))
        if hasattr(value, "__len__") and hasattr(value, "__iter__"):
            return tuple(self.of(v) for v in value)
        if type(value).__module__.startswith("tests"):
            names = [n for n in getattr(type(value), "__slots__", ()) if hasattr(value, n)]
            return tuple((n, self.of(v)) for n, v in [*getattr(value, "__dict__", {}).items(), *((n, getattr(value, n)) for n in names)])
        return ()

    def _tensor(self, tensor: Any) -> tuple[Any, ...]:
        plain = tensor.detach().as_subclass(torch.Tensor) if type(tensor) is not torch.Tensor else tensor.detach()
        storage = -1
        if plain.numel():
            storage = self._storages.setdefault(plain.untyped_storage().data_ptr(), len(self._storages))
        gradient = self.of(tensor.grad) if tensor.is_leaf and tensor.requires_grad else None
        if plain.dtype is torch.bfloat16:
            plain = plain.float()
        marks = (tensor.requires_grad, tensor.is_leaf, f"storage {storage}", tensor.storage_offset())
        return (tuple(tensor.shape), str(tensor.dtype), tensor.stride(), *marks, gradient, plain.numpy().copy())


def difference(want: Any, got: Any, tolerance: float, path: str = "") -> str | None:
    """Where two pictures first differ, or None."""
    if isinstance(want, tuple) and isinstance(got, tuple) and len(want) == len(got):
        parts = (difference(a, b, tolerance, f"{path}.{i}") for i, (a, b) in enumerate(zip(want, got, strict=True)))
        return next((p for p in parts if p), None)
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray) and want.shape == got.shape:
        return None if _near(want, got, tolerance) else f"{path}: {got.tolist()} instead of {want.tolist()}"
    if isinstance(want, float) and isinstance(got, float):
        return None if _near(np.asarray(want), np.asarray(got), tolerance) else f"{path}: {got!r} instead of {want!r}"
    plain = not isinstance(want, (tuple, np.ndarray)) and type(want) is type(got)
    return None if plain and want == got else f"{path}: {got!r} instead of {want!r}"


def _near(want: Any, got: Any, tolerance: float) -> bool:
    if not tolerance or want.dtype.kind not in "fc":
        return want.tobytes() == got.tobytes() or bool(want.dtype.kind == "f" and np.array_equal(np.isnan(want), np.isnan(got))
                                                       and np.array_equal(want[~np.isnan(want)], got[~np.isnan(got)]))  # fmt: skip
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=1.0))
    return bool(np.allclose(want, got, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


# -- one side -------------------------------------------------------------------------------------------
@contextlib.contextmanager
def captured_output() -> Iterator[io.StringIO]:
    """What is printed, logged and warned, in order."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        with contextlib.redirect_stdout(text), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, category, *_: text.write(f"{category.__name__} {message}\n")
            yield text
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def in_form(function: Callable[..., Any], form: str, compile: Callable[[Any], Any]) -> tuple[Callable[..., Any], Any]:  # noqa: A002
    """What is called, and the compiled function that reports."""
    if form == "function":
        made = compile(function)
        return made, made
    if form == "parts":
        return function, None
    if form == "method":

        class Holder:
            run = compile(lambda self, *args, **kwargs: function(*args, **kwargs))

        return Holder().run, Holder.__dict__["run"]

    class Wrapper(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    made = compile(Wrapper())
    return made, made


class Side:
    """One run of all calls of a program."""

    def __init__(self, program: Program, form: str, compile: Callable[[Any], Any]) -> None:  # noqa: A002
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        self.program = program
        PARTS_BY.append(compile if form == "parts" else PARTS_BY[0])
        try:
            made = program.make()
        finally:
            PARTS_BY.pop()
        self.calls = made[1]
        self.state = made[2] if len(made) > 2 else lambda: None
        self.function, self.report = in_form(made[0], form, compile)
        self._dropped: list[Any] = []

    def run(self) -> list[Any]:
        """A picture for each call."""
        return [self._call(c) for c in self.calls if not self._between(c)]

    @staticmethod
    def _between(entry: Any) -> bool:
        if isinstance(entry, (tuple, call)):
            return False
        entry()
        return True

    def _call(self, entry: Any) -> Any:
        args, kwargs = (entry.args, entry.kwargs) if isinstance(entry, call) else (entry, {})
        result, error = None, ()
        with captured_output() as text:
            try:
                result = self.function(*args, **kwargs)
            except Exception as raised:
                error = (Picture().of(raised), *(_lines(raised) if self.program.lines else ()))
        picture = Picture()
        printed = re.sub(r"grad_fn=<\S*>", "grad_fn=...", text.getvalue())
        seen = (printed, error, picture.of((args, kwargs)), picture.of(result), picture.of(self.state()))
        return (*seen, *self._gradients(args, kwargs, result)) if self.program.backward else seen

    def _gradients(self, args: Any, kwargs: Any, result: Any) -> tuple[Any, ...]:
        found = [t for t in _tensors(result) if t.requires_grad and not t.is_leaf]
        if not found:
            return ()
        try:
            torch.autograd.backward(found, [torch.full_like(t, 0.5 + i) for i, t in enumerate(found)])
        except RuntimeError as error:
            return (OVERWRITTEN if "modified by an inplace operation" in str(error) else str(error),)
        return (Picture().of((args, kwargs, self.state())),)


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _lines(error: BaseException) -> list[Any]:
    """The functions and lines of a traceback that are a program's."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if os.path.dirname(code.co_filename) == FOLDER and code.co_filename != __file__:
            found.append((code.co_name, trace.tb_lineno))
        trace = trace.tb_next
    return found


# -- both sides -----------------------------------------------------------------------------------------
PARTS = ("output", "error", "arguments", "result", "state", "gradients")


def compare(program: Program, form: str = "function", compile: Callable[[Any], Any] = torch.compile) -> tuple[str | None, Any]:  # noqa: A002
    """The first difference between the plain and the compiled program, or None; and the compiled function."""
    plain = Side(program, form, lambda f: f).run()
    side = Side(program, form, compile)
    for number, (want, got) in enumerate(zip(plain, side.run(), strict=True)):
        for part, a, b in zip(PARTS, [*want, ()], [*got, ()], strict=False):
            # A compiled function may keep other values for backward, which nobody overwrote.
            found = None if a == OVERWRITTEN else difference(a, b, program.tolerance)
            if found:
                return f"call {number}, {part}{found}", side.report
        if len(want) != len(got):
            return f"call {number}: only one side's result has gradients", side.report
    return None, side.report
