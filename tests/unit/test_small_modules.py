"""Modules that programs import and that do little: futures, DLPack, settings of back ends, devices."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import flambeau as torch


def test_futures():
    later: torch.futures.Future[int] = torch.futures.Future()
    after, seen = later.then(lambda f: f.value() + 1), []
    later.add_done_callback(lambda f: seen.append(f.value()))
    assert not later.done()
    with pytest.raises(RuntimeError, match="not completed"):
        later.value()
    threading.Timer(0.01, later.set_result, (4,)).start()
    assert after.wait() == 5 and later.wait() == 4 and seen == [4]
    with pytest.raises(RuntimeError, match="complete again"):
        later.set_result(1)
    bad: torch.futures.Future[int] = torch.futures.Future()
    failed = bad.then(lambda f: f.value())
    bad.set_exception(ValueError("no value"))
    for future in (bad, failed):
        with pytest.raises(ValueError, match="no value"):
            future.wait()
    parts = [torch.futures.Future() for _ in range(3)]
    whole = torch.futures.collect_all(parts)
    for i, part in enumerate(parts):
        assert not whole.done()
        part.set_result(i)
    assert torch.futures.wait_all(whole.wait()) == [0, 1, 2] and torch.futures.collect_all([]).done()


def test_dlpack_functions():
    x = torch.arange(3.0)
    back = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    back[0] = 7.0
    assert x.tolist() == [7.0, 1.0, 2.0]
    assert torch.utils.dlpack.from_dlpack(np.ones(2)).tolist() == [1.0, 1.0]


def test_settings_of_back_ends():
    backends = torch.backends
    with backends.cuda.sdp_kernel(enable_flash=False, enable_math=True):
        assert not backends.cuda.flash_sdp_enabled() and backends.cuda.math_sdp_enabled()
    assert backends.cuda.flash_sdp_enabled()
    backends.cuda.enable_flash_sdp(False)
    assert not backends.cuda.flash_sdp_enabled()
    backends.cuda.enable_flash_sdp(True)
    with backends.cudnn.flags(enabled=False, benchmark=True):
        assert backends.cudnn.benchmark and not backends.cudnn.enabled
    assert backends.cudnn.enabled and not backends.cudnn.benchmark
    with backends.mkldnn.flags(enabled=False), backends.mkl.verbose(backends.mkl.VERBOSE_ON):
        pass
    available = [b.is_available() for b in (backends.mkl, backends.mkldnn, backends.openmp, backends.opt_einsum)]
    assert available == [False] * 4 and backends.quantized.engine in backends.quantized.supported_engines


def test_devices():
    assert torch.cpu.is_available() and torch.cpu.device_count() == 1 and torch.cpu.current_device() == "cpu"
    torch.cpu.synchronize()
    with torch.cpu.stream(torch.cpu.current_stream()) as stream:
        assert stream is None
    found = torch.accelerator.current_accelerator()
    assert torch.accelerator.is_available() == (found is not None) == (torch.accelerator.device_count() > 0)
    torch.accelerator.synchronize()
