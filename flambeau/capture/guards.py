"""Guards: what a compiled program relies on, checked before every run."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.capture.values import static_lookup
from flambeau.core.layout import strided
from flambeau.core.stamps import module_stamp
from flambeau.tensor.base import TensorBase

MODULE_STATE = frozenset((
    "training", "forward", "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
    "_backward_pre_hooks", "_non_persistent_buffers_set", "_compiled_call_impl",
))  # fmt: skip
TENSORS_OF = ("_parameters", "_buffers")
BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
HOOKS = ("_forward_hooks", "_forward_pre_hooks", *BACKWARD_HOOKS)
SCALARS = (bool, int, float, complex, str, bytes, type(None))
Entry = tuple[int, str]  # a tensor of a Module: the id of that, and the name
# Who reads tensors of a Module that is noted: unknown code, code that goes through the registered ones, the interpreter by name.
UNKNOWN, REGISTERED, BY_NAME = range(3)


class ModuleGuard:
    """The structure and settings of Modules: one stamp as long as no Module changed, else compared in full."""

    def __init__(self, modules: Iterable[Any], agrees: Callable[[], bool] | None = None, varying: Iterable[Entry] = ()) -> None:
        """``agrees``: tells in another process whether the Modules are what they were; without it they are so now.

        Tensors that are ``varying`` may be others at each call: the program reads them.
        """
        self.modules = list(modules)
        self.varying = frozenset(varying)
        self.stamp = module_stamp[0] if agrees is None else -1
        self.fingerprint = self._take() if agrees is None else ()
        self.description: Any = None  # what is kept for other processes
        self._agrees, self._asked = agrees, -1

    def _settle(self) -> None:
        """Find out whether the Modules are what they were, once for each change of any."""
        if self._agrees is not None and self._asked != module_stamp[0]:
            self._asked = module_stamp[0]
            if self._agrees():
                self.fingerprint, self._agrees = self._take(), None

    def _take(self) -> tuple[Any, ...]:
        return tuple(fingerprint(m, self.varying) for root in self.modules for m in root.modules())

    def replaced(self) -> set[Entry]:
        """The tensors that are others now, by the id of their Module and their name."""
        found: set[Entry] = set()
        modules = [m for root in self.modules for m in root.modules()]
        for before, after, module in zip(self.fingerprint, self._take(), modules, strict=False):
            for old, new in zip(before[2:], after[2:], strict=False):
                if old == new or old[:-1] != new[:-1]:
                    continue
                if new[0] in TENSORS_OF:
                    held = zip(module.__dict__[new[0]], old[-1], new[-1], strict=True)
                    found |= {(id(module), name) for name, a, b in held if a != b}
                elif isinstance(module.__dict__[new[0]], TensorBase):
                    found.add((id(module), new[0]))
        return found

    def describe(self) -> list[str]:
        """Readable lines of what is checked."""
        return [f"assert module stamp is {self.stamp} ({len(self.fingerprint)} Modules)"] if self.modules else []

    def failed(self) -> str | None:
        """What changed, or None."""
        if module_stamp[0] == self.stamp:
            return None
        self._settle()
        now = self._take() if self._agrees is None else None
        if now == self.fingerprint:
            self.stamp = module_stamp[0]
            return None
        return "a Module is not what it was" if now is None else self._changed(now)

    def _changed(self, now: tuple[Any, ...]) -> str:
        """Which Module differs, and in what."""
        modules = [pair for root in self.modules for pair in root.named_modules()]
        for before, after, (path, module) in zip(self.fingerprint, now, modules, strict=False):
            if before != after and before[:2] == after[:2]:
                name = f"{type(module).__name__}{f' {path!r}' if path else ''}"
                old, new = ({p[0]: p[1:] for p in parts[2:]} for parts in (before, after))
                part = next((k for k in {**old, **new} if old.get(k) != new.get(k)), "")
                a, b = old.get(part, ()), new.get(part, ())
                values = f" was {a[1]!r} and is now {b[1]!r}" if len(a) == len(b) == 2 and isinstance(a[0], type) else " are others"
                return f"the Module {name} changed: its {part.strip('_')}{values}"
        return "the structure of a Module that it uses changed"


def holds_modules(value: Any) -> bool:
    """Whether a value has the registries of an nn.Module."""
    return isinstance(getattr(value, "__dict__", None), dict) and "_modules" in value.__dict__


def ways_into(module: Any) -> int:
    """Who reads tensors of a Module that is gone through, or of which an item is taken: it may give its own ones."""
    return REGISTERED if module._parameters or module._buffers else BY_NAME


def fingerprint(module: Any, varying: frozenset[Entry] = frozenset()) -> tuple[Any, ...]:
    """What a trace depends on in one Module besides the data of its tensors."""
    library = type(module).__module__.startswith("flambeau.")
    parts: list[Any] = [id(module), type(module)]
    for name, value in module.__dict__.items():
        if not library and name not in MODULE_STATE:
            # An attribute of the user's own is read and checked where it is used, if it is not one of the class until it is set.
            if hasattr(type(module), name):
                parts.append((name, "in front of one of its class"))
            continue
        if varying and (id(module), name) in varying:
            continue
        if isinstance(value, SCALARS):
            parts.append((name, type(value), value))
        elif name in BACKWARD_HOOKS:  # such a Module is called as it is
            parts.append((name, bool(value)))
        elif name in ("_parameters", "_buffers"):
            held = [(k, v, v is None or (id(module), k) in varying) for k, v in value.items()]
            told = tuple([v is None if skipped else (id(v), v.meta, v._requires_grad) for _, v, skipped in held])
            parts.append((name, tuple(value), told))
        elif isinstance(value, dict):
            parts.append((name, tuple(value), tuple([0 if (id(module), key) in varying else id(v) for key, v in value.items()])))
        elif isinstance(value, (tuple, list)):
            parts.append((name, tuple(map(id, value))))
        else:
            parts.append((name, id(value)))
    return tuple(parts)


def is_native(module: Any) -> bool:
    """Whether a Module and all in it are classes of the library, without hooks, so that no code of the user runs in it."""
    return all(
        type(m).__module__.startswith("flambeau.") and not (has_hooks(m) or gives_sparse(m) or "forward" in m.__dict__)
        for m in module.modules()
    )


def steps_on_sparse(optimizer: Any) -> bool:
    """Whether an optimizer has a gradient that is no dense tensor."""
    groups = getattr(optimizer, "param_groups", ())
    return any(p._grad is not None and p._grad.layout is not strided for g in groups for p in g["params"])


def gives_sparse(module: Any) -> bool:
    """Whether a Module is a table whose gradient is no dense tensor, which a segment cannot give."""
    return module.__dict__.get("sparse") is True and type(module).__module__ == "flambeau.nn.modules.sparse"


def has_hooks(module: Any, kinds: tuple[str, ...] = HOOKS) -> bool:
    """Whether something runs around the Module's forward, or its backward."""
    state = module.__dict__
    call = static_lookup(type(module), "_call_impl")
    everywhere = call.__globals__ if type(call) is types.FunctionType else {}
    compiled = kinds is HOOKS and state.get("_compiled_call_impl") is not None
    return compiled or any(state.get(k) or everywhere.get(f"global{k}") for k in kinds)
