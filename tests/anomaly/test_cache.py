"""The disk cache when files are damaged, the folder is not ours, the disk is full, or several processes fill it at once."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from flambeau.compilation import kernel_cache
from flambeau.compilation.kernel_cache import KernelText, get_kernels
from flambeau.core.config import config
from flambeau.core.events import counters
from flambeau.runtime import disk_cache

TEXTS = [KernelText(f"define i64 @answer() {{\n  ret i64 {number}\n}}\n", "answer") for number in range(4)]


def _forget_kernels(monkeypatch) -> None:
    monkeypatch.setattr(kernel_cache, "_modules", {})
    monkeypatch.setattr(kernel_cache, "_by_key", {})


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, with nothing loaded and no warning given so far."""
    monkeypatch.setattr(disk_cache, "_state", disk_cache._State())
    monkeypatch.setattr(kernel_cache, "_modules", {})
    monkeypatch.setattr(kernel_cache, "_by_key", {})
    folder = tmp_path / "cache"
    with config.override(cache_dir=str(folder), cache=True):
        yield folder


def load(monkeypatch) -> dict[str, int]:
    """Load all kernels as a fresh process would; the counters of that."""
    monkeypatch.setattr(kernel_cache, "_modules", {})
    monkeypatch.setattr(kernel_cache, "_by_key", {})
    counters.reset()
    import ctypes

    answers = [ctypes.CFUNCTYPE(ctypes.c_int64)(kernel.address)() for kernel in get_kernels(TEXTS)]
    assert answers == [0, 1, 2, 3]
    return counters.snapshot()


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "kernels").iterdir())


def test_second_load_compiles_nothing(cache, monkeypatch):
    assert load(monkeypatch)["kernel_compiles"] == 4
    warm = load(monkeypatch)
    assert warm.get("kernel_compiles", 0) == 0 and warm["kernel_disk_hits"] == 4
    assert len(entries(cache)) == 4


def test_folder_and_files_are_private(cache, monkeypatch):
    load(monkeypatch)
    assert [oct(path.stat().st_mode & 0o777) for path in (cache, cache / "kernels")] == ["0o700", "0o700"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in entries(cache))


def damage_first_byte(path: Path) -> None:
    path.write_bytes(b"X" + path.read_bytes()[1:])


