"""Convolutions, their transposes, and windows as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau import prims as p
from flambeau.core.symbolic import Dim, product
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.correlation import correlated, filter_gradient, folded, image_gradient, padded, windows
from flambeau.ops.declare import ALL, Sizes, Value, op
from flambeau.ops.view import as_sizes, cut, with_axis
from flambeau.prims.complex import parts

Ints = int | tuple[int, ...]


def for_each_axis(value: int | Sequence[int], count: int, operator: str, name: str) -> tuple[int, ...]:
    """One number for each spatial axis; a single one holds for all."""
    given = (value,) * count if isinstance(value, int) else tuple(value)
    given = given * count if len(given) == 1 else given
    if len(given) != count:
        raise RuntimeError(f"{operator}: expected {name} to be a single integer value or a list of {count} values, but got {value}")
    return given


def _with_bias(out: Node, bias: Node | None, axis: int) -> Node:
    if bias is None:
        return out
    return p.add(out, p.expand(p.reshape(bias, shape=tuple(d if i == axis else 1 for i, d in enumerate(out.shape))), shape=out.shape))


# -- complex numbers --------------------------------------------------------------------------------------
def _side_by_side(a: Node, b: Node, axis: int, groups: int) -> Node:
    """Both one after the other within each group of an axis."""
    shape = a.shape
    split = (p.reshape(x, shape=(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])) for x in (a, b))
    return p.reshape(p.cat(*split, axis=axis + 1), shape=(*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))


def _by_real_channels(operator: str, x: Node, weight: Node, bias: Node | None, groups: int, settings: tuple[Any, ...], sign: int) -> Node:
    """A complex convolution as a real one of twice the channels: of each group the real parts, then the imaginary ones.

    ``sign`` is -1 where rows of the weights are outputs, 1 where they are inputs.
    """
    (a, b), (u, v) = parts(x), parts(weight)
    first, second = (p.neg(v), v) if sign < 0 else (v, p.neg(v))
    wide = _side_by_side(p.cat(u, first, axis=1), p.cat(second, u, axis=1), 0, groups)
    out = ALL[operator](
        _side_by_side(a, b, 1, groups), wide, None if bias is None else _side_by_side(*parts(bias), 0, groups), *settings
    )
    apart = p.reshape(out, shape=(out.shape[0], groups, 2, out.shape[1] // (2 * groups), *out.shape[2:]))
    shape = (out.shape[0], out.shape[1] // 2, *out.shape[2:])
    return p.pair(*(p.reshape(cut(apart, 2, k, 1), shape=shape) for k in (0, 1)))


# -- convolution ------------------------------------------------------------------------------------------
def _same_padding(sizes: Sequence[int], dilations: Sequence[int]) -> tuple[list[int], list[int]]:
    """Padding that keeps the length at stride 1; the odd one goes to the end."""
    total = [d * (k - 1) for k, d in zip(sizes, dilations, strict=True)]
    return [t // 2 for t in total], [t - t // 2 for t in total]


def _paddings(
    operator: str, padding: int | str | Sequence[int], sizes: Sequence[int], steps: Sequence[int], dilations: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Padding before and after, for each spatial axis."""
    if padding == "same":
        if any(s != 1 for s in steps):
            raise RuntimeError(f"{operator}: padding='same' is not supported for strided convolutions, got stride {tuple(steps)}")
        return _same_padding(sizes, dilations)
    if isinstance(padding, str):
        if padding != "valid":
            raise RuntimeError(f"{operator}: invalid padding string: {padding!r}; use 'same', 'valid' or numbers")
        padding = 0
    given = for_each_axis(padding, len(sizes), operator, "padding")
    if any(n < 0 for n in given):
        raise RuntimeError(f"{operator}: negative padding is not supported, got {given}")
    return given, given


def _check_convolution(operator: str, x: Node, weight: Node, count: int, groups: int) -> None:
    if weight.rank != count + 2 or x.rank != count + 2:
        raise RuntimeError(
            f"{operator}: Expected {count + 1}D (unbatched) or {count + 2}D (batched) input and {count + 2}D weight, "
            f"but got input of size: {list(x.shape)} and weight of size: {list(weight.shape)}"
        )
    if groups <= 0 or not weight.shape[0] % groups == 0:
        raise RuntimeError(
            f"{operator}: Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead"
        )
    if not x.shape[1] == weight.shape[1] * groups:
        raise RuntimeError(
            f"{operator}: Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have "
            f"{weight.shape[1] * groups} channels, but got {x.shape[1]} channels instead"
        )


def _know_channels(x: Node, weight: Node, groups: int) -> None:
    """Have a trace hold for these channels only: of sizes that it does not know it would not see that groups divide them."""
    if groups > 1:
        for size in (x.shape[1], *weight.shape[:2]):
            int(size)


