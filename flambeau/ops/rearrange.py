"""Copies in another order or size: reversed, rolled, repeated, padded, spread on a diagonal."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim, product
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Size, Sizes, Value, Values, normalize_dim, normalize_dims, op
from flambeau.ops.indexing import size_number
from flambeau.ops.view import as_dims, as_sizes, cut, square_diagonals


@op(samples=lambda m: [case(m.float(3, 4)), case(m.float())])
def clone(x: Value) -> Node:
    """A copy."""
    return x


@op(samples=lambda m: [case(m.float(3, 4), (0,)), case(m.float(2, 3, 4), (0, -1)), case(m.float(3), ())])
def flip(x: Value, dims: int | tuple[int, ...]) -> Node:
    """The given dimensions in reverse order."""
    if dims == ():
        return x
    for axis in normalize_dims(dims, x.rank, "flip"):
        x = p.flip(x, axis)
    return x


def _roll_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(5), (2,), (0,)), case(m.float(3, 4), (-1,), (1,)), case(m.float(3, 4), (1, 2), (0, 1)), case(m.float(2, 3), (4,)),
        case(m.float(3), (3,), (0,)), case(m.float(0), (1,), (0,)),
    ]  # fmt: skip


@op(samples=_roll_samples)
def roll(x: Value, shifts: Sizes, dims: int | tuple[int, ...] = ()) -> Node:
    """Elements moved by ``shifts`` along ``dims``, those pushed out coming in again; without ``dims``, of the flattened x."""
    steps, axes = as_sizes(shifts), as_dims(dims)
    if not axes and len(steps) == 1:
        return p.reshape(roll(p.reshape(x, shape=(x.aval.numel,)), steps, 0), shape=x.shape)
    if len(steps) != len(axes):
        raise RuntimeError(f"roll: shifts and dimensions must align. shifts: {len(steps)}, dims: {len(axes)}")
    for shift, dim in zip(steps, axes, strict=True):
        axis = normalize_dim(dim, x.rank, "roll")
        size = x.shape[axis]
        start = 0 if size == 0 else (0 - shift) % size
        if not start == 0:
            x = p.cat(cut(x, axis, start, size - start), cut(x, axis, 0, start), axis=axis)
    return x


@op(samples=lambda m: [*(case(m.float(2, 3), k, (0, 1)) for k in (0, 1, 2, 3, -1)), case(m.float(2, 3, 4), 1, (2, 0))])
def rot90(x: Value, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Node:
    """Turned by k quarters in the plane of two dimensions, from the first toward the second."""
    a, b = (normalize_dim(d, x.rank, "rot90") for d in dims)
    if a == b:
        raise RuntimeError(f"rot90: expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    order = list(range(x.rank))
    order[a], order[b] = b, a
    turns = k % 4
    if turns == 2:
        return p.flip(p.flip(x, a), b)
    swapped = p.permute(x, axes=tuple(order)) if turns else x
    return p.flip(swapped, a if turns == 1 else b) if turns else x


# -- repetition -------------------------------------------------------------------------------------------
def _repeated(x: Node, times: Sequence[Dim]) -> Node:
    """Whole copies of x one after another, ``times[i]`` of them along axis i."""
    once = tuple(d for n in x.shape for d in (1, n))
    wide = tuple(d for k, n in zip(times, x.shape, strict=True) for d in (k, n))
    return p.reshape(p.expand(p.reshape(x, shape=once), shape=wide), shape=tuple(k * n for k, n in zip(times, x.shape, strict=True)))


@op(samples=lambda m: [case(m.float(2, 3), (2, 3)), case(m.float(3), (2, 1, 2)), case(m.float(2), (0,)), case(m.float(), (2,))])
def repeat(x: Value, repeats: Sizes) -> Node:
    """Whole copies: ``repeats[i]`` of them along dimension i, new dimensions coming first."""
    times = as_sizes(repeats)
    if len(times) < x.rank:
        raise RuntimeError(
            "repeat: number of dimensions of repeat dims can not be smaller than number of dimensions of tensor, "
            f"got {len(times)} for {x.rank}"
        )
    if any(n < 0 for n in times):
        raise RuntimeError(f"repeat: trying to create tensor with negative dimension, got repeats {list(times)}")
    return _repeated(p.reshape(x, shape=(1,) * (len(times) - x.rank) + x.shape), times)


@op(samples=lambda m: [case(m.float(2, 3), (2,)), case(m.float(3), (2, 2)), case(m.float(2, 3), (2, 1))])
def tile(x: Value, dims: Sizes) -> Node:
    """As ``repeat``, where missing leading repetitions are 1."""
    times = as_sizes(dims)
    return repeat(x, (1,) * (x.rank - len(times)) + times)


@op(samples=lambda m: [case(m.float(2, 3), 2), case(m.float(2, 3), 3, 0), case(m.float(2, 3), 2, -1), case(m.float(3), 0, 0)])
def repeat_interleave(x: Value, repeats: Size, dim: int | None = None) -> Node:
    """Each element ``repeats`` times in a row along ``dim``; without ``dim``, of the flattened x."""
    if repeats < 0:
        raise RuntimeError(f"repeat_interleave: repeats can not be negative, got {repeats}")
    x = p.reshape(x, shape=(x.aval.numel,)) if dim is None else x
    axis = 0 if dim is None else normalize_dim(dim, x.rank, "repeat_interleave")
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    spread = p.expand(p.reshape(x, shape=(*before, size, 1, *after)), shape=(*before, size, repeats, *after))
    return p.reshape(spread, shape=(*before, size * repeats, *after))


# -- diagonals --------------------------------------------------------------------------------------------
def _on_diagonal(x: Node, offset: int) -> Node:
    """The last axis of x on a diagonal of new square matrices."""
    extra = abs(offset)
    size = x.shape[-1] + extra
    row, column = (-offset, 0) if offset < 0 else (0, offset)
    shape = (*x.shape[:-1], size, size)
    rank = len(shape)
    # Row i of the result holds x[i - row] in column i - row + column.
    low = tuple(row if a == rank - 2 else 0 for a in range(rank - 1))
    high = tuple(extra - row if a == rank - 2 else 0 for a in range(rank - 1))
    zero = 0.0 if x.dtype.is_floating_point else 0
    padded = p.pad(x, low=low, high=high, interior=(0,) * (rank - 1), value=zero) if extra else x
    spread = p.expand(p.reshape(padded, shape=(*padded.shape, 1)), shape=shape)
    rows, columns = (p.iota(shape=shape, axis=rank - 2 + i, dtype=dtypes.int64) for i in (0, 1))
    hit = p.eq(p.sub(columns, rows), size_number(offset, rows))
    return p.where(hit, spread, p.number(0, spread))


def _diag_embed_samples(m: SampleMaker) -> Calls:
    return [case(m.float(3)), case(m.float(2, 3), 1), case(m.float(2, 3), -2), case(m.float(2, 3), 0, 0, 2), case(m.float(2, 3), 1, -1, 0)]


@op(samples=_diag_embed_samples)
def diag_embed(x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Node:
    """The last dimension of x on a diagonal of matrices in ``dim1`` and ``dim2`` of the result, zeros elsewhere."""
    rank = x.rank + 1
    a, b = normalize_dim(dim1, rank, "diag_embed"), normalize_dim(dim2, rank, "diag_embed")
    if a == b:
        raise RuntimeError(f"diag_embed: diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = iter(range(rank - 2))
    return p.permute(_on_diagonal(x, offset), axes=tuple(rank - 2 if i == a else rank - 1 if i == b else next(rest) for i in range(rank)))


@op(samples=lambda m: [case(m.float(3)), case(m.float(3), -1), case(m.float(3, 4)), case(m.float(3, 4), 2)])
def diag(x: Value, diagonal: int = 0) -> Node:
    """A vector on the diagonal of a matrix, or the diagonal of a matrix as a vector."""
    if x.rank not in (1, 2):
        raise RuntimeError(f"diag: supports 1D or 2D tensors, got {x.rank}D")
    return _on_diagonal(x, diagonal) if x.rank == 1 else square_diagonals(x, diagonal, 0, 1, "diag")


@op(samples=lambda m: [case(m.float(3)), case(m.float(2, 2), 1)])
def diagflat(x: Value, offset: int = 0) -> Node:
    """The flattened x on a diagonal of a matrix."""
    return _on_diagonal(p.reshape(x, shape=(x.aval.numel,)), offset)


@op(promote="arithmetic", samples=lambda m: [case([m.float(2, 3), m.float(1), m.float()]), case([m.float(2, 2), m.float(3)])])
def block_diag(tensors: Values) -> Node:
    """Matrices along the diagonal of one matrix, zeros elsewhere."""
    if any(x.rank > 2 for x in tensors):
        raise RuntimeError(f"block_diag: Input tensors must have 2 or fewer dimensions, got {[x.rank for x in tensors]}")
    blocks = [p.reshape(x, shape=(1,) * (2 - x.rank) + x.shape) for x in tensors]
    width = sum((b.shape[1] for b in blocks), start=0)
    rows, before = [], 0
    for block in blocks:
        after = width - before - block.shape[1]
        rows.append(p.pad(block, low=(0, before), high=(0, after), interior=(0, 0), value=0.0 if block.dtype.is_floating_point else 0))
        before = before + block.shape[1]
    return p.cat(*rows, axis=0)


@op(samples=lambda m: [case([m.float(2), m.float(3)]), case([m.float(2), m.float(3), m.float()], "xy"), case([m.float(2)], "xy")])
def meshgrid(tensors: Values, indexing: str = "ij") -> tuple[Node, ...]:
    """Vectors spread over the grid that they span, one grid for each; ``xy`` swaps the first two dimensions."""
    if indexing not in ("ij", "xy") or any(x.rank > 1 for x in tensors):
        raise RuntimeError(f"meshgrid: expects 0-D or 1-D tensors and indexing 'xy' or 'ij', got indexing {indexing!r}")
    if not tensors or len({x.dtype for x in tensors}) > 1:
        raise RuntimeError(f"meshgrid: expects one or more tensors of one dtype, got {', '.join(str(x.dtype) for x in tensors) or 'none'}")
    shape = tuple(x.aval.numel for x in tensors)
    order = (1, 0, *range(2, len(shape))) if indexing == "xy" and len(shape) > 1 else tuple(range(len(shape)))
    grids = []
    for axis, x in enumerate(tensors):
        line = p.reshape(x, shape=tuple(d if i == axis else 1 for i, d in enumerate(shape)))
        grids.append(p.permute(p.expand(line, shape=shape), axes=order))
    return tuple(grids)


# -- padding ----------------------------------------------------------------------------------------------
def _edge(x: Node, axis: int, amount: Dim, mode: str, at_end: bool) -> Node:
    """What a padding mode puts before or after x."""
    size = x.shape[axis]
    if mode == "replicate":
        edge = cut(x, axis, size - 1 if at_end else 0, 1)
        return p.expand(edge, shape=tuple(amount if i == axis else d for i, d in enumerate(x.shape)))
    if mode == "circular":
        if amount > size:
            raise RuntimeError(f"pad: Padding value causes wrapping around more than once: {amount} for size {size}")
        return cut(x, axis, 0 if at_end else size - amount, amount)
    if amount >= size:
        raise RuntimeError(f"pad: Padding size should be less than the corresponding input dimension, but got {amount} for size {size}")
    return p.flip(cut(x, axis, size - 1 - amount if at_end else 1, amount), axis)


def _extended(x: Node, axis: int, before: Dim, after: Dim, mode: str) -> Node:
    if mode == "circular":  # what is cut off does not come round
        x, before, after = _cropped(x, axis, before, after), 0 if before < 0 else before, 0 if after < 0 else after
    low, high = (0 if n < 0 else n for n in (before, after))
    parts = [] if low == 0 else [_edge(x, axis, low, mode, False)]
    parts.append(x)
    parts += [] if high == 0 else [_edge(x, axis, high, mode, True)]
    out = p.cat(*parts, axis=axis) if len(parts) > 1 else x
    return _cropped(out, axis, before, after)


def _cropped(x: Node, axis: int, before: Dim, after: Dim) -> Node:
    """Without what negative paddings take away."""
    low, high = (0 - n if n < 0 else 0 for n in (before, after))
    if low == 0 and high == 0:
        return x
    return cut(x, axis, low, x.shape[axis] - low - high)


def _pad_samples(m: SampleMaker) -> Calls:
    x = m.float(2, 3, 4, 5)
    out = [
        case(x[0, 0], (1, 2)),
        case(x[0], (1, 0, 0, 2), "constant", 1.5),
        case(x, (-1, 2, 1, -1)),
        case(m.int(3), (2, 1)),
        case(x, (0, 0)),
    ]
    return [*out, *(case(x, w, mode) for w in ((1, 2, 2, 0), (2, -1, 0, 1)) for mode in ("reflect", "replicate", "circular"))]


@op(samples=_pad_samples)
def pad(x: Value, pad: Sizes, mode: str = "constant", value: float | None = None) -> Node:
    """More elements around x: ``pad`` holds (before, after) for the last dimension, then for the one before it, and so on.

    They are ``value`` (0), or with another ``mode`` taken from x: ``reflect``, ``replicate`` or ``circular``. Negative
    amounts take elements away.
    """
    if len(pad) % 2 or len(pad) > 2 * x.rank:
        raise RuntimeError(f"pad: padding length must be divisible by 2 and at most twice the dimensions ({x.rank}), got {len(pad)}")
    if mode not in ("constant", "reflect", "replicate", "circular") or (mode != "constant" and value is not None):
        raise NotImplementedError(f"pad: unrecognised padding mode {mode!r}, or a value for other than 'constant'")
    amounts = {x.rank - 1 - i: (pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)}
    if mode != "constant":
        for axis, (before, after) in amounts.items():
            x = _extended(x, axis, before, after, mode)
        return x
    return constant_padded(x, amounts, value or 0)


def constant_padded(x: Node, amounts: dict[int, tuple[Dim, Dim]], value: float) -> Node:
    """x with (before, after) elements of ``value`` around it for each axis named; negative amounts take away."""
    for axis, (before, after) in amounts.items():
        x = _cropped(x, axis, before, after)
    low = tuple(amounts[i][0] if i in amounts and amounts[i][0] > 0 else 0 for i in range(x.rank))
    high = tuple(amounts[i][1] if i in amounts and amounts[i][1] > 0 else 0 for i in range(x.rank))
    if all(n == 0 for n in (*low, *high)):
        return x
    number = value if x.dtype.is_complex else p.constant(value, (), x.dtype).attributes["value"]
    return p.pad(x, low=low, high=high, interior=(0,) * x.rank, value=number)


@op(samples=lambda m: [case(m.float(2, 8, 2, 3), 2)])
def pixel_shuffle(x: Value, upscale_factor: int) -> Node:
    """[..., c * r * r, h, w] -> [..., c, h * r, w * r]."""
    r, (*batch, channels, height, width) = upscale_factor, x.shape
    if x.rank < 3 or not channels % (r * r) == 0:
        raise RuntimeError(f"pixel_shuffle: expects channels to be divisible by the square of upscale_factor {r}, got {list(x.shape)}")
    n = len(batch)
    split = p.reshape(x, shape=(*batch, channels // (r * r), r, r, height, width))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return p.reshape(p.permute(split, axes=order), shape=(*batch, channels // (r * r), height * r, width * r))


@op(samples=lambda m: [case(m.float(2, 2, 4, 6), 2)])
def pixel_unshuffle(x: Value, downscale_factor: int) -> Node:
    """[..., c, h * r, w * r] -> [..., c * r * r, h, w]."""
    r, (*batch, channels, height, width) = downscale_factor, x.shape
    if x.rank < 3 or not (height % r == 0 and width % r == 0):
        raise RuntimeError(f"pixel_unshuffle: expects height and width to be divisible by downscale_factor {r}, got {list(x.shape)}")
    n = len(batch)
    split = p.reshape(x, shape=(*batch, channels, height // r, r, width // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return p.reshape(p.permute(split, axes=order), shape=(*batch, channels * r * r, height // r, width // r))


@op(samples=lambda m: [case(m.float(2, 6, 3), 2), case(m.float(1, 6, 2, 2), 3)])
def channel_shuffle(x: Value, groups: int) -> Node:
    """Channels [batch, channels, ...] dealt out: those of each group apart from one another."""
    batch, channels, *rest = x.shape
    if not channels % groups == 0:
        raise RuntimeError(f"channel_shuffle: number of channels must be divisible by groups, got {channels} channels and {groups} groups")
    flat = p.reshape(x, shape=(batch, groups, channels // groups, product(rest)))
    return p.reshape(p.permute(flat, axes=(0, 2, 1, 3)), shape=x.shape)
