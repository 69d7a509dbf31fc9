"""The LLVM driver, the object loader and the kernel cache in memory."""

from __future__ import annotations

import ctypes
import struct
import threading

import numpy as np
import pytest

from flambeau.compilation import llvm_driver
from flambeau.compilation.kernel_cache import KernelText, get_kernel, get_kernels, get_symbols
from flambeau.core.config import config
from flambeau.core.events import counters, subscribe
from flambeau.runtime import object_loader
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.runtime.object_loader import CorruptObject, Image
from tests.kernel_texts import ADD_STEP, SINE

VARIABLES = """
@counter = internal global i64 40, align 64
@zeros = internal global [100 x i64] zeroinitializer, align 64
@self = internal global ptr @counter, align 8
define i64 @count() {
  %at = load ptr, ptr @self
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %zero.at = getelementptr [100 x i64], ptr @zeros, i64 0, i64 99
  %zero = load i64, ptr %zero.at
  store i64 1, ptr %zero.at
  %sum = add i64 %new, %zero
  ret i64 %sum
}
"""


def variant(number: int) -> str:
    return f"define i64 @answer() {{\n  ret i64 {number}\n}}\n"


def call(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()


def test_prototypes_match_llvmlites_own():
    from llvmlite.binding import ffi

    opaque = (ctypes.c_void_p, ctypes.c_char_p)
    for name, (result, arguments) in llvm_driver.PROTOTYPES.items():
        own = getattr(ffi.lib, name)
        if own.argtypes is not None:
            assert len(own.argtypes) == len(arguments), name
            for theirs, ours in zip(own.argtypes, arguments, strict=True):
                assert ctypes.sizeof(theirs) == ctypes.sizeof(ours), name
                if theirs in opaque:
                    assert ours in opaque, name
        if result is not None:
            assert ctypes.sizeof(own.restype) == ctypes.sizeof(result), name


def test_version_is_llvmlites():
    from importlib.metadata import version

    assert llvm_driver.llvm_version() == version("llvmlite")


def test_compiled_in_parallel_as_one_by_one():
    texts = [variant(number) for number in range(12)] + [ADD_STEP, SINE]
    with config.override(threads=4):
        together = llvm_driver.compile_modules(texts)
    assert together == [llvm_driver.compile_modules([text])[0] for text in texts]


def test_refused_text_shows_the_line():
    bad = ADD_STEP.replace("add i64 %old, %step", "add i32 %old, %step")
    line = next(number for number, text in enumerate(bad.splitlines(), 1) if "add i32" in text)
    with pytest.raises(llvm_driver.InternalCompilerError, match="fault in flambeau") as caught:
        llvm_driver.compile_modules([variant(1), bad, variant(2)])
    assert f"line {line}," in str(caught.value) and "> " in str(caught.value)
    # The driver still works.
    assert llvm_driver.compile_modules([variant(1)])[0][:4] == b"\x7fELF"


def test_text_that_parses_but_is_wrong_is_refused():
    loop_to_entry = "define void @k() {\nentry:\n  br label %entry\n}\n"
    with pytest.raises(llvm_driver.InternalCompilerError, match="Entry block"):
        llvm_driver.compile_modules([loop_to_entry])


@pytest.mark.skipif(config.vector_bits not in (0, 512), reason="another vector width is set")
def test_wide_vectors_use_wide_registers():
    from flambeau.core import cpu

    if cpu.vector_bits() != 512:
        pytest.skip("no AVX-512 here")
    text = "define <16 x float> @k(<16 x float> %x) {\n  %y = fadd <16 x float> %x, %x\n  ret <16 x float> %y\n}\n"
    assert "zmm" in llvm_driver.assembly(text)


def test_kernel_runs_and_calls_libm():
    x = np.random.default_rng().uniform(-9, 9, 8)
    expected = np.sin(x)
    kernel = get_kernel(KernelText(SINE, "sine"))
    tasks = TaskArray()
    tasks.add(kernel.address, [0, 1, x.ctypes.data], chunks=8, wave=0)
    run_tasks(tasks)
    np.testing.assert_allclose(x, expected, rtol=1e-15)


def test_constants_and_variables_are_loaded():
    symbols = get_symbols(VARIABLES)
    assert [call(symbols["count"]) for _ in range(3)] == [41, 43, 44]


def test_same_text_is_compiled_once():
    text = variant(np.random.default_rng().integers(1 << 60))
    before = counters.snapshot()
    first, second = get_kernels([KernelText(text, "answer"), KernelText(text, "answer")])
    third = get_kernel(KernelText(text, "answer"))
    assert first.address == second.address == third.address
    assert counters["kernel_compiles"] - before.get("kernel_compiles", 0) == 1
    assert counters["kernel_memory_hits"] > before.get("kernel_memory_hits", 0)


def test_threads_may_ask_at_once():
    texts = [variant(int(number)) for number in np.random.default_rng().integers(1 << 60, size=6)]
    answers: list[list[int]] = []

    def ask():
        answers.append([call(kernel.address) for kernel in get_kernels([KernelText(text, "answer") for text in texts])])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [int(text.split("ret i64 ")[1].split()[0]) for text in texts]
    assert answers == [expected] * 4


def test_missing_export_and_missing_symbol():
    with pytest.raises(KeyError, match="not 'question'"):
        get_kernel(KernelText(variant(3), "question"))
    with pytest.raises(KeyError, match="surely_nowhere"):
        get_symbols("declare void @surely_nowhere()\ndefine void @k() {\n  call void @surely_nowhere()\n  ret void\n}\n")


def test_symbols_can_be_given():
    callback = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: 1234)
    text = "declare i64 @given()\ndefine i64 @k() {\n  %r = call i64 @given()\n  ret i64 %r\n}\n"
    image = object_loader.link(llvm_driver.compile_modules([text])[0])
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert call(object_loader.load([image], {"given": address})[0]["k"]) == 1234


