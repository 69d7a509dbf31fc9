"""Convolutions as they run: random settings against numpy, gradients as adjoints, and what is fused and read in place."""

from __future__ import annotations

import ctypes
import mmap
from itertools import product
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import ops
from flambeau import prims as p
from flambeau.compilation.program import Program
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.config import config
from flambeau.core.symbolic import SizeScope, axis, symbol
from flambeau.interp.reference import run_reference
from flambeau.interp.tracing import tensor_slots, trace_operator
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.node import Node, walk
from flambeau.prims.reduction import transpose
from flambeau.schedule.legalize import legalize
from flambeau.schedule.operands import strided_operand
from flambeau.schedule.schedule import InputSpec, OutputSpec
from flambeau.schedule.views import blocks, reads_of
from flambeau.schedule.windows import Digits, window_operand
from tests.ops.test_reference_convolution import ORACLES

Settings = dict[str, Any]


def random_call(generator: np.random.Generator) -> tuple[int, np.ndarray, np.ndarray, Settings]:
    """Spatial axes, images, filters and options: odd sizes, empty batches, groups, channels on their own, more step than filter."""
    count = int(generator.integers(1, 4))
    groups = int(generator.choice([1, 1, 2, 3]))
    per_in, per_out = int(generator.integers(1, 6)), int(generator.integers(1, 40))
    size, step = ([int(generator.integers(1, 5)) for _ in range(count)] for _ in range(2))
    dilation, padding = [int(generator.integers(1, 3)) for _ in range(count)], [int(generator.integers(0, 3)) for _ in range(count)]
    most = {1: 70, 2: 24, 3: 9}[count]
    least = [max(1, d * (k - 1) + 1 - 2 * a) for k, d, a in zip(size, dilation, padding, strict=True)]
    lengths = [int(generator.integers(low, low + most)) for low in least]
    batch = int(generator.choice([0, 1, 2, 5]))
    x = generator.standard_normal((batch, groups * per_in, *lengths))
    weight = generator.standard_normal((groups * per_out, per_in, *size))
    return count, x, weight, {"stride": tuple(step), "padding": tuple(padding), "dilation": tuple(dilation), "groups": groups}


