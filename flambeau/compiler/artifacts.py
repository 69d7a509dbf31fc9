"""Compiled kernels and programs as bytes, to be carried to other machines."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass

from flambeau.runtime import disk_cache

__all__ = ["CacheInfo", "load_cache_artifacts", "save_cache_artifacts"]

_PLACE = re.compile(r"([a-z_]+)/([0-9a-f]{64})$")


@dataclass(frozen=True)
class CacheInfo:
    """What bytes of artifacts hold: the names of the entries by kind."""

    artifacts: dict[str, list[str]]

    def empty(self) -> bool:
        """Whether there is nothing in them."""
        return not any(self.artifacts.values())


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """What this process compiled, or found compiled, as bytes for `load_cache_artifacts`; None when there is nothing.

    Entries are named by what they depend on (the graph, flambeau's source, the processor's features, versions), never by paths: on a
    machine of another kind they are simply not found.

    >>> import flambeau as torch
    >>> _ = torch.compile(lambda x: x * 2 + 1)(torch.ones(3))
    >>> found = torch.compiler.save_cache_artifacts()
    >>> found is None or not found[1].empty()  # None with the cache off
    True
    """
    names: dict[str, list[str]] = {}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for namespace, name in disk_cache.used():
            payload = disk_cache.get(namespace, name)
            if payload is not None:
                archive.writestr(zipfile.ZipInfo(f"{namespace}/{name}"), payload)
                names.setdefault(namespace, []).append(name)
    return (packed.getvalue(), CacheInfo(names)) if names else None


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo:
    """Put what `save_cache_artifacts` gave into this machine's cache, before the first call that needs it; tells what it was.

    Like code that is run, the bytes must come from where you trust. RuntimeError when they are not such bytes, or are damaged.
    """
    names: dict[str, list[str]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(serialized_artifacts)) as archive:
            places = [_PLACE.match(name) for name in archive.namelist()]
            if None in places or archive.testzip() is not None:
                raise zipfile.BadZipFile("an entry has a strange name or another checksum")
            for place in places:
                assert place is not None
                disk_cache.put(place[1], place[2], archive.read(place[0]))
                names.setdefault(place[1], []).append(place[2])
    except zipfile.BadZipFile as error:
        text = f"load_cache_artifacts: these are not artifacts that save_cache_artifacts made ({error}); make them again"
        raise RuntimeError(text) from None
    return CacheInfo(names)
