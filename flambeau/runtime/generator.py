"""Random generators: a Mersenne twister whose state is one block of memory that kernels read and advance."""

from __future__ import annotations

import ctypes
import os
import struct

__all__ = ["STATE_BYTES", "STATE_OFFSETS", "WORDS", "Generator", "default_generator"]

WORDS = 624
# The twist reads up to one vector past the last word; kernels keep a copy of the first words there.
_PADDING = 16
_DEFAULT_SEED = 67280421310721
# PyTorch's own layout of a saved state: seed, words left, seeded, next word, words, normal (unused, second value, unused, valid), padding.
_SAVED = struct.Struct(f"<QiiQ{WORDS}Q3di4xf?3x")


class _State(ctypes.Structure):
    """What a kernel sees at the state's address."""

    _fields_ = [
        ("words", ctypes.c_uint32 * (WORDS + _PADDING)),
        ("position", ctypes.c_int64),
        ("has_cached_normal", ctypes.c_int64),
        ("cached_normal", ctypes.c_double),
    ]


STATE_BYTES = ctypes.sizeof(_State)
STATE_OFFSETS = {name: getattr(_State, name).offset for name in ("words", "position", "has_cached_normal", "cached_normal")}


class Generator:
    """A source of random numbers with PyTorch's CPU stream: the same seed gives the same numbers.

    `device` must name the CPU. The state lives at `address` (`STATE_BYTES` bytes), where kernels draw from it; a forked child
    goes on with its own copy.

    >>> from flambeau.runtime.generator import Generator
    >>> Generator().manual_seed(5).initial_seed()
    5
    """

    __slots__ = ("__weakref__", "_seed", "_state", "address")

    def __init__(self, device: object = "cpu") -> None:
        if str(device).partition(":")[0] != "cpu":
            raise RuntimeError(f"Generator: got device {str(device)!r}; only 'cpu' has one. Pass device='cpu'.")
        self._state = _State()
        self.address = ctypes.addressof(self._state)
        self._seed = 0
        self.manual_seed(_DEFAULT_SEED)

    @property
    def position(self) -> int:
        """How many words of the current block have been used; at 624 the next draw makes a new block."""
        return self._state.position

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream that belongs to `seed` (its low 32 bits; negative seeds count from 2**64) and return self.

        Raises RuntimeError when `seed` is outside ``-2**63 <= seed < 2**64``.
        """
        if not -(1 << 63) <= seed < 1 << 64:
            raise RuntimeError(f"manual_seed: got {seed}; needs a seed in [-2**63, 2**64). Reduce it modulo 2**64.")
        self._seed = seed & (1 << 64) - 1
        state = self._state
        word = self._seed & 0xFFFFFFFF
        words = [word]
        for index in range(1, WORDS):
            word = (1812433253 * (word ^ word >> 30) + index) & 0xFFFFFFFF
            words.append(word)
        state.words[:WORDS] = words
        state.position = WORDS
        state.has_cached_normal = 0
        state.cached_normal = 0.0
        return self

    def seed(self) -> int:
        """Start a stream with a seed from the operating system, and return that seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that the stream was started with."""
        return self._seed

    def words(self, count: int) -> list[int]:
        """The next words of 32 bits; for a few of them, kernels are for many."""
        state = self._state
        out: list[int] = []
        for _ in range(count):
            if state.position >= WORDS:
                self._twist()
            word = state.words[state.position]
            state.position += 1
            word ^= word >> 11
            word ^= word << 7 & 0x9D2C5680
            word ^= word << 15 & 0xEFC60000
            out.append(word ^ word >> 18)
        return out

    def seed_for_another(self) -> int:
        """A seed of 63 bits from two words, as PyTorch's ``random_()`` of one int64 gives it."""
        first, second = self.words(2)
        return (first << 32 | second) & (1 << 63) - 1

    def _twist(self) -> None:
        """The next 624 words (Matsumoto and Nishimura, 1998)."""
        old = list(self._state.words[:WORDS])
        new: list[int] = []
        for index, word in enumerate(old):
            following = old[index + 1] if index + 1 < WORDS else new[0]
            joined = word & 0x80000000 | following & 0x7FFFFFFF
            far = old[index + 397] if index + 397 < WORDS else new[index + 397 - WORDS]
            new.append(far ^ joined >> 1 ^ (0x9908B0DF if joined & 1 else 0))
        self._state.words[:WORDS] = new
        self._state.position = 0

    def state_bytes(self) -> bytes:
        """The state as the 5,056 bytes in which PyTorch keeps it."""
        state = self._state
        return _SAVED.pack(
            self._seed, WORDS + 1 - state.position, 1, state.position, *state.words[:WORDS],
            0.0, state.cached_normal if state.has_cached_normal else 0.0, 0.0, state.has_cached_normal, 0.0, False,
        )  # fmt: skip

    def set_state_bytes(self, data: bytes) -> None:
        """Go on from a state that `state_bytes`, or PyTorch, has given.

        Raises RuntimeError for data of another size or with fields out of range.
        """
        if len(data) != _SAVED.size:
            raise RuntimeError(
                f"set_state: got {len(data)} bytes; needs the {_SAVED.size} of a CPU generator's state. Pass what get_state gave."
            )
        seed, left, seeded, position, *words, _, normal, _, has_normal, _, _ = _SAVED.unpack(data)
        if not seeded or not 0 < left <= WORDS or not 0 <= position <= WORDS:
            raise RuntimeError("set_state: the bytes are not a CPU generator's state. Pass what get_state gave.")
        state = self._state
        self._seed = seed
        state.words[:WORDS] = words
        # A stream just seeded by PyTorch says "next word 0" with one word left: nothing of a new block has been made yet.
        state.position = WORDS + 1 - left
        state.has_cached_normal = has_normal
        state.cached_normal = normal

    def clone_state(self) -> Generator:
        """A generator of its own that goes on from the same state."""
        other = type(self)()
        other.assign(self)
        return other

    def assign(self, other: Generator) -> None:
        """Take over the state of `other`."""
        ctypes.memmove(self.address, other.address, STATE_BYTES)
        self._seed = other._seed

    def __getstate__(self) -> bytes:
        return self.state_bytes()

    def __setstate__(self, data: bytes) -> None:
        self.__init__()
        self.set_state_bytes(data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} device=cpu seed={self._seed}>"


default_generator = Generator()
