"""Guards: what a compiled program relies on, checked before every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from flambeau.core.context import context
from flambeau.core.stamps import module_stamp
from flambeau.ops.declare import default_float, default_float_check
from flambeau.tensor.base import TensorBase

# Longer containers are taken for data that the function does not branch on.
LARGEST = 256
SCALARS = (bool, int, float, complex, str, bytes, type(None))


class OutsideGuard:
    """Values that user code read from closures, globals and plain objects: functions by identity, scalars by value."""

    def __init__(self, function: Callable[..., Any], codes: dict[CodeType, dict[str, Any]], modules: Iterable[Any] = ()) -> None:
        self.globals: list[tuple[dict[str, Any], str, Any]] = []
        self.cells: list[tuple[Any, Any]] = []
        self.attributes: list[tuple[dict[str, Any], str, Any]] = []
        self.containers: list[tuple[Any, Any]] = []
        self._seen: set[int] = set()
        for code, namespace in codes.items():
            for name in code.co_names:
                if name in namespace:
                    self.globals.append((namespace, name, namespace[name]))
                    self._object(namespace[name], 3)
        self._function(function, 3)
        for root in modules:
            for module in root.modules():
                for name, value in module.__dict__.items():
                    if not name.startswith("_"):
                        self._object(value, 3)

    def _function(self, function: Any, depth: int) -> None:
        if isinstance(function, MethodType):
            self._object(function.__self__, depth)
            function = function.__func__
        if not isinstance(function, FunctionType) or id(function) in self._seen:
            return
        self._seen.add(id(function))
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            self.cells.append((cell, content))
            self._object(content, depth - 1)

    def _object(self, value: Any, depth: int) -> None:
        """Remember the scalars of a plain object's attributes; Modules are covered by their stamp."""
        if depth <= 0 or isinstance(value, (TensorBase, ModuleType, type, *SCALARS)) or id(value) in self._seen:
            return
        if isinstance(value, (FunctionType, MethodType)):
            self._function(value, depth)
            return
        self._seen.add(id(value))
        if isinstance(value, (list, dict, set)):
            self._container(value, depth)
            return
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict) or hasattr(value, "_modules") or hasattr(value, "param_groups"):
            return
        for name, content in list(attributes.items()):
            if isinstance(content, SCALARS):
                self.attributes.append((attributes, name, content))
            else:
                self._object(content, depth - 1)

    def native_checks(self) -> list[tuple[Any, ...]] | None:
        """The same as checks by identity for native code; None when there are containers, which need Python."""
        if self.containers:
            return None
        checks: list[tuple[Any, ...]] = [("value", namespace, name, value) for namespace, name, value in (*self.globals, *self.attributes)]
        return checks + [("cell", cell, value) for cell, value in self.cells]

    def _container(self, value: Any, depth: int) -> None:
        """Remember the contents: numbers and strings by value, others by identity."""
        if len(value) <= LARGEST:
            self.containers.append((value, _contents(value)))
            for item in list(value.values()) if isinstance(value, dict) else list(value):
                self._object(item, depth - 1)

    def describe(self) -> list[str]:
        """Readable lines of what is checked."""
        lines = [f"assert global {name} is {_short(value)}" for _, name, value in self.globals]
        lines += [f"assert closure variable is {_short(value)}" for _, value in self.cells]
        return lines + [f"assert attribute {name} == {_short(value)}" for _, name, value in self.attributes]

    def failed(self) -> str | None:
        """What changed, or None."""
        for namespace, name, value in self.globals:
            now = namespace.get(name, self)
            if now is not value and not _equal(now, value):
                return f"global {name!r} changed from {_short(value)} to {_short(now)}"
        for cell, value in self.cells:
            now = cell.cell_contents
            if now is not value and not _equal(now, value):
                return f"a closure variable changed from {_short(value)} to {_short(now)}"
        for container, contents in self.containers:
            if _contents(container) != contents:
                return f"the contents of a {type(container).__name__} changed: {_short(container)}"
        for attributes, name, value in self.attributes:
            now = attributes.get(name, self)
            if now is not value and not _equal(now, value):
                return f"attribute {name!r} changed from {_short(value)} to {_short(now)}"
        return None


def _contents(container: Any) -> Any:
    """Something that tells whether a list, dict or set holds the same as before."""
    items = container.items() if isinstance(container, dict) else ((None, v) for v in container)
    return [(k, type(v), v) if isinstance(v, SCALARS) else (k, id(v)) for k, v in items]


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, SCALARS) and a == b


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


class ModuleGuard:
    """The structure and settings of Modules: one stamp as long as no Module changed, else compared in full."""

    def __init__(self, modules: Iterable[Any]) -> None:
        self.modules = list(modules)
        self.stamp = module_stamp[0]
        self.fingerprint = self._take()

    def _take(self) -> tuple[Any, ...]:
        return tuple(fingerprint(m) for root in self.modules for m in root.modules())

    def describe(self) -> list[str]:
        """Readable lines of what is checked."""
        return [f"assert module stamp is {self.stamp} ({len(self.fingerprint)} Modules)"] if self.modules else []

    def failed(self) -> str | None:
        """What changed, or None."""
        if module_stamp[0] == self.stamp:
            return None
        now = self._take()
        if now == self.fingerprint:
            self.stamp = module_stamp[0]
            return None
        return "a Module that it uses was changed (its mode, structure, hooks or an attribute)"


def fingerprint(module: Any) -> tuple[Any, ...]:
    """What a trace depends on in one Module besides the data of its tensors."""
    state = module.__dict__
    parts: list[Any] = [id(module)]
    for name, value in state.items():
        if isinstance(value, SCALARS):
            parts.append((name, type(value), value))
        elif isinstance(value, dict):
            parts.append((name, tuple(value), tuple(map(id, value.values()))))
        elif isinstance(value, (tuple, list)):
            parts.append((name, tuple(map(id, value))))
        else:
            parts.append((name, id(value)))
    return tuple(parts)


class AmbientGuard:
    """Modes of the calling thread."""

    def __init__(self) -> None:
        self.state = self._take()
        self.bits = context.bits()

    def native_check(self) -> tuple[Any, ...]:
        """The default dtype in its place; the modes are `bits`."""
        return default_float_check()

    @staticmethod
    def _take() -> tuple[Any, ...]:
        modes = context.__dict__  # one look at the thread's own record; what is not in it has its default
        return modes.get("grad_enabled", True), modes.get("inference", False), default_float()

    def describe(self) -> list[str]:
        """Readable lines of what is checked."""
        grad, inference, kind = self.state
        return [f"assert grad mode is {grad}, inference mode is {inference}, default dtype is {kind}"]

    def failed(self) -> str | None:
        """What changed, or None."""
        now = self._take()
        return None if now == self.state else f"grad mode, inference mode or the default dtype changed from {self.state} to {now}"