def _check_lengths(operator: str, lengths: Sequence[Dim], sizes: Sequence[int], dilations: Sequence[int]) -> None:
    spans = [d * (k - 1) + 1 for k, d in zip(sizes, dilations, strict=True)]
    if any(n < s for n, s in zip(lengths, spans, strict=True)):
        raise RuntimeError(
            f"{operator}: Calculated padded input size per channel: ({' x '.join(map(str, lengths))}). "
            f"Kernel size: ({' x '.join(map(str, spans))}). Kernel size can't be greater than actual input size"
        )


def convolution(
    operator: str, x: Node, weight: Node, bias: Node | None, count: int,
    stride: Ints, padding: int | str | tuple[int, ...], dilation: Ints, groups: int,
) -> Node:  # fmt: skip
    """Cross-correlation over ``count`` spatial axes: [b, c, *n] and [o, c / groups, *k] -> [b, o, *l]; b may be missing."""
    if x.rank == count + 1:
        batch = p.reshape(x, shape=(1, *x.shape))
        out = convolution(operator, batch, weight, bias, count, stride, padding, dilation, groups)
        return p.reshape(out, shape=out.shape[1:])
    _check_convolution(operator, x, weight, count, groups)
    _know_channels(x, weight, groups)
    sizes = [int(k) for k in weight.shape[2:]]
    steps = for_each_axis(stride, count, operator, "stride")
    dilations = for_each_axis(dilation, count, operator, "dilation")
    if any(n <= 0 for n in (*steps, *dilations)):
        raise RuntimeError(f"{operator}: non-positive stride or dilation is not supported, got stride {steps}, dilation {dilations}")
    before, after = _paddings(operator, padding, sizes, steps, dilations)
    if x.dtype.is_complex:
        return _by_real_channels(operator, x, weight, bias, groups, (stride, padding, dilation, groups), -1)
    x = padded(x, 2, before, after)
    _check_lengths(operator, x.shape[2:], sizes, dilations)
    return _with_bias(correlated(x, weight, steps, dilations, groups), bias, 1)


def _convolution_samples(count: int) -> Callable[[SampleMaker], Calls]:
    """Samples for ``count`` spatial axes, of lengths that shrink with their number."""
    n = {1: (9,), 2: (6, 5), 3: (4, 3, 4)}[count]
    k = {1: (3,), 2: (3, 2), 3: (2, 2, 1)}[count]
    one = (1,) * count

    def samples(m: SampleMaker) -> Calls:
        x, weight = m.float(2, 4, *n), m.float(6, 4, *k)
        out = [case(x, weight, m.float(6)), case(x[:1], weight, None, 2, 1), case(x[0], weight, m.float(6), 1, "same")]
        out += [case(x, m.float(6, 2, *k), None, 1, 0, 1, 2), case(x, m.float(8, 1, *k), m.float(8), 1, 1, 1, 4)]
        return [*out, case(x, m.float(3, 4, *one), None, 2), case(x, m.float(2, 4, *(2,) * count), None, 1, 1, 2)]

    return samples


