"""``flambeau cache`` counts and removes the entries of the disk cache, and nothing else in its folder."""

from __future__ import annotations

from pathlib import Path

from flambeau.core.config import config
from flambeau.runtime import disk_cache
from tests.unit.command_line import flambeau


def test_info_and_clear(tmp_path: Path) -> None:
    folder = tmp_path / "cache"

    def command(task: str) -> str:
        run = flambeau(tmp_path, "cache", task, FLAMBEAU_CACHE_DIR=str(folder), FLAMBEAU_CACHE_SIZE="64")
        assert run.returncode == 0, run.stderr
        return run.stdout

    # The command itself keeps its native code there.
    own = int(command("info").partition(" entries")[0].split()[-1])
    with config.override(cache_dir=str(folder)):
        disk_cache.put("kernels", disk_cache.key("one"), b"1" * 2**20)
        disk_cache.put("programs", disk_cache.key("two"), b"2" * 2**20)
    (folder / "kernels" / "notes.txt").write_text("not an entry", encoding="utf-8")

    assert command("info").startswith(f"{folder}: {own + 2} entries, 2.")
    assert command("clear").startswith(f"{folder}: removed {own + 2} entries, 2.")
    assert command("info").startswith(f"{folder}: {own} entries, 0.")
    assert (folder / "kernels" / "notes.txt").exists()


def test_info_says_when_the_cache_is_off(tmp_path: Path) -> None:
    run = flambeau(tmp_path, "cache", "info", FLAMBEAU_CACHE_DIR=str(tmp_path / "none"), FLAMBEAU_CACHE="off")
    assert "(switched off by FLAMBEAU_CACHE): 0 entries" in run.stdout
