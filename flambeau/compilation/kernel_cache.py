"""From kernel text to callable address: looked up in memory, then on disk, then compiled, all missing ones in parallel.

To run a kernel (``text`` is LLVM IR that exports ``void @k(ptr args, i64 chunk, ptr scratch)``)::

    from flambeau.compilation.kernel_cache import KernelText, get_kernel
    from flambeau.runtime.launch import TaskArray, run_tasks
    kernel = get_kernel(KernelText(text, "k"))
    tasks = TaskArray()
    tasks.add(kernel.address, [0, grain, x_address, y_address, n], chunks=4, wave=0)   # slot 0 is filled in by `add`
    run_tasks(tasks)
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from flambeau.compilation import llvm_driver
from flambeau.core import events
from flambeau.core.config import config
from flambeau.core.events import counters
from flambeau.runtime import disk_cache, object_loader, thread_pool
from flambeau.runtime.native import library
from flambeau.runtime.object_loader import CorruptObject, Image

__all__ = ["Kernel", "KernelText", "get_kernel", "get_kernels", "get_symbols", "kernels_in_memory"]

_NAMESPACE = "kernels"
# Raise when the driver or the loader change what they make of the same text.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class KernelText:
    """LLVM IR text of a module and the name of the function in it that is called."""

    text: str
    name: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loaded kernel: the address of the function `name`, and the text that it was made from."""

    text: str
    name: str
    address: int


@dataclass(frozen=True, slots=True)
class _Job:
    """A module that is not in memory."""

    text: str
    key: str


_modules: dict[tuple[tuple[int, ...], str], Mapping[str, int]] = {}
_by_key: dict[str, Mapping[str, int]] = {}
_lock = threading.RLock()


def _forget_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_lock)


def toolchain() -> str:
    """What besides the text decides the code of a kernel: compiler, machine and settings."""
    return _toolchain(config.code_key())


def module_key(text: str) -> str:
    """The name under which the disk cache keeps the code of a text."""
    return disk_cache.key(text.encode(), toolchain())


@cache
def _toolchain(code_key: tuple[int, ...]) -> str:
    return disk_cache.key(_FORMAT, llvm_driver.llvm_version(), llvm_driver.target_key(), code_key)


def get_kernels(texts: Sequence[KernelText]) -> list[Kernel]:
    """The kernels for `texts`, in their order.

    Raises `llvm_driver.InternalCompilerError` when LLVM refuses a text and KeyError when a text does not export its name.
    """
    modules = _get_modules([text.text for text in texts])
    return [Kernel(text.text, text.name, _address(module, text)) for text, module in zip(texts, modules, strict=True)]


def find_kernels(names: Sequence[tuple[str, str]]) -> list[int] | None:
    """The addresses of kernels given as (module key, function), from memory or disk; None when one is not there."""
    missing = [key for key in dict.fromkeys(key for key, _ in names) if key not in _by_key]
    if missing:
        with _lock:
            images: dict[str, Image] = {}
            for key in missing:
                image = _read(_Job("", key))
                if image is None:
                    return None
                images[key] = image
            counters["kernel_disk_hits"] += len(images)
            loaded = object_loader.load(list(images.values()))
            _by_key.update(zip(images, loaded, strict=True))
    counters["kernel_memory_hits"] += len(names) - len(missing)
    return [_by_key[key][name] for key, name in names]


def get_kernel(text: KernelText) -> Kernel:
    """The kernel for one text."""
    return get_kernels([text])[0]


def get_symbols(text: str) -> Mapping[str, int]:
    """The addresses of all functions that a module exports, by name."""
    return _get_modules([text])[0]


def kernels_in_memory() -> int:
    """How many modules this process has loaded."""
    return len(_modules)


def _address(module: Mapping[str, int], text: KernelText) -> int:
    try:
        return module[text.name]
    except KeyError:
        raise KeyError(f"the kernel text exports {', '.join(module) or 'nothing'} and not {text.name!r}") from None


def _get_modules(texts: Sequence[str]) -> list[Mapping[str, int]]:
    code_key = config.code_key()
    missing = [text for text in dict.fromkeys(texts) if (code_key, text) not in _modules]
    counters["kernel_memory_hits"] += len(texts) - len(missing)
    if missing:
        with _lock:
            _load_missing(code_key, missing)
    return [_modules[code_key, text] for text in texts]


def _load_missing(code_key: tuple[int, ...], texts: Sequence[str]) -> None:
    toolchain = _toolchain(code_key)
    jobs = [_Job(text, disk_cache.key(text.encode(), toolchain)) for text in texts if (code_key, text) not in _modules]
    started = time.perf_counter()
    images: dict[_Job, Image] = {}
    for job in jobs:
        if job.key in _by_key:
            _modules[code_key, job.text] = _by_key[job.key]
            continue
        image = _read(job)
        if image is not None:
            images[job] = image
    jobs = [job for job in jobs if (code_key, job.text) not in _modules]
    counters["kernel_disk_hits"] += len(images)
    if images:
        events.emit("kernel_load", kernels=len(images), milliseconds=(time.perf_counter() - started) * 1e3)
    images.update(_compile([job for job in jobs if job not in images]))
    # A module counts as present only once it is loaded, so that a failure leaves nothing half done.
    loaded = object_loader.load([images[job] for job in jobs])
    for job, symbols in zip(jobs, loaded, strict=True):
        _modules[code_key, job.text] = symbols
        _by_key[job.key] = symbols


def _read(job: _Job) -> Image | None:
    data = disk_cache.get(_NAMESPACE, job.key)
    if data is None:
        return None
    try:
        return Image.from_bytes(data)
    except CorruptObject:
        disk_cache.discard(_NAMESPACE, job.key)
        return None


def _compile(jobs: Sequence[_Job]) -> dict[_Job, Image]:
    if not jobs:
        return {}
    started = time.perf_counter()
    objects = llvm_driver.compile_modules([job.text for job in jobs])
    images = {job: object_loader.link(data) for job, data in zip(jobs, objects, strict=True)}
    milliseconds = (time.perf_counter() - started) * 1e3
    counters["kernel_compiles"] += len(jobs)
    for job, image in images.items():
        disk_cache.put(_NAMESPACE, job.key, image.to_bytes())
        _report(job, image)
    events.emit("kernel_compile", kernels=len(jobs), milliseconds=milliseconds)
    return images


def _report(job: _Job, image: Image) -> None:
    if events.enabled("kernel_text"):
        events.emit("kernel_text", names=", ".join(image.exports), text=job.text)
    if config.debug >= 6:
        events.emit("assembly", names=", ".join(image.exports), text=llvm_driver.assembly(job.text))


thread_pool.set_loader(get_symbols)
library.set_loader(get_symbols)