@op(promote="same", samples=_convolution_samples(1))
def conv1d(
    x: Value, weight: Value, bias: Value | None = None, stride: Ints = 1, padding: int | str | tuple[int, ...] = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Node:  # fmt: skip
    """[b, c, n] and [o, c / groups, k] -> [b, o, l]: sums of products over sliding windows, plus bias [o]."""
    return convolution("conv1d", x, weight, bias, 1, stride, padding, dilation, groups)


@op(promote="same", samples=_convolution_samples(2))
def conv2d(
    x: Value, weight: Value, bias: Value | None = None, stride: Ints = 1, padding: int | str | tuple[int, ...] = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Node:  # fmt: skip
    """[b, c, h, w] and [o, c / groups, kh, kw] -> [b, o, h', w']: sums of products over sliding windows, plus bias [o]."""
    return convolution("conv2d", x, weight, bias, 2, stride, padding, dilation, groups)


@op(promote="same", samples=_convolution_samples(3))
def conv3d(
    x: Value, weight: Value, bias: Value | None = None, stride: Ints = 1, padding: int | str | tuple[int, ...] = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Node:  # fmt: skip
    """As ``conv2d`` with three spatial dimensions."""
    return convolution("conv3d", x, weight, bias, 3, stride, padding, dilation, groups)


def _convolution_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    x, weight, bias, stride, padding, dilation, groups = arguments
    (g,), images, count = g, x, weight.rank - 2
    if x.rank == count + 1:
        g, images = with_axis(g, 0), with_axis(x, 0)
    sizes = [int(k) for k in weight.shape[2:]]
    steps, dilations = for_each_axis(stride, count, "conv", "stride"), for_each_axis(dilation, count, "conv", "dilation")
    before, after = _paddings("conv", padding, sizes, steps, dilations)
    by_x = image_gradient(g, weight, before, images.shape[2:], steps, dilations, groups)
    by_weight = filter_gradient(padded(images, 2, before, after), g, sizes, steps, dilations, groups)
    return p.reshape(by_x, shape=x.shape), by_weight, _bias_gradient(g, bias)


def _bias_gradient(g: Node, bias: Node | None) -> Node | None:
    return None if bias is None else p.reduce(g, kind="sum", axes=(0, *range(2, g.rank)))


for _operator in (conv1d, conv2d, conv3d):
    _operator.derivative = _convolution_derivative


# -- its transpose ----------------------------------------------------------------------------------------
def transposed_convolution(
    operator: str, x: Node, weight: Node, bias: Node | None, count: int,
    stride: Ints, padding: Ints, output_padding: Ints, groups: int, dilation: Ints,
) -> Node:  # fmt: skip
    """The gradient of a convolution by its input, as an operation: [b, c, *l] and [c, o / groups, *k] -> [b, o, *n]."""
    if x.rank == count + 1:
        batch = p.reshape(x, shape=(1, *x.shape))
        out = transposed_convolution(operator, batch, weight, bias, count, stride, padding, output_padding, groups, dilation)
        return p.reshape(out, shape=out.shape[1:])
    if x.rank != count + 2 or weight.rank != count + 2 or not x.shape[1] == weight.shape[0] or not weight.shape[0] % groups == 0:
        raise RuntimeError(
            f"{operator}: Given transposed=1, groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have "
            f"{weight.shape[0]} channels, a multiple of groups, and {count} spatial dimensions"
        )
    _know_channels(x, weight, groups)
    steps, pads, extra, dilations = (
        for_each_axis(v, count, operator, name)
        for v, name in ((stride, "stride"), (padding, "padding"), (output_padding, "output_padding"), (dilation, "dilation"))
    )
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, dilations, strict=True)):
        raise RuntimeError(
            f"{operator}: output padding must be smaller than either stride or dilation, but got {extra}, {steps} and {dilations}"
        )
    if x.dtype.is_complex:
        return _by_real_channels(operator, x, weight, bias, groups, (stride, padding, output_padding, groups, dilation), 1)
    sizes = [int(k) for k in weight.shape[2:]]
    lengths = [
        (n - 1) * s + d * (k - 1) + 1 + e - 2 * a
        for n, s, d, k, e, a in zip(x.shape[2:], steps, dilations, sizes, extra, pads, strict=True)
    ]
    return _with_bias(image_gradient(x, weight, pads, lengths, steps, dilations, groups), bias, 1)


def _transposed_samples(count: int) -> Callable[[SampleMaker], Calls]:
    n = {1: (5,), 2: (3, 4), 3: (2, 3, 2)}[count]
    k = {1: (3,), 2: (3, 2), 3: (2, 1, 2)}[count]

    def samples(m: SampleMaker) -> Calls:
        x, weight = m.float(2, 4, *n), m.float(4, 3, *k)
        out = [case(x, weight, m.float(3)), case(x[:1], weight, None, 2, 0, 1), case(x[0], weight, m.float(3), 2)]
        return [*out, case(x, m.float(4, 2, *k), m.float(4), 1, 0, 0, 2), case(x, weight, None, 2, 1, 1, 1, 2)]

    return samples


@op(promote="same", samples=_transposed_samples(1))
def conv_transpose1d(
    x: Value, weight: Value, bias: Value | None = None, stride: Ints = 1, padding: Ints = 0, output_padding: Ints = 0,
    groups: int = 1, dilation: Ints = 1,
) -> Node:  # fmt: skip
    """[b, c, l] and [c, o / groups, k] -> [b, o, n]: each element adds a multiple of the kernel to its window."""
    return transposed_convolution("conv_transpose1d", x, weight, bias, 1, stride, padding, output_padding, groups, dilation)


@op(promote="same", samples=_transposed_samples(2))
def conv_transpose2d(
    x: Value, weight: Value, bias: Value | None = None, stride: Ints = 1, padding: Ints = 0, output_padding: Ints = 0,
    groups: int = 1, dilation: Ints = 1,
) -> Node:  # fmt: skip
    """As ``conv_transpose1d`` with two spatial dimensions."""
    return transposed_convolution("conv_transpose2d", x, weight, bias, 2, stride, padding, output_padding, groups, dilation)


@op(promote="same", samples=_transposed_samples(3))
def conv_transpose3d(
    x: Value, weight: Value, bias: Value | None = None, stride: Ints = 1, padding: Ints = 0, output_padding: Ints = 0,
    groups: int = 1, dilation: Ints = 1,
) -> Node:  # fmt: skip
    """As ``conv_transpose1d`` with three spatial dimensions."""
    return transposed_convolution("conv_transpose3d", x, weight, bias, 3, stride, padding, output_padding, groups, dilation)


def _transposed_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    x, weight, bias, stride, padding, _, groups, dilation = arguments
    (g,), images, count = g, x, weight.rank - 2
    if x.rank == count + 1:
        g, images = with_axis(g, 0), with_axis(x, 0)
    sizes = [int(k) for k in weight.shape[2:]]
    steps, dilations, pads = (for_each_axis(v, count, "conv_transpose", "stride") for v in (stride, dilation, padding))
    # What the output lacks of whole windows at either end is padding, what it has beyond them took no part.
    ends = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(images.shape[2:], steps, dilations, sizes, strict=True)]
    around = padded(g, 2, pads, [end - a - n for end, a, n in zip(ends, pads, g.shape[2:], strict=True)])
    by_x = correlated(around, weight, steps, dilations, groups)
    by_weight = filter_gradient(around, images, sizes, steps, dilations, groups)
    return p.reshape(by_x, shape=x.shape), by_weight, _bias_gradient(g, bias)


