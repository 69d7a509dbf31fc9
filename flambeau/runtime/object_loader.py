"""Loads machine code from x86-64 ELF objects without LLVM or a linker.

`link` turns an object into an `Image`: all sections laid out in one run of bytes, references inside it resolved (they are
relative, so the image may lie anywhere), and a stub for each function outside. What is left is a short list of absolute
addresses to fill in. Images are what the disk cache keeps. `load` copies them into executable memory.

Memory is never writable and executable at once: images are copied while their pages are writable, then the pages with code
become executable and read-only, and those with variables stay writable.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flambeau.core import cpu
from flambeau.runtime import pages

__all__ = ["CorruptObject", "Image", "link", "load"]


class CorruptObject(ValueError):
    """The bytes are not an object or image that this loader understands; a cache should drop them and compile again."""


_PAGE = mmap.PAGESIZE
_ALIGNMENT = 64
# ELF constants, by the names of the ELF and x86-64 psABI specifications.
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS = 2, 4, 8
_SHF_WRITE, _SHF_ALLOC, _SHF_TLS = 0x1, 0x2, 0x400
_R_64, _R_PC32, _R_PLT32, _R_GOTPCREL, _R_GOTPCRELX, _R_REX_GOTPCRELX, _R_PC64 = 1, 2, 4, 9, 41, 42, 24
_GOT_RELOCATIONS = frozenset({_R_GOTPCREL, _R_GOTPCRELX, _R_REX_GOTPCRELX})
_MAGIC = b"FLI1"


@dataclass(frozen=True, slots=True)
class Image:
    """Machine code ready to be copied anywhere.

    `content` holds the code and constants and then, from `data_start` on (the start of a page when there are any), the
    variables, which go on as zeros up to `size` bytes. `exports` maps a function's name to its offset. `fixups` lists
    8-byte slots: (offset, outside symbol, addend), where the empty symbol stands for the image's own address.
    """

    content: bytes
    data_start: int
    size: int
    exports: Mapping[str, int]
    fixups: tuple[tuple[int, str, int], ...]

    def to_bytes(self) -> bytes:
        """The image as bytes for a file."""
        names = "\0".join([*self.exports, *(symbol for _, symbol, _ in self.fixups)]).encode()
        head = struct.pack("<4sIIIHHI", _MAGIC, len(self.content), self.data_start, self.size, len(self.exports),
                           len(self.fixups), len(names))
        exports = struct.pack(f"<{len(self.exports)}I", *self.exports.values())
        fixups = b"".join(struct.pack("<Iq", offset, addend) for offset, _, addend in self.fixups)
        return head + exports + fixups + names + self.content

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """Read what `to_bytes` made; raises `CorruptObject` on anything else."""
        try:
            magic, content_size, data_start, size, export_count, fixup_count, name_size = struct.unpack_from("<4sIIIHHI", data)
            at = struct.calcsize("<4sIIIHHI")
            offsets = struct.unpack_from(f"<{export_count}I", data, at)
            at += 4 * export_count
            fixups = [struct.unpack_from("<Iq", data, at + 12 * index) for index in range(fixup_count)]
            at += 12 * fixup_count
            names = data[at:at + name_size].decode().split("\0")
        except (struct.error, UnicodeDecodeError) as error:
            raise CorruptObject(f"not a code image: {error}") from None
        content = data[at + name_size:]
        if magic != _MAGIC or len(content) != content_size or len(names) != export_count + fixup_count:
            raise CorruptObject("not a code image of this version, or cut short")
        if any(offset >= size for offset in offsets) or any(offset + 8 > size for offset, _ in fixups):
            raise CorruptObject("a code image points outside itself")
        return cls(content, data_start, size, dict(zip(names, offsets, strict=False)),
                   tuple((offset, name, addend) for (offset, addend), name in zip(fixups, names[export_count:], strict=True)))


@dataclass(frozen=True, slots=True)
class _Section:
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    binding: int
    section: int
    value: int


def _read_sections(data: bytes) -> list[_Section]:
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        raise CorruptObject("not a 64-bit little-endian ELF object")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if (kind, machine) != (1, 62):
        raise CorruptObject(f"not a relocatable x86-64 object (ELF type {kind}, machine {machine})")
    table, = struct.unpack_from("<Q", data, 40)
    entry_size, entries = struct.unpack_from("<HH", data, 58)
    if entry_size != 64 or table + 64 * entries > len(data):
        raise CorruptObject("the section table lies outside the object")
    sections: list[_Section] = []
    for index in range(entries):
        name, kind, flags, _, offset, size, link_, info, alignment, _ = struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * index)
        if kind != _SHT_NOBITS and offset + size > len(data):
            raise CorruptObject(f"section {index} lies outside the object")
        sections.append(_Section(name, kind, flags, offset, size, link_, info, alignment))
    return sections


def _string(data: bytes, table: _Section, offset: int) -> str:
    start = table.offset + offset
    end = data.find(b"\0", start, table.offset + table.size)
    if end < 0:
        raise CorruptObject("a name lies outside its string table")
    return data[start:end].decode()


def _read_symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    for section in sections:
        if section.kind == _SHT_SYMTAB:
            if section.link >= len(sections):
                raise CorruptObject("the symbol table has no string table")
            names = sections[section.link]
            return [
                _Symbol(_string(data, names, name), info >> 4, index, value)
                for name, info, _, index, value, _ in struct.iter_unpack("<IBBHQQ", data[section.offset:section.offset + section.size])
            ]
    raise CorruptObject("the object has no symbol table")


class _Linker:
    """Lays out one object's sections and resolves its references."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sections = _read_sections(data)
        self.symbols = _read_symbols(data, self.sections)
        self.content = bytearray()
        self.places: dict[int, int] = {}
        self.slots: dict[_Symbol, int] = {}
        self.stubs: dict[_Symbol, int] = {}
        self.fixups: list[tuple[int, str, int]] = []

    def _is_loaded(self, section: _Section) -> bool:
        if not section.flags & _SHF_ALLOC or not section.size:
            return False
        if section.flags & _SHF_TLS:
            raise CorruptObject("thread-local variables are not supported")
        # Tables for unwinding: no exception ever passes through a kernel.
        return _string(self.data, self.sections[struct.unpack_from("<H", self.data, 62)[0]], section.name) != ".eh_frame"

    def _pad(self, alignment: int) -> int:
        self.content.extend(bytes(-len(self.content) % alignment))
        return len(self.content)

    def _place(self, index: int) -> None:
        section = self.sections[index]
        if section.alignment > (_PAGE if section.flags & _SHF_WRITE else _ALIGNMENT):
            raise CorruptObject(f"section {index} wants an alignment of {section.alignment} bytes")
        self.places[index] = self._pad(max(section.alignment, 16))
        stored = section.kind != _SHT_NOBITS
        self.content.extend(self.data[section.offset:section.offset + section.size] if stored else bytes(section.size))

    def link(self) -> Image:
        loaded = [index for index, section in enumerate(self.sections) if self._is_loaded(section)]
        variables = [index for index in loaded if self.sections[index].flags & _SHF_WRITE]
        for index in loaded:
            if index not in variables:
                self._place(index)
        self._make_slots()
        data_start = len(self.content)
        if variables:
            data_start = self._pad(_PAGE)
            # Zeros go last, so that the image need not hold them.
            for index in sorted(variables, key=lambda index: self.sections[index].kind == _SHT_NOBITS):
                self._place(index)
        for section in self.sections:
            if section.kind == _SHT_RELA and section.info in self.places:
                self._relocate(section)
        exports = {
            symbol.name: self.places[symbol.section] + symbol.value
            for symbol in self.symbols if symbol.binding == 1 and symbol.section in self.places
        }
        size = len(self.content)
        return Image(bytes(self.content.rstrip(b"\0") if variables else self.content), data_start, size, exports, tuple(self.fixups))

    def _relocations(self, section: _Section) -> list[tuple[int, int, _Symbol, int]]:
        found: list[tuple[int, int, _Symbol, int]] = []
        target = self.sections[section.info]
        for offset, info, addend in struct.iter_unpack("<QQq", self.data[section.offset:section.offset + section.size // 24 * 24]):
            if info >> 32 >= len(self.symbols) or offset + 4 > target.size:
                raise CorruptObject("a relocation lies outside its section")
            found.append((offset, info & 0xFFFFFFFF, self.symbols[info >> 32], addend))
        return found

    def _make_slots(self) -> None:
        """Put an address slot behind the code for each symbol that is reached through one, and a jump for outside functions."""
        for section in self.sections:
            if section.kind != _SHT_RELA or section.info not in self.places:
                continue
            for _, kind, symbol, _ in self._relocations(section):
                outside = symbol.section == 0
                if kind in _GOT_RELOCATIONS or (outside and kind in (_R_PC32, _R_PLT32)):
                    self._add_slot(symbol)
                if outside and kind in (_R_PC32, _R_PLT32) and symbol not in self.stubs:
                    self.stubs[symbol] = self._pad(8)
                    # jmp qword ptr [rip + distance to the slot]
                    self.content.extend(b"\xff\x25" + struct.pack("<i", self.slots[symbol] - (len(self.content) + 6)))
        self._pad(8)

    def _add_slot(self, symbol: _Symbol) -> None:
        if symbol in self.slots:
            return
        self.slots[symbol] = self._pad(8)
        self.content.extend(bytes(8))
        if symbol.section == 0:
            self.fixups.append((self.slots[symbol], symbol.name, 0))

    def _address(self, symbol: _Symbol) -> int:
        if symbol.section not in self.places:
            raise CorruptObject(f"symbol {symbol.name!r} is in a section that is not loaded")
        return self.places[symbol.section] + symbol.value

    def _relocate(self, section: _Section) -> None:
        base = self.places[section.info]
        for offset, kind, symbol, addend in self._relocations(section):
            at = base + offset
            if kind == _R_64:
                outside = symbol.section == 0
                self.fixups.append((at, symbol.name, addend) if outside else (at, "", self._address(symbol) + addend))
            elif kind in _GOT_RELOCATIONS:
                struct.pack_into("<i", self.content, at, self.slots[symbol] + addend - at)
            elif kind in (_R_PC32, _R_PLT32):
                target = self.stubs[symbol] if symbol.section == 0 else self._address(symbol)
                struct.pack_into("<i", self.content, at, target + addend - at)
            elif kind == _R_PC64 and symbol.section != 0:
                struct.pack_into("<q", self.content, at, self._address(symbol) + addend - at)
            else:
                raise CorruptObject(f"relocation type {kind} of symbol {symbol.name!r} is not supported")
        for symbol, slot in self.slots.items():
            if symbol.section != 0 and not any(at == slot for at, _, _ in self.fixups):
                self.fixups.append((slot, "", self._address(symbol)))


def link(data: bytes) -> Image:
    """Make an `Image` of a relocatable x86-64 ELF object; raises `CorruptObject` when it is malformed or beyond this loader."""
    try:
        return _Linker(data).link()
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise CorruptObject(f"malformed object: {error}") from None


class _Arena:
    """Reserved address space from which whole pages are taken; what one `load` writes never shares a page with another's."""

    RESERVED = 64 << 20

    def __init__(self) -> None:
        self._next = self._end = 0

    def take(self, size: int) -> int:
        """The address of `size` fresh writable bytes (whole pages)."""
        if self._next + size > self._end:
            reserved = max(size, self.RESERVED)
            address = pages.reserve(reserved, pages.NO_ACCESS)
            if not address:
                raise MemoryError(f"cannot reserve {reserved} bytes of address space for machine code")
            self._next, self._end = address, address + reserved
        start = self._next
        self._next += size
        pages.protect(start, size, pages.READ_WRITE)
        return start


_lock = threading.Lock()
_arena = _Arena()
_process = ctypes.PyDLL(None)
_math = ctypes.CDLL("libm.so.6")
_process_symbols: dict[str, int] = {}


def _forget_lock() -> None:
    # A forked child may inherit the lock from a thread that does not exist there.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def resolve(symbol: str, symbols: Mapping[str, int]) -> int:
    """The address of an outside symbol: from `symbols`, else from the process (libc, libm, pthread, the Python C API)."""
    if symbol in symbols:
        return symbols[symbol]
    address = _process_symbols.get(symbol)
    if address is None:
        try:
            function = getattr(_process, symbol)
        except AttributeError:
            function = getattr(_math, symbol, None)
        if function is None:
            raise KeyError(f"machine code needs the symbol {symbol!r}, which no library of this process has; declare only libc, "
                           "libm, pthread and Python C-API functions or pass its address in 'symbols'.")
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
        _process_symbols[symbol] = address
    return address


def load(images: Sequence[Image], symbols: Mapping[str, int] | None = None) -> list[dict[str, int]]:
    """Copy images into executable memory; for each, the addresses of its exported functions by name.

    `symbols` gives addresses of outside functions by name; others are looked up in the process. Code stays loaded until the
    process ends. Raises KeyError for a symbol that nothing has and MemoryError when the system gives no executable memory.
    """
    if cpu.architecture() != "x86_64":
        raise NotImplementedError(f"loading machine code on {cpu.architecture()}: only x86_64 is supported; run on an x86_64 machine.")
    loaded: list[dict[str, int]] = []
    plain = [image for image in images if image.size == image.data_start]
    starts: dict[int, int] = {}
    with _lock:
        _load_plain(plain, symbols or {}, starts)
        for image in images:
            if image.size > image.data_start:
                starts[id(image)] = _load_with_variables(image, symbols or {})
    for image in images:
        start = starts[id(image)]
        loaded.append({name: start + offset for name, offset in image.exports.items()})
    return loaded


def _load_plain(images: Sequence[Image], symbols: Mapping[str, int], starts: dict[int, int]) -> None:
    if not images:
        return
    offsets: list[int] = []
    total = 0
    for image in images:
        offsets.append(total)
        total = (total + image.size + _ALIGNMENT - 1) & -_ALIGNMENT
    total = pages.round_to_pages(total)
    base = _arena.take(total)
    for image, offset in zip(images, offsets, strict=True):
        starts[id(image)] = base + offset
        _write(image, base + offset, symbols)
    pages.protect(base, total, pages.READ_EXECUTE)


def _load_with_variables(image: Image, symbols: Mapping[str, int]) -> int:
    base = _arena.take(pages.round_to_pages(image.size))
    _write(image, base, symbols)
    pages.protect(base, image.data_start, pages.READ_EXECUTE)
    return base


def _write(image: Image, base: int, symbols: Mapping[str, int]) -> None:
    ctypes.memmove(base, image.content, len(image.content))
    for offset, symbol, addend in image.fixups:
        value = (resolve(symbol, symbols) if symbol else base) + addend
        ctypes.c_uint64.from_address(base + offset).value = value & 0xFFFFFFFFFFFFFFFF
