"""``save`` and ``load``: files of PyTorch's zip format (.pt), readable by either library.

An archive holds ``data.pkl``, a pickle in which tensors refer to storages by key, and the bytes of each storage in ``data/<key>``.
Names in the pickle are PyTorch's: what is written here under ``flambeau.nn...`` is called ``torch.nn...`` in the file.
"""

from __future__ import annotations

import ctypes
import enum
import importlib
import io
import mmap
import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from flambeau.core import dtypes
from flambeau.core.device import Device, cpu
from flambeau.core.dtypes import dtype
from flambeau.core.shape import Size
from flambeau.nn.parameter import Parameter
from flambeau.runtime.storage import Storage, meta_of
from flambeau.tensor import Tensor
from flambeau.tensor.base import from_memory

__all__ = [
    "LoadEndianness", "add_safe_globals", "clear_safe_globals", "get_crc32_options", "get_default_load_endianness",
    "get_default_mmap_options", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "safe_globals", "save",
    "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options", "skip_data",
]  # fmt: skip
# What map_location may be.
MAP_LOCATION = Callable[[Any, str], Any] | Device | str | dict[str, str] | None

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

_STORAGES = {
    "FloatStorage": dtypes.float32, "DoubleStorage": dtypes.float64, "HalfStorage": dtypes.float16, "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64, "IntStorage": dtypes.int32, "ShortStorage": dtypes.int16, "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8, "BoolStorage": dtypes.bool_, "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128, "UntypedStorage": dtypes.uint8,
}  # fmt: skip
_STORAGE_NAMES = {kind: name for name, kind in _STORAGES.items() if name != "UntypedStorage"}
_VERSION = "3\n"

File = str | os.PathLike[str] | io.IOBase | Any
_safe: dict[tuple[str, str], Any] = {}


class _Global(NamedTuple):
    """Something that the file calls by a name of PyTorch's."""

    module: str
    name: str

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.module}.{self.name} is only written")


class _StorageReference:
    """The memory of a tensor, as something that the pickler asks a persistent id of."""

    def __init__(self, tensor: Tensor, location: str) -> None:
        self.memory, self.kind, self.location = tensor.memory, tensor.meta.dtype, location


# -- writing ----------------------------------------------------------------------------------------------
class _Writer(pickle._Pickler):  # type: ignore[name-defined]  # the one in Python: it lets names be chosen
    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[int, tuple[str, Storage]] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _StorageReference):
            return None
        key, _ = self.storages.setdefault(id(obj.memory), (str(len(self.storages)), obj.memory))
        if obj.kind not in _STORAGE_NAMES:
            return "storage", _Global("torch.storage", "UntypedStorage"), key, obj.location, obj.memory.nbytes
        kind = _Global("torch", _STORAGE_NAMES[obj.kind])
        return "storage", kind, key, obj.location, obj.memory.nbytes // obj.kind.itemsize

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Size):
            return _Global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, Device):
            return _Global("torch", "device"), (str(obj),)
        if not isinstance(obj, Tensor):
            return NotImplemented
        attributes = dict(obj.__dict__)
        if type(obj) is Parameter:
            state = (obj.data, obj.requires_grad, OrderedDict())
            if attributes:
                return _Global("torch._utils", "_rebuild_parameter_with_state"), (*state, attributes)
            return _Global("torch._utils", "_rebuild_parameter"), state
        if type(obj) is not Tensor and type(obj).__module__.partition(".")[0] != "flambeau":
            rebuild, arguments = self._tensor(obj)
            return _Global("torch._tensor", "_rebuild_from_type_v2"), (rebuild, type(obj), arguments, attributes)
        return self._tensor(obj)

    def _tensor(self, tensor: Tensor) -> tuple[_Global, tuple[Any, ...]]:
        tensor.materialize()
        kind, location = tensor.meta.dtype, str(tensor.meta.device)
        here = tensor if tensor.meta.device is cpu else tensor.detach().cpu()
        offset = (here.address - here.memory.address) // kind.itemsize
        arguments = (offset, tuple(here.shape), tuple(here.stride()), tensor.requires_grad, OrderedDict())
        if kind not in _STORAGE_NAMES:  # the newer types have no storages of their own
            return _Global("torch._utils", "_rebuild_tensor_v3"), (_StorageReference(here, location), *arguments, kind)
        return _Global("torch._utils", "_rebuild_tensor_v2"), (_StorageReference(here, location), *arguments)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = getattr(obj, "__module__", None) or ""
        if module.partition(".")[0] != "flambeau":
            super().save_global(obj, name)  # type: ignore[misc]
            return
        self._write_name(obj, "torch" + module[len("flambeau") :], name or obj.__qualname__)

    def _save_named(self, obj: _Global) -> None:
        self._write_name(obj, obj.module, obj.name)

    def _save_dtype(self, obj: dtype) -> None:
        self._write_name(obj, "torch", str(obj).removeprefix("torch."))

    def _write_name(self, obj: Any, module: str, name: str) -> None:
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    dispatch = {
        **pickle._Pickler.dispatch,  # type: ignore[attr-defined]
        _Global: _save_named, dtype: _save_dtype,
    }  # fmt: skip