def close(found: np.ndarray, wanted: np.ndarray, terms: int, unit: float) -> None:
    assert found.shape == wanted.shape
    scale = np.abs(wanted).max(initial=1.0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=scale * unit * (10 + terms**0.5))


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(12))
def test_random_settings_and_adjoints(seed: int, name: str) -> None:
    """Convolution is linear in images and in filters, so that its gradients are adjoints: g . conv(d, w) == d . gradient."""
    generator = np.random.default_rng([seed, 71])
    count, x, weight, options = random_call(generator)
    kind, unit = getattr(torch, name), {"float32": 6e-7, "float64": 1e-15}[name]
    numbers = {k: options[k] for k in ("stride", "padding", "dilation", "groups")}
    bias = generator.standard_normal(weight.shape[0])
    tensors = [torch.from_numpy(a).to(kind).requires_grad_() for a in (x, weight, bias)]
    x, weight, bias = (t.detach().double().numpy() for t in tensors)

    def oracle(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        return ORACLES[f"conv{count}d"](x, weight, bias, *numbers.values())

    out = getattr(F, f"conv{count}d")(*tensors, **numbers)
    close(out.detach().double().numpy(), oracle(x, weight, bias), weight[0].size, unit)
    g = generator.standard_normal(out.shape)
    gradients = [t.double().numpy() for t in torch.autograd.grad(out, tensors, torch.from_numpy(g).to(kind))]
    g = torch.from_numpy(g).to(kind).double().numpy()
    close(gradients[2], g.sum((0, *range(2, g.ndim))), g.size, unit)
    dx, dw = generator.standard_normal(x.shape), generator.standard_normal(weight.shape)
    for direction, gradient, moved in ((dx, gradients[0], oracle(dx, weight, None)), (dw, gradients[1], oracle(x, dw, None))):
        wanted, found = float((g * moved).sum()), float((direction * gradient).sum())
        assert abs(found - wanted) <= unit * 40 * (np.linalg.norm(g) * np.linalg.norm(moved) + 1)


@pytest.mark.parametrize("seed", range(6))
def test_random_transposed_settings(seed: int) -> None:
    generator = np.random.default_rng([seed, 72])
    count, x, weight, options = random_call(generator)
    weight = generator.standard_normal((x.shape[1], 3, *weight.shape[2:]))
    lengths = zip(x.shape[2:], options["stride"], options["dilation"], weight.shape[2:], strict=True)
    room = [(n - 1) * s + d * (k - 1) for n, s, d, k in lengths]
    padding = tuple(min(a, r // 2) for a, r in zip(options["padding"], room, strict=True))
    extra = tuple(max(s, d) - 1 for s, d in zip(options["stride"], options["dilation"], strict=True))
    arguments = (options["stride"], padding, extra, options["groups"], options["dilation"])
    tensors = [torch.from_numpy(a).requires_grad_() for a in (x, weight)]
    oracle = ORACLES[f"conv_transpose{count}d"]
    out = getattr(F, f"conv_transpose{count}d")(*tensors, None, *arguments)
    close(out.detach().numpy(), oracle(x, weight, None, *arguments), weight.size, 1e-15)
    g = generator.standard_normal(out.shape)
    by_x, by_weight = (t.numpy() for t in torch.autograd.grad(out, tensors, torch.from_numpy(g)))
    dx, dw = generator.standard_normal(x.shape), generator.standard_normal(weight.shape)
    for direction, gradient, moved in ((dx, by_x, oracle(dx, weight, None, *arguments)), (dw, by_weight, oracle(x, dw, None, *arguments))):
        assert abs((direction * gradient).sum() - (g * moved).sum()) <= 1e-13 * (np.linalg.norm(g) * np.linalg.norm(moved) + 1)


@pytest.mark.parametrize(
    ("size", "step", "groups"), [((8, 8), 8, 1), ((3, 2), 5, 2), ((9, 5), 6, 1), ((1, 1), 7, 1), ((9, 9), 1, 4), ((2, 70), 1, 4)]
)
def test_large_steps_and_long_filters(size: tuple[int, int], step: int, groups: int) -> None:
    """More residues than products are made for, windows that do not meet, and filters of one channel with many elements."""
    generator = np.random.default_rng(3)
    x, weight = generator.standard_normal((2, 4, 19, 77)), generator.standard_normal((8, 4 // groups, *size))
    tensors = [torch.from_numpy(a).requires_grad_() for a in (x, weight)]
    out = F.conv2d(*tensors, stride=step, padding=1, groups=groups)
    oracle = ORACLES["conv2d"]
    close(out.detach().numpy(), oracle(x, weight, None, step, 1, 1, groups), weight[0].size, 1e-15)
    g, d = generator.standard_normal(out.shape), generator.standard_normal(x.shape)
    by_x, by_weight = (t.numpy() for t in torch.autograd.grad(out, tensors, torch.from_numpy(g)))
    assert abs((by_x * d).sum() - (g * oracle(d, weight, None, step, 1, 1, groups)).sum()) < 1e-9
    d = generator.standard_normal(weight.shape)
    assert abs((by_weight * d).sum() - (g * oracle(x, d, None, step, 1, 1, groups)).sum()) < 1e-9


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_are_widened_where_they_are_packed(name: str) -> None:
    generator = np.random.default_rng(4)
    kind = getattr(torch, name)
    x, weight = (torch.from_numpy(generator.standard_normal(s)).to(kind) for s in ((3, 6, 11, 9), (10, 6, 3, 2)))
    for step in (1, 2):
        wanted = ORACLES["conv2d"](x.double().numpy(), weight.double().numpy(), None, step, 1)
        found = F.conv2d(x, weight, stride=step, padding=1).double().numpy()
        np.testing.assert_allclose(found, wanted, rtol=0, atol={"float16": 2e-3, "bfloat16": 2e-2}[name] * np.abs(wanted).max())


def test_images_are_read_with_any_strides() -> None:
    generator = np.random.default_rng(5)
    x, weight = generator.standard_normal((2, 9, 12, 5)), generator.standard_normal((7, 5, 3, 3))
    images = torch.from_numpy(x).permute(0, 3, 1, 2)
    assert not images.is_contiguous()
    close(F.conv2d(images, torch.from_numpy(weight)).numpy(), ORACLES["conv2d"](x.transpose(0, 3, 1, 2), weight), 45, 1e-15)
    flipped = torch.from_numpy(x).permute(0, 3, 1, 2)[:, :, ::2]
    close(F.conv2d(flipped, torch.from_numpy(weight)).numpy(), ORACLES["conv2d"](x.transpose(0, 3, 1, 2)[:, :, ::2], weight), 45, 1e-15)


def test_gradients_of_gradients() -> None:
    generator = np.random.default_rng(6)
    x, weight = (torch.from_numpy(generator.standard_normal(s)).requires_grad_() for s in ((1, 2, 5, 6), (2, 2, 3, 2)))
    for options in ({"stride": 2, "padding": 1}, {"groups": 1, "padding": 1}):

        def penalty(x: Any, weight: Any, options: Settings = options) -> Any:
            return torch.autograd.grad((F.conv2d(x, weight, **options) ** 3).sum(), x, create_graph=True)[0].square().sum()

        (found,) = torch.autograd.grad(penalty(x, weight), weight)
        d = torch.from_numpy(generator.standard_normal(weight.shape))
        with torch.no_grad():
            near = [weight + s * 1e-5 * d for s in (1, -1)]
        above, below = (float(penalty(x, w.requires_grad_()).item()) for w in near)
        assert abs((above - below) / 2e-5 - float((found * d).sum().item())) < 1e-5 * abs(above)


def test_threads_and_compiling_change_no_bit() -> None:
    generator = np.random.default_rng(7)
    x, weight, bias = (torch.from_numpy(generator.standard_normal(s).astype(np.float32)) for s in ((5, 24, 19, 21), (48, 24, 3, 3), (48,)))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(F.conv2d(x, weight, bias, padding=1).numpy())
    finally:
        torch.set_num_threads(before)
    found.append(torch.compile(lambda x, w, b: F.conv2d(x, w, b, padding=1))(x, weight, bias).numpy())
    assert len({a.tobytes() for a in found}) == 1


# -- what is read and stored where ------------------------------------------------------------------------
def _images(*shape: Any) -> Node:
    return graph_input("x", Aval(shape, dtypes.float32))


def _product(out: Node) -> Node:
    (found,) = (n for n in walk([out]) if n.op.name == "matmul")
    return found


def test_windows_are_digits_of_rows_and_columns() -> None:
    b, c, h, w = (symbol(n) for n in "bchw")
    with SizeScope({"b": 8, "c": 16, "h": 32, "w": 30}):
        x, weight = _images(b, c, h, w), graph_input("w", Aval((64, c, 3, 3), dtypes.float32))
        factor = _product(ops.conv2d(x, weight, None, 2)).sources[1]
        height, width = (h - 3) // 2 + 1, (w - 3) // 2 + 1
        rows, columns = Digits((c, 3, 3), (h * w, w, 1)), Digits((b, height, width), (c * h * w, 2 * w, 2))
        found, turned = window_operand(factor, {}), window_operand(transpose(factor), {})
        assert found is not None and turned is not None
        assert (found.leaf, found.rows, found.columns) == (x, rows, columns)
        assert (turned.leaf, turned.rows, turned.columns) == (x, columns, rows)
        assert strided_operand(factor, {}) is None
        # Padding is copied before the windows are taken, not after.
        padded = legalize(Graph((x, weight), (ops.conv2d(x, weight, None, 1, 1),)), {})
        sizes = [n.shape for n in padded.nodes() if n.op.name == "copy"]
        assert (b, c, h + 2, w + 2) in sizes and not any(len(s) > 4 for s in sizes)


def test_a_window_that_has_a_stride_is_read_by_it_only_where_it_is_contiguous() -> None:
    """A single channel's windows are a strided matrix, whose strides 2 and 3 the template for strides cannot read."""
    generator = np.random.default_rng(8)
    x, weight = generator.standard_normal((1, 1, 21)), generator.standard_normal((37, 1, 4))
    found = F.conv1d(torch.from_numpy(x), torch.from_numpy(weight), stride=3, dilation=2).numpy()
    close(found, ORACLES["conv1d"](x, weight, None, 3, 0, 2), 4, 1e-15)


@pytest.mark.parametrize("checked", [False, True])
def test_nothing_outside_the_images_is_read(checked: bool) -> None:
    """Images that end where a page ends that may not be followed: reading on would end the process."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    shape, options = (2, 3, 13, 17), ((1, 1), (2, 3))
    count = int(np.prod(shape))
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE * (1 + count * 4 // mmap.PAGESIZE))
    whole = np.frombuffer(memory, np.float32)
    end = whole.size - mmap.PAGESIZE // 4
    x = whole[end - count : end].reshape(shape)
    x[...] = np.random.default_rng(9).standard_normal(shape)
    after = ctypes.c_void_p(whole.ctypes.data + end * 4)
    assert protect(after, mmap.PAGESIZE, 0) == 0
    try:
        for (size, step), dilation in product(zip(((3, 3), (2, 5)), options, strict=True), (1, 2)):
            weight = np.random.default_rng(1).standard_normal((33, 3, *size)).astype(np.float32)
            nodes = _images(*shape), graph_input("w", Aval(weight.shape, dtypes.float32))
            out = ops.conv2d(*nodes, None, step, 0, dilation)
            program = Program(Graph(nodes, (out,)), [InputSpec(None)] * 2, [OutputSpec()])
            result = np.empty(out.shape, np.float32)
            with config.override(checked=checked):
                program.bind({}).run([x.ctypes.data, weight.ctypes.data], [], [result.ctypes.data])
            close(result, ORACLES["conv2d"](x.astype(np.float64), weight, None, step, 0, dilation), weight[0].size, 6e-7)
    finally:
        assert protect(after, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize("options", [{}, {"padding": 1}, {"padding": 1, "stride": 2}, {"stride": 2}, {"groups": 2}])
def test_a_convolution_is_stored_by_its_product(options: Settings) -> None:
    """Whatever the sizes: eager programs know them by name only."""
    before = len(F.conv2d(torch.ones(3, 4, 12, 15), torch.ones(6, 4 // options.get("groups", 1), 3, 3), **options).shape)
    assert before == 4
    b, h, w = (symbol(n) for n in "bhw")
    with SizeScope({"b": 3, "h": 12, "w": 15}):
        nodes = _images(b, 4, h, w), graph_input("w", Aval((6, 4 // options.get("groups", 1), 3, 3), dtypes.float32))
        out = ops.conv2d(*nodes, **options)
    schedule = Program(Graph(nodes, (out,)), [InputSpec(None)] * 2, [OutputSpec()]).schedule
    assert [call.kind for call in schedule.calls] == ["loop"] * ("padding" in options) + ["matmul"]


def test_sizes_that_a_body_needs_are_numbers_in_its_trace() -> None:
    avals = [((2, 4, 9, 8), dtypes.float32, False), ((6, 4, 3, 2), dtypes.float32, False)]
    arguments = (*tensor_slots(0, 2), None, 1, 0, 1, 1)
    function = trace_operator(ops.conv2d, arguments, avals, [], []).function
    assert function.graph.inputs[1].shape[2:] == (3, 2)
    known = function.sizes([(3, 5, 7, 7), (2, 5, 3, 2)])
    assert known is not None and function.holds(known)
    assert function.sizes([(2, 4, 9, 8), (6, 4, 3, 3)]) is None
    # Groups divide channels, which no symbol tells.
    arguments = (*tensor_slots(0, 2), None, 1, 0, 1, 2)
    avals[1] = ((6, 2, 3, 2), dtypes.float32, False)
    function = trace_operator(ops.conv2d, arguments, avals, [], []).function
    assert [n.shape[1] for n in function.graph.inputs] == [4, 2] and function.graph.inputs[1].shape[0] == 6


def test_reshapes_move_nothing_between_blocks() -> None:
    n, m = symbol("n"), symbol("m")
    assert blocks((6, n, 4), (2, 3, n, 2, 2)) == (((0, 1), (0, 2)), ((1, 2), (2, 3)), ((2, 3), (3, 5)))
    assert blocks((n * m, 5), (n, m, 5)) == (((0, 1), (0, 2)), ((1, 2), (2, 3)))
    assert blocks((n, m), (m, n)) == (((0, 2), (0, 2)),)
    assert blocks((0, 3), (3, 0)) == (((0, 2), (0, 2)),)
    place = axis("i", n)
    x = graph_input("x", Aval((m, 2, 5), dtypes.float32))
    (read,) = reads_of(p.reshape(x, shape=(2 * m, 5)), (place + 1, 3))
    assert read.coordinates == ((place + 1) // 2, (place + 1) % 2, 3)


@pytest.mark.parametrize(("size", "step", "n"), [(3, 3, 12), (2, 5, 12), (4, 4, 15), (3, 5, 21), (1, 2, 6)])
def test_windows_that_do_not_meet_are_laid_side_by_side(size: int, step: int, n: int) -> None:
    generator = np.random.default_rng(11)
    count = (n - size) // step + 1
    g, x = generator.standard_normal((2, count, 3, size)), generator.standard_normal((2, n, 3))
    nodes = graph_input("g", Aval(g.shape, dtypes.float64)), graph_input("x", Aval(x.shape, dtypes.float64))
    out = p.fold_windows(nodes[0], 1, n, size, step, 1)
    assert not any(node.op.name == "add" for node in walk([out]))
    folded, seen = run_reference(Graph(nodes, (out, p.window(nodes[1], axis=1, size=size, step=step, dilation=1))), [g, x], {})
    assert folded.shape == x.shape and abs((folded * x).sum() - (g * seen).sum()) < 1e-12


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_short_rows_are_summed_as_if_their_length_were_known(kind: str) -> None:
    """Rows of lengths around the block of vectors: masked in one step where the length is not known, written out where it is."""
    generator = np.random.default_rng(12)
    for n in (2, 7, 15, 16, 17, 31, 33, 48, 63, 64, 65, 79, 100, 127, 128, 130, 191):
        x = torch.from_numpy(generator.standard_normal((5, n))).to(getattr(torch, kind))
        found = x.sum(-1).numpy()
        np.testing.assert_allclose(found, x.double().numpy().sum(-1), rtol=0, atol=1e-5 if kind == "float32" else 1e-13)
        assert found.tobytes() == torch.compile(lambda x: x.sum(-1))(x).numpy().tobytes()
