"""torch.distributed.checkpoint: state dicts as folders.

The folder holds one file ``state.pt``, an archive of `torch.save` with a list of (path of keys, value). That is a format of our own:
PyTorch's, with a file for each process, is neither read nor written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flambeau import serialization
from flambeau.distributed.checkpoint import state_dict as state_dict
from flambeau.tensor.tensor_class import Tensor

__all__ = ["CheckpointException", "FileSystemReader", "FileSystemWriter", "load", "save", "state_dict"]
_FILE = "state.pt"


class CheckpointException(RuntimeError):
    """What is wanted is not in the checkpoint, or is of another shape there."""


class FileSystemWriter:
    """Where `save` writes: a folder, which is made if need be."""

    def __init__(
        self, path: str | os.PathLike[str], single_file_per_rank: bool = True, sync_files: bool = True, thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False, overwrite: bool = True, **kwargs: Any,
    ) -> None:  # fmt: skip
        self.path, self.overwrite, self.sync_files = Path(path), overwrite, sync_files


class FileSystemReader:
    """Where `load` reads: a folder that `save` has written."""

    def __init__(self, path: str | os.PathLike[str], **kwargs: Any) -> None:
        self.path = Path(path)


def _items(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The values in nested dicts with their paths; objects that have a ``state_dict`` count as one."""
    if not path or isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _items(inner, (*path, key))
    else:
        yield path, value


def _is_stateful(value: Any) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_writer: FileSystemWriter | None = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False, use_collectives: bool = True,
) -> None:  # fmt: skip
    """Write nested dicts of tensors and other values, and the states of objects that have one, to a folder.

    >>> import flambeau as torch, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dcp.save({"model": {"w": torch.ones(2)}, "step": 3}, checkpoint_id=folder)
    ...     state = {"model": {"w": torch.zeros(2)}, "step": 0}
    ...     dcp.load(state, checkpoint_id=folder)
    >>> state
    {'model': {'w': tensor([1., 1.])}, 'step': 3}
    """
    writer = storage_writer or FileSystemWriter(_folder("save", checkpoint_id))
    target = writer.path / _FILE
    if target.exists() and not writer.overwrite:
        raise RuntimeError(f"save: a checkpoint already exists in {writer.path}, and overwrite=False")
    plain = {key: value.state_dict() if _is_stateful(value) else value for key, value in state_dict.items()}
    writer.path.mkdir(parents=True, exist_ok=True)
    new = target.with_suffix(".new")
    serialization.save([(path, v.detach() if isinstance(v, Tensor) else v) for path, v in _items(plain)], new)
    os.replace(new, target)


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_reader: FileSystemReader | None = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Fill a state dict from a folder: tensors in place, other values anew, objects by their ``load_state_dict``."""
    reader = storage_reader or FileSystemReader(_folder("load", checkpoint_id))
    try:
        found = dict(serialization.load(reader.path / _FILE, weights_only=False))
    except FileNotFoundError:
        raise CheckpointException(f"load: there is no {_FILE} in {reader.path}; the folders of PyTorch itself are not read") from None
    for key, value in state_dict.items():
        if _is_stateful(value):
            state = value.state_dict()
            _fill(state, found, (key,))
            value.load_state_dict(state)
        else:
            _fill(state_dict, found, (), (key,))


def _fill(into: Any, found: dict[tuple[Any, ...], Any], path: tuple[Any, ...], keys: tuple[Any, ...] | None = None) -> None:
    for key in tuple(into) if keys is None else keys:
        here, value = (*path, key), into[key]
        if isinstance(value, dict) and value:
            _fill(value, found, here)
        elif here not in found:
            raise CheckpointException(f"load: missing key in checkpoint: {'.'.join(map(str, here))}")
        elif not isinstance(value, Tensor):
            into[key] = found[here]
        elif value.shape != found[here].shape:
            raise CheckpointException(f"load: {'.'.join(map(str, here))} has shape {list(found[here].shape)}, wanted {list(value.shape)}")
        else:
            value.detach().copy_(found[here])


def _folder(name: str, checkpoint_id: str | os.PathLike[str] | None) -> str | os.PathLike[str]:
    if checkpoint_id is None:
        raise RuntimeError(f"{name}: give checkpoint_id, the path of a folder, or storage_writer or storage_reader")
    return checkpoint_id
