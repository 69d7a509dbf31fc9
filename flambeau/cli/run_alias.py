"""Makes ``import torch`` mean flambeau, in this process and in the Python processes that it starts."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution, DistributionFinder

__all__ = ["TORCH_VERSION", "install", "share_with_children", "target_name"]

ALIAS = "torch"
TARGET = "flambeau"

# What libraries that look up the installed version of torch are told; the part after + says who answers.
TORCH_VERSION = "2.13.0+flambeau"

# How a child process learns of the alias: the prefix of the interpreter that it holds for, and the folder of our package.
VARIABLE = "FLAMBEAU_RUN"
STARTUP = Path(__file__).resolve().parent / "startup"


def target_name(name: str) -> str:
    """The flambeau name behind a torch module's name: ``torch.nn`` gives ``flambeau.nn``; other names stay as they are."""
    return TARGET + name[len(ALIAS) :] if _is_alias(name) else name


def _is_alias(name: str) -> bool:
    return name == ALIAS or name.startswith(ALIAS + ".")


class AliasLoader(Loader):
    """Gives the module of another name instead of loading one, so that there is never a second copy."""

    def __init__(self, real: ModuleSpec) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The one module that the real name stands for."""
        module = importlib.import_module(self.real.name)
        self._own_spec = module.__spec__
        if module.__name__ == TARGET:
            _tell(module)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system wrote on the module: it keeps the spec of its real name."""
        module.__spec__ = self._own_spec

    def is_package(self, name: str) -> bool:
        """Whether the module may have submodules."""
        return self.real.submodule_search_locations is not None

    def get_code(self, name: str) -> CodeType | None:
        """The code of the module, for ``python -m torch.x``."""
        return self.real.loader.get_code(self.real.name)  # type: ignore[union-attr]


class AliasFinder(MetaPathFinder):
    """Finds ``torch`` and its submodules, and the distribution named torch, in flambeau."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The alias of a module of flambeau; None for other names.

        Where flambeau has no such module, an import raises ModuleNotFoundError that says so, and a mere
        ``importlib.util.find_spec`` answers None, as libraries expect that probe for optional parts.
        """
        if not _is_alias(name):
            return None
        real = importlib.util.find_spec(target_name(name))
        if real is not None:
            spec = ModuleSpec(name, AliasLoader(real), origin=real.origin)
            spec.submodule_search_locations = real.submodule_search_locations
            return spec
        if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
            raise ModuleNotFoundError(
                f"No module named {name!r}: torch is flambeau in this process, and flambeau has no module {target_name(name)!r}.",
                name=name,
            )
        return None

    def find_distributions(self, context: DistributionFinder.Context) -> Iterable[Distribution]:
        """The distribution torch, which exists only as an answer to ``importlib.metadata``."""
        if context.name is None or context.name.lower() == ALIAS:
            yield _torch_distribution()


def _torch_distribution() -> Distribution:
    # Not at the top: it costs 15 ms, which every child process would pay, and whoever gets here has loaded it.
    from importlib.metadata import Distribution

    class TorchDistribution(Distribution):
        texts = {"METADATA": f"Metadata-Version: 2.1\nName: {ALIAS}\nVersion: {TORCH_VERSION}\n", "top_level.txt": f"{ALIAS}\n"}

        def read_text(self, filename: str) -> str | None:
            return self.texts.get(filename)

        def locate_file(self, path: str | os.PathLike[str]) -> Path:
            return STARTUP.parent.parent / path

    return TorchDistribution()


def install() -> None:
    """Let ``import torch`` mean flambeau in this process from now on; a second call changes nothing.

    An installed PyTorch stays as it is on disk. Raises RuntimeError when it has been imported already.
    """
    loaded = sys.modules.get(ALIAS)
    if loaded is not None and loaded is not sys.modules.get(TARGET):
        raise RuntimeError(f"torch has already been imported from {loaded.__file__}; start the program with `flambeau run` instead.")
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
    if TARGET in sys.modules:
        # Libraries such as einops ask sys.modules whether torch is in use at all.
        sys.modules[ALIAS] = sys.modules[TARGET]
        _tell(sys.modules[TARGET])


def _tell(module: ModuleType) -> None:
    """The name and version that libraries look for; the file and the spec stay ours."""
    versions = importlib.import_module("flambeau.torch_version")  # Not at the top: it loads the whole package.
    vars(module).update(__name__=ALIAS, __version__=versions.TorchVersion(TORCH_VERSION))


def share_with_children() -> None:
    """Let Python processes that this one starts have the alias too, whichever way they are started.

    The environment carries it: a folder with a ``sitecustomize`` module comes first in ``PYTHONPATH``. It acts only in the
    interpreter (by ``sys.prefix``) that runs now, and runs the ``sitecustomize`` that it hides. Processes started with ``-I``,
    ``-E`` or ``-S``, or without this environment, do not see it.
    """
    os.environ[VARIABLE] = f"{sys.prefix}{os.pathsep}{STARTUP.parent.parent.parent}"
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != str(STARTUP)]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(STARTUP), *paths])