def save(
    obj: Any, f: File, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Write an object with the tensors in it to a file (a path, or something with ``write``) that `load` and PyTorch read.

    Tensors that share memory share it again when they are read. RuntimeError for tensors with a history.

    >>> import io
    >>> import flambeau as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.arange(3)}, file)
    >>> torch.load(io.BytesIO(file.getvalue()))
    {'weight': tensor([0, 1, 2])}
    """
    if not _use_new_zipfile_serialization:
        raise NotImplementedError("save: the format from before PyTorch 1.6 is not written; leave _use_new_zipfile_serialization out")
    data = io.BytesIO()
    writer = _Writer(data, pickle_protocol)
    writer.dump(obj)
    named = isinstance(f, (str, os.PathLike))
    prefix = os.path.splitext(os.path.basename(os.fspath(f)))[0] if named else "archive"
    with zipfile.ZipFile(os.fspath(f) if named else f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{prefix}/data.pkl", data.getvalue())
        archive.writestr(f"{prefix}/byteorder", "little")
        for key, memory in writer.storages.values():
            archive.writestr(zipfile.ZipInfo(f"{prefix}/data/{key}"), _bytes_of(memory))
        archive.writestr(f"{prefix}/version", _VERSION)


def _bytes_of(memory: Storage) -> bytes:
    return bytes(memory.nbytes) if _options["skip"] else ctypes.string_at(memory.address, memory.nbytes)


# -- reading ----------------------------------------------------------------------------------------------
class _ReadStorage(NamedTuple):
    memory: Storage
    kind: dtype
    location: str


class _Reader(pickle.Unpickler):
    def __init__(self, archive: zipfile.ZipFile, prefix: str, place: Callable[[Tensor, str], Tensor], weights_only: bool) -> None:
        super().__init__(io.BytesIO(archive.read(f"{prefix}/data.pkl")), encoding="utf-8")
        self.archive, self.prefix, self.place, self.weights_only = archive, prefix, place, weights_only
        self.memories: dict[str, Storage] = {}
        self.known: dict[tuple[str, str], Any] = {
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor, ("torch._utils", "_rebuild_tensor_v3"): self._typed_tensor,
            ("torch._utils", "_rebuild_parameter"): _parameter, ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
            ("torch._tensor", "_rebuild_from_type_v2"): _from_type, ("torch.nn.parameter", "Parameter"): Parameter,
            ("torch", "Size"): Size, ("torch", "device"): Device, ("torch", "Tensor"): Tensor, ("collections", "OrderedDict"): OrderedDict,
            ("torch.storage", "UntypedStorage"): dtypes.uint8, ("builtins", "set"): set, ("__builtin__", "set"): set,
        }  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        found = self.known.get((module, name)) or _safe.get((module, name))
        if found is None and module == "torch":
            found = _STORAGES.get(name) or dtypes.BY_NAME.get(name)
        if found is not None:
            return found
        if self.weights_only:
            raise pickle.UnpicklingError(
                f"Weights only load failed. The file needs {module}.{name}, which is not on the list of what may be called while loading. "
                "If you trust the file, use weights_only=False, which can run any code, or torch.serialization.add_safe_globals."
            )
        if module.partition(".")[0] == "torch":
            owner: Any = importlib.import_module("flambeau" + module[len("torch") :])
            for part in name.split("."):
                owner = getattr(owner, part)
            return owner
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> _ReadStorage:
        _, kind, key, location, _ = pid
        if not isinstance(kind, dtype):
            raise pickle.UnpicklingError(f"load: storages of type {kind} are not read")
        memory = self.memories.get(key)
        if memory is None:
            data = self.archive.read(f"{self.prefix}/data/{key}")
            memory = self.memories[key] = Storage(len(data))
            ctypes.memmove(memory.address, data, len(data))
        return _ReadStorage(memory, kind, location)

    def _tensor(self, storage: _ReadStorage, offset: int, size: Any, stride: Any, requires_grad: bool, *_: Any) -> Tensor:
        return self._typed_tensor(storage, offset, size, stride, requires_grad, None, storage.kind)

    def _typed_tensor(
        self, storage: _ReadStorage, offset: int, size: Any, stride: Any, requires_grad: bool, _hooks: Any, kind: dtype, *_: Any
    ) -> Tensor:
        memory = storage.memory
        last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        lowest = min([offset, *size, *stride])
        if lowest < 0 or (0 not in size and (last + 1) * kind.itemsize > memory.nbytes):
            raise RuntimeError(f"load: the file is corrupt: a tensor of size {tuple(size)} leaves its storage of {memory.nbytes} bytes")
        meta = meta_of(tuple(size), kind, tuple(stride))
        tensor = self.place(from_memory(memory, memory.address + offset * kind.itemsize, meta, Tensor), storage.location)
        return tensor.requires_grad_(requires_grad) if requires_grad else tensor


def _parameter(data: Tensor, requires_grad: bool, _hooks: Any, state: Any = None) -> Parameter:
    out = Parameter(data, requires_grad)
    out.__dict__.update(state or {})
    return out


def _from_type(rebuild: Callable[..., Tensor], kind: type, arguments: tuple[Any, ...], state: Any) -> Any:
    out = rebuild(*arguments).as_subclass(kind)
    out.__dict__.update(state if isinstance(state, dict) else {})
    return out


def _placing(map_location: Any) -> Callable[[Tensor, str], Tensor]:
    def place(tensor: Tensor, location: str) -> Tensor:
        wanted = location
        if isinstance(map_location, dict):
            wanted = map_location.get(location, location)
        elif callable(map_location) and not isinstance(map_location, Device):
            wanted = location if map_location(tensor, location) is None else "cpu"
        elif map_location is not None:
            wanted = map_location
        return tensor if str(wanted) == "cpu" else tensor.to(wanted)

    return place


def _only_weights(wanted: bool | None) -> bool:
    """What is asked for, unless PyTorch's variables of the environment say otherwise."""
    yes = ("1", "y", "yes", "true")
    always, never = (os.environ.get(f"TORCH_FORCE_{name}WEIGHTS_ONLY_LOAD", "0") in yes for name in ("", "NO_"))
    if always and never:
        raise RuntimeError(
            "load: only one of TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD may be set, but both are; unset one"
        )
    return always or (not never if wanted is None else wanted)