def damage_last_byte(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def swap_with_another(path: Path) -> None:
    other = next(entry for entry in path.parent.iterdir() if entry != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [damage_first_byte, damage_last_byte, cut_short, empty, lengthen, swap_with_another])
def test_damaged_entries_are_made_again(cache, monkeypatch, damage):
    load(monkeypatch)
    for path in entries(cache)[:2]:
        damage(path)
    with pytest.warns(RuntimeWarning, match="damaged entry") as caught:
        again = load(monkeypatch)
    assert len(caught) == 1
    assert (again["kernel_compiles"], again["kernel_disk_hits"], again["cache_corrupt_entries"]) == (2, 2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        healed = load(monkeypatch)
    assert healed["kernel_disk_hits"] == 4


def test_entry_with_a_good_checksum_and_bad_content(cache, monkeypatch):
    load(monkeypatch)
    name = entries(cache)[0].name
    disk_cache.put("kernels", name, b"no image at all")
    with pytest.warns(RuntimeWarning, match="damaged entry"):
        again = load(monkeypatch)
    assert (again["kernel_compiles"], again["kernel_disk_hits"]) == (1, 3)


def test_folder_that_cannot_be_made(cache, monkeypatch):
    cache.write_text("a file where the folder should be")
    with pytest.warns(RuntimeWarning, match="cannot use its cache folder") as caught:
        assert load(monkeypatch)["kernel_compiles"] == 4
        assert load(monkeypatch)["kernel_compiles"] == 4
    assert len(caught) == 1


def test_folder_open_to_others_is_not_used(cache, monkeypatch):
    load(monkeypatch)
    cache.chmod(0o755)
    monkeypatch.setattr(disk_cache, "_state", disk_cache._State())
    with pytest.warns(RuntimeWarning, match="open to other users"):
        assert load(monkeypatch)["kernel_compiles"] == 4


def test_folder_of_another_user_is_not_used(cache, monkeypatch):
    load(monkeypatch)
    monkeypatch.setattr(disk_cache, "_state", disk_cache._State())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert load(monkeypatch)["kernel_compiles"] == 4


def test_full_disk(cache, monkeypatch):
    def write(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", write)
    with pytest.warns(RuntimeWarning, match="No space left on device") as caught:
        assert load(monkeypatch)["kernel_compiles"] == 4
        assert load(monkeypatch)["kernel_compiles"] == 4
    assert len(caught) == 1
    assert entries(cache) == []


def test_disk_that_takes_a_little_at_a_time(cache, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:50]))
    load(monkeypatch)
    assert load(monkeypatch)["kernel_disk_hits"] == 4


def test_folder_removed_while_running(cache, monkeypatch):
    load(monkeypatch)
    shutil.rmtree(cache)
    with pytest.warns(RuntimeWarning, match="cannot write to its cache folder"):
        assert load(monkeypatch)["kernel_compiles"] == 4


def test_unreadable_entry(cache, monkeypatch):
    load(monkeypatch)
    path = entries(cache)[0]
    path.unlink()
    path.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot (read|write)"):
        again = load(monkeypatch)
    assert (again["kernel_compiles"], again["kernel_disk_hits"]) == (1, 3)


def test_cache_can_be_off(cache, monkeypatch):
    with config.override(cache=False):
        assert load(monkeypatch)["kernel_compiles"] == 4
        assert load(monkeypatch)["kernel_compiles"] == 4
    assert not cache.exists()


def test_settings_that_change_code_have_entries_of_their_own(cache, monkeypatch):
    load(monkeypatch)
    with config.override(opt_level=1):
        assert load(monkeypatch)["kernel_compiles"] == 4
    assert load(monkeypatch)["kernel_disk_hits"] == 4


def test_oldest_entries_go_first(cache):
    names = [disk_cache.key(number) for number in range(10)]
    for number, name in enumerate(names):
        disk_cache.put("things", name, bytes(1000))
        os.utime(cache / "things" / name, (number, number))
    stranger = cache / "things" / "notes.txt"
    stranger.write_bytes(bytes(9000))
    disk_cache.trim(6000)
    left = {path.name for path in (cache / "things").iterdir()}
    assert left == {*names[5:], "notes.txt"}
    assert disk_cache.get("things", names[9]) == bytes(1000) and disk_cache.get("things", names[4]) is None
    disk_cache.clear()
    assert list((cache / "things").iterdir()) == [stranger]


def test_cap_is_kept_while_writing(cache, monkeypatch):
    monkeypatch.setattr(disk_cache, "_CHECK_EVERY", 100_000)
    with config.override(cache_mebibytes=1):
        for number in range(60):
            disk_cache.put("things", disk_cache.key(number), bytes(50_000))
    total = sum(path.stat().st_size for path in (cache / "things").iterdir())
    assert total <= (1 << 20) + 100_000 + 50_100


def test_keys_tell_parts_apart():
    keys = {disk_cache.key(*parts) for parts in [("ab", "c"), ("a", "bc"), ("abc",), (b"abc",), (1, 2), ((1, 2),), (12,), ("1", "2")]}
    assert len(keys) == 8
    assert disk_cache.key("ab", 1) == disk_cache.key("ab", 1)
    assert disk_cache.source_epoch() == disk_cache.source_epoch() and len(disk_cache.source_epoch()) == 64


FILL = """
import ctypes, sys
from pathlib import Path
from flambeau.compilation.kernel_cache import KernelText, get_kernels
from flambeau.core.events import counters
before = counters["kernel_compiles"], counters["kernel_disk_hits"]  # the package's own native parts
texts = [KernelText(f"define i64 @answer() {{ ret i64 {n} }}", "answer") for n in range(20)]
answers = [ctypes.CFUNCTYPE(ctypes.c_int64)(kernel.address)() for kernel in get_kernels(texts)]
assert answers == list(range(20))
mapped = "libllvmlite" in Path("/proc/self/maps").read_text()
print(counters["kernel_compiles"] - before[0], counters["kernel_disk_hits"] - before[1], "llvmlite" in sys.modules, mapped)
"""


PROGRAM = """
import sys
import flambeau as torch
x = torch.ones(3, 5)
print(torch.softmax(x, 1).sum().item(), torch.compile(lambda x: (x @ x.t()).relu())(x)[0, 0].item(), end=" ")
for n in range(2, 6):  # sizes that the same program is bound to
    torch.randn(n, 5)
    (x[:n, :n] + 1).sum()
print(any(name.startswith(("flambeau.codegen.cpu.loops", "flambeau.templates")) for name in sys.modules))
"""


def start(program: str, folder: Path) -> subprocess.Popen[str]:
    paths = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "FLAMBEAU_CACHE_DIR": str(folder), "PYTHONPATH": paths, "FLAMBEAU_CACHE": "on"}
    return subprocess.Popen([sys.executable, "-W", "error", "-c", program], stdout=subprocess.PIPE, text=True, env=environment)


def test_two_processes_fill_the_cache_at_once_and_a_third_needs_no_llvm(tmp_path):
    folder = tmp_path / "shared"
    both = [start(FILL, folder) for _ in range(2)]
    for process in both:
        out, _ = process.communicate(timeout=120)
        compiles, hits, imported, mapped = out.split()
        assert process.returncode == 0 and int(compiles) + int(hits) == 20 and imported == "False"
    out, _ = start(FILL, folder).communicate(timeout=120)
    assert out.split() == ["0", "20", "False", "False"]
    assert not [path for path in (folder / "kernels").iterdir() if path.name.endswith(".tmp")]


def test_a_second_process_emits_nothing(tmp_path):
    folder = tmp_path / "programs"
    cold, warm = (start(PROGRAM, folder).communicate(timeout=120)[0].split() for _ in range(2))
    assert cold == ["3.0", "5.0", "True"]
    assert warm == ["3.0", "5.0", "False"]
