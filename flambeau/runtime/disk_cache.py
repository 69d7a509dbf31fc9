"""A folder of compiled artifacts that outlives the process: private, checked, bounded, and never a reason to fail.

Every entry is one file, written under another name and then renamed, so that a reader sees all of it or nothing and two
processes may fill the cache at once. A file that is damaged counts as missing. When the folder cannot be used, one warning is
given and everything goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import threading
import warnings
from functools import cache

from flambeau.core import events
from flambeau.core.config import config

__all__ = ["clear", "entries", "folder", "get", "key", "put", "source_epoch", "used"]

_MAGIC = b"FLC1"
_HEADER = struct.Struct("<4sQ16s")
# How much is written between two looks at the size of the whole folder.
_CHECK_EVERY = 32 << 20
# A key, or a key that is being written: nothing else is ever removed, should the setting name a folder with other things in it.
_ENTRY_NAME = re.compile(r"[0-9a-f]{64}(\.\d+\.\d+\.tmp)?$")


class _State:
    """What this process knows about its cache folder."""

    def __init__(self) -> None:
        self.warned: set[str] = set()
        self.ready: dict[str, bool] = {}
        self.unchecked_bytes = 0
        self.used: dict[tuple[str, str], None] = {}  # namespace and name of what was found or kept
        self.lock = threading.Lock()


_state = _State()


def _forget_lock() -> None:
    _state.lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def key(*parts: object) -> str:
    """A name for an entry, made from everything that it depends on (strings, bytes, numbers and tuples of them).

    >>> from flambeau.runtime import disk_cache
    >>> len(disk_cache.key("text of a kernel", (0, 2)))
    64
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


