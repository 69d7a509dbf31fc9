"""All settings of flambeau, read once from ``FLAMBEAU_*`` environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["Config", "config"]

_TRUE = frozenset({"1", "on", "true", "yes"})
_FALSE = frozenset({"0", "off", "false", "no"})


def _switch(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("on or off (also 1/0, true/false, yes/no)")


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        needed = f"a whole number from {low} to {high}"
        try:
            value = int(text)
        except ValueError:
            raise ValueError(needed) from None
        if not low <= value <= high:
            raise ValueError(needed)
        return value

    return parse


def _vector_bits(text: str) -> int:
    if text.strip().lower() in ("auto", "0"):
        return 0
    if text.strip() in ("128", "256", "512"):
        return int(text)
    raise ValueError("auto, 128, 256 or 512")


def _folder(text: str) -> str:
    if not text.strip():
        raise ValueError("the path of a folder")
    return os.path.abspath(os.path.expanduser(text))


def _available_cores() -> int:
    return len(os.sched_getaffinity(0))


def _default_cache_folder() -> str:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(os.path.abspath(home), "flambeau")


def _setting(variable: str, parse: Callable[[str], Any], default: Callable[[], Any], *, changes_code: bool, doc: str) -> Any:
    metadata = {"variable": variable, "parse": parse, "changes_code": changes_code, "doc": doc}
    return field(default_factory=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force; one attribute each.

    A setting that changes code is part of every cache key (`code_key`). Settings are read from the environment when
    flambeau is imported and stay as they are; tests change them through `override`.

    >>> from flambeau.core.config import config
    >>> with config.override(debug=1):
    ...     config.debug
    1
    """

    debug: int = _setting(
        "FLAMBEAU_DEBUG", _whole(0, 6), lambda: 0, changes_code=False,
        doc="What is printed to stderr: 1 compiles and recompiles, 2 timings, 3 graphs, 4 kernel source, 5 pass diffs, 6 assembly.",
    )
    threads: int = _setting(
        "FLAMBEAU_NUM_THREADS", _whole(1, 256), _available_cores, changes_code=False,
        doc="Threads of the CPU pool at start, the calling thread included. Default: the cores this process may use.",
    )
    cache: bool = _setting(
        "FLAMBEAU_CACHE", _switch, lambda: True, changes_code=False,
        doc="Whether compiled code is kept on disk between processes.",
    )
    cache_dir: str = _setting(
        "FLAMBEAU_CACHE_DIR", _folder, _default_cache_folder, changes_code=False,
        doc="Folder of the disk cache. Default: $XDG_CACHE_HOME/flambeau or ~/.cache/flambeau.",
    )
    cache_mebibytes: int = _setting(
        "FLAMBEAU_CACHE_SIZE", _whole(1, 1 << 20), lambda: 1024, changes_code=False,
        doc="Size that the disk cache may reach, in MiB; past it the oldest entries are removed.",
    )
    native: bool = _setting(
        "FLAMBEAU_NATIVE", _switch, lambda: True, changes_code=False,
        doc="Whether dispatch, guards and launch use native code; off gives the same results through Python.",
    )
    checked: bool = _setting(
        "FLAMBEAU_CHECKED", _switch, lambda: False, changes_code=True,
        doc="Checked emission: kernels test their bounds, memory blocks carry canaries. Slow; for finding faults.",
    )
    shadow: bool = _setting(
        "FLAMBEAU_SHADOW", _switch, lambda: False, changes_code=False,
        doc="Compiled functions run their operators one by one as well, and report the first one whose result differs. Slow.",
    )
    vector_bits: int = _setting(
        "FLAMBEAU_VECTOR_BITS", _vector_bits, lambda: 0, changes_code=True,
        doc="Width of the vectors in CPU kernels, in bits; auto (0) takes the machine's own width.",
    )
    opt_level: int = _setting(
        "FLAMBEAU_OPT_LEVEL", _whole(0, 3), lambda: 2, changes_code=True,
        doc="Optimisation level of LLVM's code generation.",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Config:
        """Read the settings that `environment` names; the others get their defaults.

        Raises ValueError naming the variable, its value and what is needed.
        """
        values: dict[str, Any] = {}
        for setting in fields(cls):
            variable = setting.metadata["variable"]
            text = environment.get(variable)
            if text is None:
                continue
            try:
                values[setting.name] = setting.metadata["parse"](text)
            except ValueError as error:
                raise ValueError(f"{variable}={text!r}: needs {error}; correct or unset the variable.") from None
        return cls(**values)

    def code_key(self) -> tuple[int, ...]:
        """The values of the settings that change generated code, for cache keys."""
        return tuple(int(getattr(self, setting.name)) for setting in fields(self) if setting.metadata["changes_code"])

    @contextmanager
    def override(self, **settings: Any) -> Generator[None]:
        """Change settings inside a ``with`` block (for tests); values go through the same checks as the environment's.

        Raises TypeError for a setting that does not exist and ValueError for a bad value.
        """
        known = {setting.name: setting for setting in fields(self)}
        checked: dict[str, Any] = {}
        for name, value in settings.items():
            if name not in known:
                raise TypeError(f"config.override: there is no setting {name!r}; the settings are {', '.join(known)}.")
            try:
                checked[name] = known[name].metadata["parse"](str(value))
            except ValueError as error:
                raise ValueError(f"config.override: {name}={value!r}: needs {error}.") from None
        before = {name: getattr(self, name) for name in checked}
        try:
            for name, value in checked.items():
                object.__setattr__(self, name, value)
            yield
        finally:
            for name, value in before.items():
                object.__setattr__(self, name, value)


config = Config.from_environment(os.environ)
