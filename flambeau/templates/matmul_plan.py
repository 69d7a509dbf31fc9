"""How a matrix product is cut into tiles, blocks and chunks: by types, features, sizes and threads, with the same bits for every cut."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.templates.matmul_pack import Operand
from flambeau.templates.matmul_tile import TileShape

__all__ = ["FEW_SETS_BYTES", "GRAIN_BITS", "MatmulPlan", "panel_bytes", "plan_blocks", "table_bytes", "tile_bytes", "tile_shape"]

# The grain slot holds three numbers of this many bits: rows of a block, columns of a block, blocks of a chunk.
GRAIN_BITS = 20
# Chunks of less work (in operations) than this hold several blocks, and blocks are split while there are fewer than work / WANTED.
# Threads that have nothing else to do are worth a split from THREAD_WORK for each on.
LEAST_WORK, WANTED_WORK, THREAD_WORK = 1_000_000, 8_000_000, 2_000_000
MOST_CHUNKS, MOST_ROWS = 64, 1024
# Elements of B that a block packs: they stay in the second-level cache.
MOST_PACKED = 512 * 384
# Splitting rows reads B once more for each part, splitting columns A. Reading or packing an element costs this many times as
# much as its product with one element; splits that raise the whole loss above MOST_LOSS are for the first few chunks only: as
# many as keep all threads busy.
PACKED_COST, PLAIN_COST = 11, 3
FAR_BYTES = 3072
# Lines a multiple of this apart fall into two sets of the first-level cache: reading them often is slow.
FEW_SETS_BYTES = 2048
MOST_LOSS, FEW_CHUNKS, FEW_FOR_A_THREAD = 0.035, 4, 2


@dataclass(frozen=True)
class MatmulPlan:
    """The launch of one size: ``chunks`` tasks with ``grain`` in its slot and ``scratch_bytes`` for each thread."""

    chunks: int
    grain: int
    scratch_bytes: int


def tile_shape(lanes: int, itemsize: int) -> TileShape:
    """The register tile for vectors of ``lanes`` elements: as many sums as leave registers for two lines of B and one of A."""
    if lanes * itemsize == 64:
        return TileShape(lanes, 2, 14, 8, 384, itemsize)
    if lanes * itemsize == 32:
        return TileShape(lanes, 2, 6, 4, 512, itemsize)
    return TileShape(lanes, 2, 4, 3, 384, itemsize)


def tile_bytes(shape: TileShape) -> int:
    return _round_up(shape.tall * shape.columns * shape.itemsize, 64)


def panel_bytes(shape: TileShape) -> int:
    """Bytes of one packed panel of A, in either order."""
    by_rows = shape.tall * shape.row_pitch + shape.lanes
    return _round_up(max(by_rows, shape.depth * shape.panel) * shape.itemsize, 64)


def table_bytes(shape: TileShape, columns: int) -> int:
    """Bytes of the offsets of windows: of one block's rows and of so many columns, read by whole vectors."""
    return _round_up((shape.depth + columns) * 8, 64)


def plan_blocks(shape: TileShape, a: Operand, b: Operand, threads: int, batch: int, m: int, n: int, k: int) -> MatmulPlan:
    """How C is cut: blocks of rows and columns, several of them a chunk when they are small."""
    if batch == 0 or m == 0 or n == 0:
        return MatmulPlan(0, 0, 0)
    rows, columns = _block(shape, a, b, threads, batch, m, n, k)
    blocks = batch * -(-m // rows) * -(-n // columns)
    work = 2 * min(rows, m) * min(columns, n) * max(k, 1)
    count = min(-(-LEAST_WORK // work), (1 << GRAIN_BITS) - 1)
    grain = rows | columns << GRAIN_BITS | count << 2 * GRAIN_BITS
    # Transposing may write up to a vector of lines past the end of the slivers.
    slivers = (columns * shape.depth + shape.lanes * shape.columns) * shape.itemsize
    sums = rows * (columns * shape.itemsize + 64) if k > shape.depth else 0
    tables = table_bytes(shape, columns) if b.windowed else 0
    size = tables + tile_bytes(shape) + panel_bytes(shape) + slivers + sums
    return MatmulPlan(-(-blocks // count), grain, _round_up(size, 64))


def _block(shape: TileShape, a: Operand, b: Operand, threads: int, batch: int, m: int, n: int, k: int) -> tuple[int, int]:
    """Rows and columns of the block of C that is computed in one go; a few chunks for each thread may cost what they like."""
    a_pitch, b_pitch = (k if a.layout == "row" else m) * shape.itemsize, n * shape.itemsize
    a_cost = PACKED_COST if a.must_pack or a_pitch > FAR_BYTES else PLAIN_COST
    b_cost = PACKED_COST if b.must_pack or b.layout != "row" or b_pitch > FAR_BYTES or b_pitch % FEW_SETS_BYTES == 0 else PLAIN_COST
    work, few = 2 * batch * m * n * k, max(FEW_CHUNKS, FEW_FOR_A_THREAD * threads)
    wanted = min(MOST_CHUNKS, max(work // WANTED_WORK, min(threads, work // THREAD_WORK)))
    down, across = -(-m // MOST_ROWS), -(-n // (MOST_PACKED // shape.depth))
    while batch * down * across < wanted:
        if b_cost * down / m <= a_cost * across / n:
            split = 2 * down, across
        else:
            split = down, 2 * across
        loss = b_cost * split[0] / m + a_cost * split[1] / n
        if loss > MOST_LOSS and batch * down * across >= few:
            break
        down, across = split
    return _whole_tiles(shape, -(-m // down)) if down > 1 else m, _round_up(-(-n // across), shape.columns)


def _whole_tiles(shape: TileShape, rows: int) -> int:
    """The least number of rows from ``rows`` on that fills its tiles."""
    while rows % shape.tall not in (0, shape.low, 2 * shape.low % shape.tall):
        rows += 1
    return rows


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