@cache
def source_epoch() -> str:
    """A digest of flambeau's own source files: artifacts that depend on how flambeau works put it in their key.

    It is made of what they hold, so that a copy elsewhere has the same; times and sizes only tell whether that was read before.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    seen, paths = hashlib.sha256(root.encode()), []
    for parent, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(parent, name)
                status = os.stat(path)
                paths.append(path)
                seen.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    known = get("epochs", seen.hexdigest())
    if known is not None:
        return known.decode()
    contents = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            text = file.read()
        contents.update(f"{os.path.relpath(path, root)} {len(text)}\n".encode() + text)
    put("epochs", seen.hexdigest(), contents.hexdigest().encode())
    return contents.hexdigest()


def folder(namespace: str) -> str:
    """Where the entries of `namespace` are kept."""
    return os.path.join(config.cache_dir, namespace)


def _warn_once(reason: str, message: str) -> None:
    events.emit("cache_warning", reason=reason, message=message)
    if reason not in _state.warned:
        _state.warned.add(reason)
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def _is_private(path: str) -> bool:
    status = os.stat(path)
    if status.st_uid != os.geteuid():
        _warn_once("unusable", f"flambeau's cache folder {path} belongs to another user and is not used; "
                   "set FLAMBEAU_CACHE_DIR to a folder of your own.")
        return False
    if stat.S_IMODE(status.st_mode) & 0o077:
        # Somebody else could have put code into it, so what is there is not trusted even after the modes are corrected.
        _warn_once("unusable", f"flambeau's cache folder {path} is open to other users and is not used; remove it, or run "
                   f"'chmod 700 {path}' if only you have written to it.")
        return False
    return True


def _prepare(namespace: str) -> bool:
    """Make sure that the folder is there and is ours alone; True when the disk cache may be used."""
    path = folder(namespace)
    ready = _state.ready.get(path)
    if ready is None:
        try:
            os.makedirs(os.path.dirname(config.cache_dir) or "/", exist_ok=True)
            for part in (config.cache_dir, path):
                if not os.path.isdir(part):
                    os.makedirs(part, mode=0o700, exist_ok=True)
            ready = _is_private(config.cache_dir) and _is_private(path)
        except OSError as error:
            ready = False
            _warn_once("unusable", f"flambeau cannot use its cache folder {path} ({error.strerror}); it goes on without, so kernels "
                       "are compiled again in every process. Set FLAMBEAU_CACHE_DIR to a folder that can be written.")
        _state.ready[path] = ready
    return ready


def get(namespace: str, name: str) -> bytes | None:
    """The entry `name` (a `key`), or None when there is none, it is damaged, or the disk cache is off."""
    if not config.cache or not _prepare(namespace):
        return None
    path = os.path.join(folder(namespace), name)
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn_once("unreadable", f"flambeau cannot read {path} from its cache ({error.strerror}); it is made again.")
        return None
    if len(data) >= _HEADER.size:
        magic, size, checksum = _HEADER.unpack_from(data)
        payload = data[_HEADER.size:]
        if magic == _MAGIC and size == len(payload) and _checksum(name, payload) == checksum:
            _state.used[namespace, name] = None
            return payload
    discard(namespace, name)
    return None


def discard(namespace: str, name: str) -> None:
    """Remove an entry that turned out to be damaged, with one warning a process."""
    path = os.path.join(folder(namespace), name)
    events.counters["cache_corrupt_entries"] += 1
    _warn_once("corrupt", f"flambeau found the damaged entry {path} in its cache; it is made again.")
    try:
        os.unlink(path)
    except OSError:
        # It will be replaced when the artifact is made again; failing to remove it loses nothing.
        events.emit("cache_warning", reason="corrupt", message=f"cannot remove {path}")


def _checksum(name: str, payload: bytes) -> bytes:
    # The name goes in, so that a file under a wrong name is not taken for what it is not.
    return hashlib.blake2b(payload, digest_size=16, key=name.encode()[:64]).digest()


def put(namespace: str, name: str, payload: bytes) -> None:
    """Keep `payload` as the entry `name` (a `key`). Never raises for reasons of the disk: one warning, and it is not kept."""
    if not config.cache or not _prepare(namespace):
        return
    path = os.path.join(folder(namespace), name)
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write_all(descriptor, _HEADER.pack(_MAGIC, len(payload), _checksum(name, payload)) + payload)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except OSError as error:
        _warn_once("unwritable", f"flambeau cannot write to its cache folder {folder(namespace)} ({error.strerror}); it goes on without. "
                   "Free space there, or set FLAMBEAU_CACHE_DIR to another folder.")
        _remove_quietly(temporary)
        return
    _state.used[namespace, name] = None
    _account(len(payload) + _HEADER.size)


def used() -> list[tuple[str, str]]:
    """Namespace and name of each entry that this process found in the cache or put there, in order."""
    return [place for place in _state.used if place[0] != "epochs"]


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view):]


def _remove_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        # Nothing was written, or the next trim removes it.
        return


def _account(size: int) -> None:
    with _state.lock:
        _state.unchecked_bytes += size
        if _state.unchecked_bytes < _CHECK_EVERY:
            return
        _state.unchecked_bytes = 0
    trim(config.cache_mebibytes << 20)


def entries() -> list[tuple[float, int, str]]:
    """(time of writing, size in bytes, path) of every entry in the cache; other files in the folder are not ours to list."""
    found: list[tuple[float, int, str]] = []
    for parent, _, files in os.walk(config.cache_dir):
        for name in filter(_ENTRY_NAME.match, files):
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            found.append((status.st_mtime, status.st_size, path))
    return found


def trim(limit: int) -> None:
    """Remove the oldest entries until the whole cache takes at most `limit` bytes."""
    found = entries()
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    # To nine tenths, so that the next few entries do not each bring a walk over the folder.
    target = limit * 9 // 10
    for _, size, path in sorted(found):
        if total <= target:
            break
        _remove_quietly(path)
        total -= size
    events.counters["cache_trims"] += 1


def clear() -> None:
    """Remove all entries."""
    for _, _, path in entries():
        _remove_quietly(path)
