"""The text of tensors, held to what PyTorch prints."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from flambeau.core import dtypes
from flambeau.tensor.printing import get_printoptions, printoptions, set_printoptions, tensor_text

INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def show(values: object, name: str = "float32", **more: object) -> str:
    element = dtypes.by_name(name)
    stored = np.float32 if name == "bfloat16" else element.numpy
    return tensor_text(np.asarray(values, stored), element, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "name", "text"),
    [
        ([1.5, -2.25, NAN, INF], "float32", "tensor([ 1.5000, -2.2500,     nan,     inf])"),
        ([1e-5, 1.0], "float32", "tensor([1.0000e-05, 1.0000e+00])"),
        ([1e9, 1.5], "float32", "tensor([1.0000e+09, 1.5000e+00])"),
        ([1.0, 20000.0, INF, -0.0], "float32", "tensor([1.0000e+00, 2.0000e+04,        inf, -0.0000e+00])"),
        ([0.0, NAN, -INF], "float32", "tensor([0., nan, -inf])"),
        ([1.0, -20.0, INF], "float32", "tensor([  1., -20.,  inf])"),
        ([1.5, 2.0], "float64", "tensor([1.5000, 2.0000], dtype=torch.float64)"),
        ([[1.0, 2.0]], "bfloat16", "tensor([[1., 2.]], dtype=torch.bfloat16)"),
        ([1, -20], "int64", "tensor([  1, -20])"),
        ([1, 2], "int32", "tensor([1, 2], dtype=torch.int32)"),
        ([True, False], "bool", "tensor([ True, False])"),
        ([1 + 2j, -1.5 - 0.25j], "complex64", "tensor([ 1.0000+2.0000j, -1.5000-0.2500j])"),
        (1 - 1j, "complex128", "tensor(1.-1.j, dtype=torch.complex128)"),
        (3.14159, "float32", "tensor(3.1416)"),
        (7, "int64", "tensor(7)"),
        ([], "float32", "tensor([])"),
        ([], "int64", "tensor([], dtype=torch.int64)"),
        (np.empty((0, 3)), "float32", "tensor([], size=(0, 3))"),
        (np.empty((2, 0)), "bool", "tensor([], size=(2, 0), dtype=torch.bool)"),
    ],
)
def test_short_tensors(values: object, name: str, text: str) -> None:
    assert show(values, name) == text


def test_nested_brackets_line_up() -> None:
    assert show(np.arange(24.0).reshape(2, 3, 4)) == """\
tensor([[[ 0.,  1.,  2.,  3.],
         [ 4.,  5.,  6.,  7.],
         [ 8.,  9., 10., 11.]],

        [[12., 13., 14., 15.],
         [16., 17., 18., 19.],
         [20., 21., 22., 23.]]])"""


def test_long_rows_are_broken() -> None:
    assert show(np.linspace(0, 1, 30)) == """\
tensor([0.0000, 0.0345, 0.0690, 0.1034, 0.1379, 0.1724, 0.2069, 0.2414, 0.2759,
        0.3103, 0.3448, 0.3793, 0.4138, 0.4483, 0.4828, 0.5172, 0.5517, 0.5862,
        0.6207, 0.6552, 0.6897, 0.7241, 0.7586, 0.7931, 0.8276, 0.8621, 0.8966,
        0.9310, 0.9655, 1.0000])"""


def test_large_tensors_are_cut() -> None:
    assert show(np.arange(2000), "int64") == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"
    assert show(np.arange(10000).reshape(100, 100), "int64") == """\
tensor([[   0,    1,    2,  ...,   97,   98,   99],
        [ 100,  101,  102,  ...,  197,  198,  199],
        [ 200,  201,  202,  ...,  297,  298,  299],
        ...,
        [9700, 9701, 9702,  ..., 9797, 9798, 9799],
        [9800, 9801, 9802,  ..., 9897, 9898, 9899],
        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])"""


def test_notes_follow_the_elements() -> None:
    assert show([1.0], requires_grad=True) == "tensor([1.], requires_grad=True)"
    assert show([1.0], requires_grad=True, grad_fn_name="AddBackward0") == "tensor([1.], grad_fn=<AddBackward0>)"
    assert show([1.0], "float16", device="cuda:0") == "tensor([1.], device='cuda:0', dtype=torch.float16)"
    assert show([1.0], class_name="Weights") == "Weights([1.])"
    assert show([1.0], default_dtype=dtypes.float64) == "tensor([1.], dtype=torch.float32)"
    assert show(np.ones(8), "float64", requires_grad=True) == """\
tensor([1., 1., 1., 1., 1., 1., 1., 1.], dtype=torch.float64,
       requires_grad=True)"""


def test_options() -> None:
    with printoptions(precision=2, linewidth=20):
        assert show([1.0, 0.126, 3.0]) == "tensor([1.00, 0.13,\n        3.00])"
    with printoptions(threshold=5, edgeitems=1):
        assert show(np.arange(10), "int64") == "tensor([0,  ..., 9])"
    with printoptions(threshold=5, edgeitems=0):
        assert show(np.arange(10), "int64") == "tensor([...], size=(10,))"
    with printoptions(sci_mode=True):
        assert show([1.0, 2.0]) == "tensor([1.0000e+00, 2.0000e+00])"
    with printoptions(sci_mode=False):
        assert show([1e-5, 1.0]) == "tensor([0.0000, 1.0000])"
    set_printoptions(profile="short")
    assert get_printoptions() == {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80, "sci_mode": None}
    with pytest.raises(ValueError, match="profile 'long' is not one of default, short, full"):
        set_printoptions(profile="long")
