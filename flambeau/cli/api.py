"""``flambeau api``: which of PyTorch's public names are there and which are missing, from the list in ``torch_names.txt``."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Name", "find", "missing", "report", "torch_names"]

_LINE = re.compile(r"(?P<name>\w+)(?P<forms>\(.*\))?(?: @(?P<programs>\d+))?$")


@dataclass(frozen=True)
class Name:
    """A public name of PyTorch: where it is, its documented parameter lists, and how many of the examined programs use it."""

    section: str
    name: str
    forms: tuple[str, ...]
    programs: int

    @property
    def path(self) -> str:
        """The dotted path from ``torch``."""
        return f"{self.section}.{self.name}"


def torch_names() -> list[Name]:
    """All names of the list, by section."""
    names, section = [], ""
    for line in Path(__file__).with_name("torch_names.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif match := _LINE.match(line):
            forms = tuple(f"({form})" for form in match["forms"][1:-1].split(")(")) if match["forms"] else ()
            names.append(Name(section, match["name"], forms, int(match["programs"] or 0)))
    return names


def find(path: str) -> Any:
    """What a dotted path of torch leads to here; AttributeError where it leads nowhere."""
    first, *parts = path.split(".")
    found, module = importlib.import_module("flambeau"), "flambeau"
    assert first == "torch", path
    for part in parts:
        module += f".{part}"
        if not hasattr(found, part):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError:
                raise AttributeError(f"{path}: there is no {part}") from None
        found = getattr(found, part)
    return found


def missing(names: Iterable[Name]) -> list[Name]:
    """Those of the names that are not there."""
    return [name for name in names if not _is_there(name.path)]


def _is_there(path: str) -> bool:
    try:
        find(path)
    except AttributeError:
        return False
    return True


def report(module: str | None = None, only_missing: bool = False) -> str:
    """Counts for each module, then the missing names, the most used ones first; of one module alone if it is given."""
    names = [name for name in torch_names() if module in (None, name.section)]
    if not names:
        sections = ", ".join(sorted({name.section for name in torch_names()}))
        raise ValueError(f"there are no names of {module!r}; the modules are {sections}")
    absent = missing(names)
    lines = []
    if not only_missing or module is None:
        for section in dict.fromkeys(name.section for name in names):
            whole, less = (sum(name.section == section for name in group) for group in (names, absent))
            lines.append(f"{section:36} {whole - less:4} of {whole:4}" + (f", {less} missing" if less else ""))
        lines.append(f"{'in all':36} {len(names) - len(absent):4} of {len(names):4}, {len(absent)} missing")
    if only_missing:
        by_use = sorted(absent, key=lambda name: -name.programs)
        lines += [f"  {name.path}" + (f"  (used by {name.programs} programs)" if name.programs else "") for name in by_use]
    return "\n".join(lines)
