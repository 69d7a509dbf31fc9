"""How a matrix product is cut into tiles, blocks and chunks: pure functions of types, features and sizes."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.templates.matmul_pack import Operand
from flambeau.templates.matmul_tile import TileShape

__all__ = ["GRAIN_BITS", "MatmulPlan", "Pitches", "plan_blocks", "tile_shape"]

# The grain slot holds three numbers of this many bits: rows of a block, columns of a block, blocks of a chunk.
GRAIN_BITS = 20


@dataclass(frozen=True)
class MatmulPlan:
    """The launch of one size: ``chunks`` tasks with ``grain`` in its slot and ``scratch_bytes`` for each thread."""

    chunks: int
    grain: int
    scratch_bytes: int


@dataclass(frozen=True)
class Pitches:
    """Where things lie in scratch memory: element size, length of a packed row of A, whether A is always packed."""

    itemsize: int
    row_pitch: int
    by_rows: bool
    always_packs_a: bool

    @staticmethod
    def choose(shape: TileShape, itemsize: int, a: Operand) -> Pitches:
        # One more cache line than a power of two, so that the rows of a tile do not fall into the same cache set.
        return Pitches(itemsize, shape.depth + 64 // itemsize, a.layout == "row", a.must_pack)


def tile_shape(lanes: int, features: frozenset[str], itemsize: int) -> TileShape:
    """The register tile for vectors of ``lanes`` elements."""
    if lanes * itemsize == 64:
        return TileShape(lanes, 2, (14, 8, 4), 256)
    if lanes * itemsize == 32:
        return TileShape(lanes, 2, (6, 4, 2), 256)
    return TileShape(lanes, 2, (4, 3, 2), 256)


def tile_bytes(shape: TileShape, itemsize: int) -> int:
    return _aligned(shape.heights[0] * shape.columns * itemsize)


def sliver_bytes(shape: TileShape, itemsize: int) -> int:
    """Bytes of one packed sliver of B; transposing may write up to a vector of lines past the depth."""
    return _aligned((shape.depth + shape.lanes) * shape.columns * itemsize)


def plan_blocks(shape: TileShape, pitches: Pitches, batch: int, m: int, n: int, k: int) -> MatmulPlan:
    if batch == 0 or m == 0 or n == 0:
        return MatmulPlan(0, 0, 0)
    rows, columns = _block(shape, pitches, batch, m, n, k)
    blocks = batch * -(-m // rows) * -(-n // columns)
    work = 2 * min(rows, m) * min(columns, n) * max(k, 1)
    count = min(max(1, 2_000_000 // work), (1 << GRAIN_BITS) - 1)
    grain = rows | columns << GRAIN_BITS | count << 2 * GRAIN_BITS
    itemsize = pitches.itemsize
    size = tile_bytes(shape, itemsize) + sliver_bytes(shape, itemsize)
    if k > shape.depth:
        size += _aligned(rows * _round_up(columns, shape.columns) * itemsize)
    if pitches.by_rows:
        size += (rows * pitches.row_pitch + shape.lanes) * itemsize
    else:
        size += -(-rows // shape.heights[0]) * shape.depth * shape.panel * itemsize
    return MatmulPlan(-(-blocks // count), grain, _aligned(size))


def _block(shape: TileShape, pitches: Pitches, batch: int, m: int, n: int, k: int) -> tuple[int, int]:
    """Rows and columns of the block of C that is computed in one go."""
    if k <= shape.depth and not pitches.always_packs_a:
        rows, columns = min(m, 1024), shape.columns
    else:
        rows, columns = min(m, 512), min(n, 512)
        while batch * -(-m // rows) * -(-n // columns) < 8 and rows * columns > 128 * 128:
            if columns >= rows and columns > shape.columns:
                columns = _round_up(columns // 2, shape.columns)
            elif rows > shape.heights[0]:
                rows = -(-rows // 2)
            else:
                break
    return rows, _round_up(columns, shape.columns)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _aligned(size: int) -> int:
    return _round_up(size, 64)