def test_addresses_of_outside_functions_and_tables():
    # The first takes an address through the global offset table, the second through absolute addresses in a constant.
    text = """
declare double @cos(double)
@table = internal constant [2 x ptr] [ptr @cos, ptr @one]
define internal double @one(double %x) {
  ret double 1.0
}
define ptr @address() {
  ret ptr @cos
}
define double @through(i64 %i, double %x) {
  %at = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i
  %f = load ptr, ptr %at
  %r = call double %f(double %x)
  ret double %r
}
"""
    symbols = get_symbols(text)
    address = ctypes.CFUNCTYPE(ctypes.c_void_p)(symbols["address"])()
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(0.0) == 1.0
    through = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(symbols["through"])
    assert through(0, 0.5) == np.cos(0.5) and through(1, 0.5) == 1.0


def test_code_is_not_writable():
    address = get_kernel(KernelText(variant(17), "answer")).address
    counted = get_symbols(VARIABLES)["count"]
    with open("/proc/self/maps", encoding="ascii") as file:
        spans = [(*(int(part, 16) for part in line.split()[0].split("-")), line.split()[1]) for line in file]
    for wanted in (address, counted):
        assert [mode[:3] for start, end, mode in spans if start <= wanted < end] == ["r-x"]


def test_images_survive_bytes():
    for text in (ADD_STEP, SINE, VARIABLES):
        image = object_loader.link(llvm_driver.compile_modules([text])[0])
        assert Image.from_bytes(image.to_bytes()) == image


def test_malformed_objects_are_refused():
    data = llvm_driver.compile_modules([SINE])[0]
    for broken in (b"", data[:20], data[:70], data[:-100], b"not an object" * 20, data[:18] + struct.pack("<H", 183) + data[20:]):
        with pytest.raises(CorruptObject):
            object_loader.link(broken)


def test_damaged_objects_never_crash_the_linker():
    data = llvm_driver.compile_modules([SINE])[0]
    random = np.random.default_rng(5)
    refused = 0
    for _ in range(300):
        broken = bytearray(data)
        for position in random.integers(0, len(data), 3):
            broken[position] = random.integers(256)
        try:
            assert isinstance(object_loader.link(bytes(broken)), Image)
        except CorruptObject:
            refused += 1
    assert refused > 0


def test_damaged_images_are_refused():
    data = object_loader.link(llvm_driver.compile_modules([SINE])[0]).to_bytes()
    for broken in (b"", data[:10], data[:-1], data + b"x", b"XXXX" + data[4:]):
        with pytest.raises(CorruptObject):
            Image.from_bytes(broken)


def test_events_tell_of_compiles():
    seen = []
    unsubscribe = subscribe(lambda kind, fields: seen.append((kind, fields)))
    try:
        get_kernel(KernelText(variant(int(np.random.default_rng().integers(1 << 60))), "answer"))
    finally:
        unsubscribe()
    kinds = [kind for kind, _ in seen]
    assert "kernel_compile" in kinds and "kernel_text" in kinds