def load(
    f: File, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """Read what `save` or PyTorch wrote.

    ``map_location``: where tensors go, a device, a dictionary of such, or a function of (storage, location) whose result, unless it
    is None, means the CPU; by default they go where they were. With ``weights_only`` (the default) the file can name nothing but
    tensors, containers and what `add_safe_globals` allows: pickle.UnpicklingError otherwise. The variables
    TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD change it for a process, the latter only the default.
    """
    if _options["skip"]:
        raise NotImplementedError("load: inside skip_data nothing is read; leave the block first")
    named = isinstance(f, (str, os.PathLike))
    if not named and not hasattr(f, "read"):
        raise AttributeError(f"load: expected a path or a file with read and seek, got {type(f).__name__}")
    try:
        archive = zipfile.ZipFile(os.fspath(f) if named else f)
    except zipfile.BadZipFile as error:
        raise RuntimeError(
            f"load: {f} is no file of PyTorch's zip format ({error}): it is cut off, or from before PyTorch 1.6; write it anew"
        ) from None
    with archive:
        prefix = next((name[: -len("/data.pkl")] for name in archive.namelist() if name.endswith("/data.pkl")), None)
        if prefix is None:
            raise RuntimeError(f"load: {f} is a zip file without data.pkl, not one of torch.save")
        order = f"{prefix}/byteorder"
        if order in archive.namelist() and archive.read(order) != b"little":
            raise NotImplementedError("load: files of big-endian machines are not read")
        return _Reader(archive, prefix, _placing(map_location), _only_weights(weights_only)).load()


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let files that are loaded with ``weights_only`` call these classes and functions."""
    for item in safe_globals:
        item, path = item if isinstance(item, tuple) else (item, f"{item.__module__}.{item.__qualname__}")
        module, _, name = path.rpartition(".")
        for spelled in (module, "torch" + module[len("flambeau") :] if module.partition(".")[0] == "flambeau" else module):
            _safe[spelled, name] = item


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Within ``with``, let files that are loaded with ``weights_only`` call these as well."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has allowed."""
    return list(dict.fromkeys(_safe.values()))


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has allowed."""
    _safe.clear()


def get_unsafe_globals_in_checkpoint(f: File) -> list[str]:
    """The names in a file that ``weights_only`` would refuse.

    >>> import flambeau as torch, io
    >>> file = io.BytesIO()
    >>> torch.save({"a": torch.ones(2), "b": slice(0, 2)}, file)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
    ['builtins.slice']
    """
    with zipfile.ZipFile(os.fspath(f) if isinstance(f, (str, os.PathLike)) else f) as archive:
        prefix = next(name[: -len("/data.pkl")] for name in archive.namelist() if name.endswith("/data.pkl"))
        reader, text = _Reader(archive, prefix, _placing(None), True), archive.read(f"{prefix}/data.pkl")
    found: dict[str, None] = {}
    for opcode, argument, _ in pickletools.genops(text):
        if opcode.name == "GLOBAL":
            module, name = str(argument).split(" ")
            try:
                reader.find_class("builtins" if module == "__builtin__" else module, name)
            except pickle.UnpicklingError:
                found[f"{'builtins' if module == '__builtin__' else module}.{name}"] = None
    return list(found)


class LoadEndianness(enum.Enum):
    """How files without a note of it order bytes."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_options: dict[str, Any] = {"crc32": True, "mmap": mmap.MAP_PRIVATE, "endianness": None, "skip": False}


def get_crc32_options() -> bool:
    """What `set_crc32_options` was given."""
    return _options["crc32"]


def set_crc32_options(compute_crc32: bool) -> None:
    """Accepted: checksums are always written."""
    _options["crc32"] = compute_crc32


def get_default_load_endianness() -> LoadEndianness | None:
    """What `set_default_load_endianness` was given."""
    return _options["endianness"]


def set_default_load_endianness(endianness: Any) -> None:
    """Little-endian files alone are read; NotImplementedError for BIG."""
    if endianness is LoadEndianness.BIG:
        raise NotImplementedError("set_default_load_endianness: files of big-endian machines are not read")
    _options["endianness"] = endianness


def get_default_mmap_options() -> int:
    """What `set_default_mmap_options` was given."""
    return _options["mmap"]


class set_default_mmap_options:  # noqa: N801 - torch's own name
    """``mmap.MAP_PRIVATE`` or ``mmap.MAP_SHARED``, accepted: files are read, not mapped. As a context manager also put it back."""

    def __init__(self, flags: int) -> None:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(f"Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or MAP_SHARED, got {flags}")
        self._before, _options["mmap"] = _options["mmap"], flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _options["mmap"] = self._before


class skip_data:  # noqa: N801
    """A block in which `save` writes zeros for the elements of tensors, for somebody else to fill in; `load` raises."""

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError("skip_data: there are no fake tensors; leave materialize_fake_tensors out")

    def __enter__(self) -> None:
        _options["skip"] = True

    def __exit__(self, *_: object) -> None:
        _options["skip"] = False