for _operator in (conv_transpose1d, conv_transpose2d, conv_transpose3d):
    _operator.derivative = _transposed_derivative


# -- windows as columns -----------------------------------------------------------------------------------
def _column_settings(operator: str, *settings: Ints) -> tuple[tuple[int, ...], ...]:
    names = ("kernel_size", "dilation", "padding", "stride")
    return tuple(for_each_axis(v, 2, operator, name) for v, name in zip(settings, names, strict=True))


@op(samples=lambda m: [case(m.float(2, 3, 5, 4), (2, 3)), case(m.float(2, 5, 5), 2, 2, 1, 2), case(m.float(1, 2, 4, 4), 1)])
def im2col(x: Value, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> Node:
    """``nn.functional.unfold``: the windows of images [b, c, h, w] as columns [b, c * kh * kw, windows]."""
    if x.rank == 3:
        out = im2col(p.reshape(x, shape=(1, *x.shape)), kernel_size, dilation, padding, stride)
        return p.reshape(out, shape=out.shape[1:])
    if x.rank != 4:
        raise RuntimeError(f"im2col: Expected 3D or 4D (batch mode) tensor, but got {list(x.shape)}")
    sizes, dilations, pads, steps = _column_settings("im2col", kernel_size, dilation, padding, stride)
    x = padded(x, 2, pads, pads)
    _check_lengths("im2col", x.shape[2:], sizes, dilations)
    view = windows(x, 2, sizes, steps, dilations)
    columns = p.permute(view, axes=(0, 1, 4, 5, 2, 3))
    return p.reshape(columns, shape=(x.shape[0], x.shape[1] * product(sizes), product(view.shape[2:4])))


@op(
    promote="same",
    samples=lambda m: [
        case(m.float(2, 18, 9), (4, 5), (2, 3)),
        case(m.float(8, 9), (5, 5), 2, 1, 1, 2),
        case(m.float(1, 8, 9), (6, 6), 2, 1, 0, 2),
    ],
)
def col2im(x: Value, output_size: Sizes, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> Node:
    """``nn.functional.fold``: columns [b, c * kh * kw, windows] added into images [b, c, h, w] where windows overlap."""
    if x.rank == 2:
        out = col2im(p.reshape(x, shape=(1, *x.shape)), output_size, kernel_size, dilation, padding, stride)
        return p.reshape(out, shape=out.shape[1:])
    sizes, dilations, pads, steps = _column_settings("col2im", kernel_size, dilation, padding, stride)
    lengths = as_sizes(output_size)
    whole = [n + 2 * a for n, a in zip(lengths, pads, strict=True)]
    counts = [p.window_count(n, k, s, d) for n, k, s, d in zip(whole, sizes, steps, dilations, strict=True)]
    if x.rank != 3 or not x.shape[1] % product(sizes) == 0 or not x.shape[2] == product(counts):
        raise RuntimeError(
            f"col2im: Given output_size={lengths}, kernel_size={sizes}, dilation={dilations}, padding={pads}, stride={steps}, expected "
            f"columns of {product(sizes)} elements for each channel and {counts[0]} * {counts[1]} windows, but got {list(x.shape)}"
        )
    channels = x.shape[1] // product(sizes)
    view = p.permute(p.reshape(x, shape=(x.shape[0], channels, *sizes, *counts)), axes=(0, 1, 4, 5, 2, 3))
    out = folded(view, 2, whole, sizes, steps, dilations)
    for i, amount in enumerate(pads):
        out = cut(out, 2 + i, amount, lengths[i]) if amount else out
    return out
