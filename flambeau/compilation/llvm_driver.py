"""Turns LLVM IR text into x86-64 ELF objects; the one module that touches llvmlite.

The library inside llvmlite is driven through prototypes of our own and not through `llvmlite.binding`. Importing that package
costs 50 ms, of which the library itself is 8; and its wrappers hold one lock over every call, so that nothing compiles in
parallel. LLVM needs no such lock as long as each thread has its own context and its own target machine, as here.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import count

from flambeau.core import cpu
from flambeau.core.config import config

__all__ = ["InternalCompilerError", "assembly", "compile_modules", "llvm_version", "target_key"]

_TRIPLE = b"x86_64-unknown-linux-gnu"
_PLEASE_REPORT = "This is a fault in flambeau; please report it."


class InternalCompilerError(RuntimeError):
    """LLVM refused a kernel that flambeau generated: a fault of flambeau, never of the caller."""


@cache
def _llvmlite_folder() -> str:
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("flambeau needs llvmlite to make CPU kernels; install it with 'pip install llvmlite'.")
    return os.path.dirname(spec.origin)


@cache
def llvm_version() -> str:
    """The version of llvmlite, hence of LLVM, read without importing either."""
    with open(os.path.join(_llvmlite_folder(), "_version.py"), encoding="utf-8") as file:
        found = re.search(r"version_version = '([^']+)'", file.read())
    if found:
        return found.group(1)
    # Right for every release, but importing this module costs more than loading all kernels of a program.
    from importlib.metadata import version

    return version("llvmlite")


# Result and arguments of each function of libllvmlite that is used. A test holds them against llvmlite's own.
_P, _S, _I = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_OUT = ctypes.POINTER(ctypes.c_void_p)
PROTOTYPES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "LLVMPY_InitializeNativeTarget": (None, ()),
    "LLVMPY_SetCommandLine": (None, (_S, _S)),
    "LLVMPY_InitializeNativeAsmPrinter": (None, ()),
    "LLVMPY_InitializeNativeAsmParser": (None, ()),
    "LLVMPY_GetTargetFromTriple": (_P, (_S, _OUT)),
    "LLVMPY_CreateTargetMachine": (_P, (_P, _S, _S, _S, _I, _S, _S, _I, _I, _S)),
    "LLVMPY_DisposeTargetMachine": (None, (_P,)),
    "LLVMPY_ContextCreate": (_P, ()),
    "LLVMPY_ContextDispose": (None, (_P,)),
    "LLVMPY_ParseAssembly": (_P, (_P, _S, _OUT)),
    "LLVMPY_VerifyModule": (ctypes.c_bool, (_P, _OUT)),
    "LLVMPY_DisposeModule": (None, (_P,)),
    "LLVMPY_TargetMachineEmitToMemory": (_P, (_P, _P, _I, _OUT)),
    "LLVMPY_GetBufferStart": (_P, (_P,)),
    "LLVMPY_GetBufferSize": (ctypes.c_size_t, (_P,)),
    "LLVMPY_DisposeMemoryBuffer": (None, (_P,)),
    "LLVMPY_DisposeString": (None, (_P,)),
}


class _Library:
    """libllvmlite with typed functions, the target, and target machines that no thread uses at the moment."""

    def __init__(self) -> None:
        library = ctypes.CDLL(os.path.join(_llvmlite_folder(), "binding", "libllvmlite.so"))
        self.functions: dict[str, Callable[..., object]] = {}
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            self.functions[name] = function
        self.call("InitializeNativeTarget")
        self.call("InitializeNativeAsmPrinter")
        self.call("InitializeNativeAsmParser")
        # Loop strength reduction takes half of the compile time and gains nothing: indices are written as increments already.
        self.call("SetCommandLine", b"", b"-disable-lsr")
        message = ctypes.c_void_p()
        self.target = self.call("GetTargetFromTriple", _TRIPLE, ctypes.byref(message))
        if not self.target:
            raise RuntimeError(f"llvmlite has no x86-64 target: {self.take_string(message)}; reinstall llvmlite.")
        self._idle: dict[tuple[str, str, int], list[int]] = {}

    def call(self, name: str, *arguments: object) -> int:
        return self.functions[f"LLVMPY_{name}"](*arguments)  # type: ignore[return-value]

    def take_string(self, pointer: ctypes.c_void_p) -> str:
        """The text that LLVM put behind `pointer`, which is freed and reset."""
        if not pointer.value:
            return ""
        text = ctypes.string_at(pointer.value).decode("utf-8", "replace")
        self.call("DisposeString", pointer)
        pointer.value = None
        return text

    def borrow_machine(self, key: tuple[str, str, int]) -> int:
        """A target machine for (CPU, features, optimisation level) that only this thread uses until it is put back."""
        try:
            return self._idle[key].pop()
        except (KeyError, IndexError):
            name, features, level = key
            machine = self.call("CreateTargetMachine", self.target, _TRIPLE, name.encode(), features.encode(), level,
                                b"pic", b"small", 0, 1, b"")
            if not machine:
                raise RuntimeError(f"LLVM knows no target machine for CPU {name!r} with features {features!r}.") from None
            return machine

    def put_back_machine(self, key: tuple[str, str, int], machine: int) -> None:
        self._idle.setdefault(key, []).append(machine)


_library_lock = threading.Lock()
_library: _Library | None = None


def _after_fork_in_child() -> None:
    # Another thread of the parent may have held the lock.
    global _library_lock
    _library_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _get_library() -> _Library:
    global _library
    with _library_lock:
        if _library is None:
            _library = _Library()
        return _library


def target_key() -> tuple[str, str, int]:
    """The LLVM CPU name, feature string and optimisation level that kernels are compiled for now."""
    features = cpu.cpu_features()
    signs = [("+" if name in features else "-") + name for name in sorted(cpu.known_features())]
    if cpu.vector_bits() == 512:
        # LLVM would split 512-bit vectors in two on most Intel models.
        signs.append("-prefer-256-bit")
    return cpu.cpu_name(), ",".join(signs), config.opt_level


def compile_modules(texts: Sequence[str]) -> list[bytes]:
    """Compile each LLVM IR text to an ELF object, on as many threads as there are cores; results in the order of `texts`.

    Raises `InternalCompilerError` with the offending line when LLVM refuses a text.
    """
    return _emit(texts, as_object=True)


def assembly(text: str) -> str:
    """The assembly that `text` compiles to, for people to read."""
    return _emit([text], as_object=False)[0].decode()


def _emit(texts: Sequence[str], as_object: bool) -> list[bytes]:
    key = target_key()
    library = _get_library()
    results: list[bytes | None] = [None] * len(texts)
    failures: list[BaseException] = []
    # Long modules first, so that no thread starts one when the others are done.
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    ticket = count()

    def work() -> None:
        while not failures and (position := next(ticket)) < len(order):
            index = order[position]
            try:
                results[index] = _emit_one(library, key, texts[index], as_object)
            except BaseException as error:
                failures.append(error)

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(min(config.threads, len(texts)) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
    return [result for result in results if result is not None]


def _emit_one(library: _Library, key: tuple[str, str, int], text: str, as_object: bool) -> bytes:
    message = ctypes.c_void_p()
    context = library.call("ContextCreate")
    module = 0
    machine = library.borrow_machine(key)
    try:
        module = library.call("ParseAssembly", context, text.encode(), ctypes.byref(message))
        if not module:
            raise InternalCompilerError(_explain_refusal(text, library.take_string(message)))
        broken = library.call("VerifyModule", module, ctypes.byref(message))
        report = library.take_string(message)
        if broken:
            raise InternalCompilerError(_explain_refusal(text, report))
        buffer = library.call("TargetMachineEmitToMemory", machine, module, int(as_object), ctypes.byref(message))
        if not buffer:
            raise InternalCompilerError(_explain_refusal(text, library.take_string(message)))
        try:
            return ctypes.string_at(library.call("GetBufferStart", buffer), library.call("GetBufferSize", buffer))
        finally:
            library.call("DisposeMemoryBuffer", buffer)
    finally:
        if module:
            library.call("DisposeModule", module)
        library.call("ContextDispose", context)
        library.put_back_machine(key, machine)


def _explain_refusal(text: str, message: str) -> str:
    lines = text.splitlines()
    found = re.search(r":(\d+):(\d+): error: (.*)", message)
    if found is None:
        return f"LLVM refuses a generated kernel: {message.strip()}\n{_PLEASE_REPORT} The text:\n{text}"
    line, column, reason = int(found.group(1)), int(found.group(2)), found.group(3)
    shown = "\n".join(
        f"{'>' if number == line else ' '} {number:5} | {lines[number - 1]}"
        for number in range(max(1, line - 2), min(len(lines), line + 2) + 1)
    )
    return f"LLVM refuses a generated kernel: line {line}, column {column}: {reason}\n{shown}\n{_PLEASE_REPORT}"
