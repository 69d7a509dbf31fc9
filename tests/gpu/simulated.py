"""A GPU that is not there: memory of the host, and kernels run by Triton's interpreter (TRITON_INTERPRET=1), one program after another.

It stands in for the driver below `flambeau.runtime.cuda`, so that everything above runs as it does on a GPU.
"""

from __future__ import annotations

import ctypes
import sys
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from flambeau.compilation import cuda_program
from flambeau.compilation.triton_driver import Cubin, Variant
from flambeau.runtime.cuda import device, driver
from tests.gpu.interpreted import run_text

CANARY = 64
PATTERN = 0xA5


class SimulatedDriver:
    """The calls of `driver.Driver`. Every block is filled with a pattern and guarded at both ends."""

    def __init__(self) -> None:
        self.blocks: dict[int, np.ndarray] = {}
        self.variants: list[Variant] = []

    def device_count(self) -> int:
        return 1

    def device_name(self, number: int) -> str:
        return "Simulated GPU"

    def capability(self, number: int) -> tuple[int, int]:
        return 9, 0

    def processors(self, number: int) -> int:
        return 1

    def retain_context(self, number: int) -> int:
        return 1

    def set_context(self, context: int) -> None:
        assert context == 1

    def memory_info(self) -> tuple[int, int]:
        return 1 << 30, 1 << 30

    def allocate(self, nbytes: int) -> int:
        if nbytes > 1 << 30:
            raise driver.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {nbytes / 2**20:.2f} MiB.")
        block = np.full(nbytes + 2 * CANARY + 256, PATTERN, np.uint8)
        address = (block.ctypes.data + CANARY + 255) & ~255
        self.blocks[address] = block
        return address

    def free(self, address: int) -> None:
        del self.blocks[address]

    def check_guards(self) -> None:
        """Nothing was written before a block."""
        for address, block in self.blocks.items():
            before = block[: address - block.ctypes.data]
            assert (before == PATTERN).all(), "a kernel wrote before its buffer"

    def allocate_host(self, nbytes: int) -> int:
        return self.allocate(nbytes)

    def copy_in(self, target: int, source: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)

    copy_out = copy_within = copy_in

    def fill(self, target: int, value: int, nbytes: int, stream: int) -> None:
        ctypes.memset(target, value, nbytes)

    def new_stream(self) -> int:
        return 7

    def synchronize(self, stream: int) -> None:
        assert stream == 7

    def new_event(self) -> int:
        return 1

    def record(self, event: int, stream: int) -> None:
        assert event == 1

    def wait(self, event: int) -> None:
        assert event == 1

    def happened(self, event: int) -> bool:
        return True

    def milliseconds(self, first: int, then: int) -> float:
        return 0.0

    def destroy_event(self, event: int) -> None:
        assert event == 1

    def load_function(self, code: bytes, name: str, shared: int) -> int:
        assert self.variants[int(code)].text.name == name
        return int(code)

    def registers(self, handle: int) -> int:
        return 32

    def launcher(self) -> Any:
        return self.launch

    def check_launch(self, code: int) -> None:
        assert not code

    def launch(self, handle: int, x: int, y: int, z: int, threads: int, ty: int, tz: int, shared: int, stream: int, pointers: int,
               extra: None) -> int:  # fmt: skip
        """Run the programs of a grid."""
        variant = self.variants[handle]
        count = len(variant.signature)
        addresses = (ctypes.c_void_p * count).from_address(pointers)
        values = [ctypes.c_int64.from_address(a or 0).value for a in addresses]
        for (name, kind), value in zip(variant.signature, values, strict=True):
            if name in variant.aligned:
                assert value % 16 == 0, f"{name} of {kind} was said to be a multiple of 16"
        before = sys.getprofile()
        sys.setprofile(None)  # a capture must not see the interpreter at work
        try:
            run_text(variant.text, variant.signature, values, dict(variant.constants), variant.index, (x, y))
        finally:
            sys.setprofile(before)
        return 0

    def cubin(self, variant: Variant) -> Cubin:
        """In place of machine code, the number of the variant."""
        self.variants.append(variant)
        return Cubin(str(len(self.variants) - 1).encode(), variant.text.name, 0, variant.warps, 0)


def _pass_for_flambeau() -> None:
    """A capture watches what the user's program calls; the driver is none of that, so the code here passes for generated code."""
    globals()["__name__"] = "flambeau.simulated"
    for method in vars(SimulatedDriver).values():
        if isinstance(method, FunctionType):
            method.__code__ = _renamed(method.__code__)


def _renamed(code: CodeType) -> CodeType:
    constants = tuple(_renamed(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename="<simulated GPU>", co_consts=constants)


def install() -> SimulatedDriver:
    """Let this process find a simulated GPU."""
    _pass_for_flambeau()
    simulated = SimulatedDriver()
    driver.use(simulated)
    device.forget_devices()
    cuda_program.get_cubin = simulated.cubin
    return simulated
