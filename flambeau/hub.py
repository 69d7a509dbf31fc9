"""torch.hub: models from folders, and files from the network with a cache."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from flambeau import serialization

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

# "resnet18-bf5a0b98.pth" begins with that in its SHA-256.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_chosen: dict[str, str] = {}


def get_dir() -> str:
    """The folder of what was loaded: the one that was set, or ``$TORCH_HOME/hub`` (TORCH_HOME is ``~/.cache/torch`` by default)."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))
    return _chosen.get("folder", os.path.join(home, "hub"))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Use another folder."""
    _chosen["folder"] = os.path.expanduser(d)


# -- files ------------------------------------------------------------------------------------------------
def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Write a file from the network; RuntimeError where its SHA-256 does not begin with ``hash_prefix``, or it cannot be reached."""
    target = os.path.expanduser(dst)
    digest = hashlib.sha256()
    handle, partial = tempfile.mkstemp(prefix=os.path.basename(target) + ".", suffix=".partial", dir=os.path.dirname(target) or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            try:
                with urllib.request.urlopen(urllib.request.Request(url, headers={"User-Agent": "torch.hub"})) as source:
                    while block := source.read(1 << 17):
                        file.write(block)
                        digest.update(block)
            except (urllib.error.URLError, OSError) as error:
                raise RuntimeError(f"{url} cannot be reached ({error}); put the file at {target} by other means") from error
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found[: len(hash_prefix)]}")')
        shutil.move(partial, target)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """What ``torch.load`` gives of a file from the network, which is kept in ``hub_dir/checkpoints`` and taken from there if it is there.

    ``check_hash`` compares the SHA-256 with what the name has after its dash.
    """
    folder = Path(get_dir(), "checkpoints") if model_dir is None else Path(model_dir)
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    target = folder / name
    if not target.exists():
        print(f'Downloading: "{url}" to {target}', file=sys.stderr)
        match = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, str(target), match[1] if match else None, progress)
    return serialization.load(target, map_location=map_location, weights_only=weights_only)


# -- models -----------------------------------------------------------------------------------------------
def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = "check", force_reload: bool = False,
    verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call the function ``model`` of the ``hubconf.py`` in a folder (``source="local"``), or in a repository ``owner/name[:branch]``.

    A repository is taken from `get_dir` where it lies there, else from GitHub: then ``trust_repo`` must be True, since its code is run.
    """
    return _entry(_configuration(repo_or_dir, source, trust_repo, force_reload), model)(*args, **kwargs)


def list(  # noqa: A001 - torch's name
    github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check", verbose: bool = True
) -> Any:
    """The names of the models of a repository."""
    module = _configuration(github, "github", trust_repo, force_reload)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(  # noqa: A001 - torch's name
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check"
) -> str | None:
    """The docstring of a model of a repository."""
    return _entry(_configuration(github, "github", trust_repo, force_reload), model).__doc__


def _configuration(place: str, source: str, trusted: Any, reload: bool) -> ModuleType:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = _repository(place, trusted, reload) if source == "github" else Path(place)
    path = folder / "hubconf.py"
    if not path.exists():
        raise FileNotFoundError(f"hub.load: there is no {path}")
    sys.path.insert(0, str(folder))
    try:
        spec: Any = importlib.util.spec_from_file_location("hubconf", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def _repository(place: str, trusted: Any, reload: bool) -> Path:
    """The folder of a repository, loaded if it is not there."""
    name, _, branch = place.partition(":")
    owner, _, repository = name.partition("/")
    if not owner or not repository:
        raise ValueError(f"hub: needs a repository as owner/name or owner/name:branch, got {place!r}")
    start = f"{owner}_{repository}_"
    there = [Path(get_dir(), start + b.replace("/", "_")) for b in ([branch] if branch else ["main", "master"])]
    for folder in there:
        if folder.exists() and not reload:
            return folder
    if trusted is not True:
        raise RuntimeError(f"hub: the code of {place} would be loaded and run; say trust_repo=True, or put it at {there[0]}")
    return _fetched(owner, repository, branch, there)


def _fetched(owner: str, repository: str, branch: str, there: Any) -> Path:
    Path(get_dir()).mkdir(parents=True, exist_ok=True)
    error: Exception | None = None
    for name, folder in zip([branch] if branch else ["main", "master"], there, strict=True):
        with tempfile.TemporaryDirectory(dir=get_dir()) as work:
            archive = os.path.join(work, "repository.zip")
            try:
                download_url_to_file(f"https://github.com/{owner}/{repository}/zipball/{name}", archive, progress=False)
            except RuntimeError as failed:
                error = failed
                continue
            with zipfile.ZipFile(archive) as file:
                first = file.infolist()[0].filename
                file.extractall(work)
            if folder.exists():
                shutil.rmtree(folder)
            shutil.move(os.path.join(work, first), folder)
            return folder
    raise RuntimeError(f"hub: {owner}/{repository} cannot be loaded; put it at {there[0]}") from error
