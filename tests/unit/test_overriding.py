"""Overriding of public functions: subclasses of Tensor, other objects, modes, default devices."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import threading
from typing import Any

import pytest

import flambeau as torch
from flambeau.nn import functional
from flambeau.overrides import TorchFunctionMode, handle_torch_function, has_torch_function, resolve_name, wrap_torch_function
from flambeau.tensor import overriding
from flambeau.utils._python_dispatch import TorchDispatchMode


class Plain(torch.Tensor):
    """A subclass that only is another class."""


LOG: list[Any] = []


class Logging(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(func)
        return super().__torch_function__(func, types, args, kwargs)


class Other:
    """An object that is no tensor and answers every function with its name."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "answered", func, tuple(args), kwargs


class Refusing:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Mode(TorchFunctionMode):
    def __init__(self, name: str = "") -> None:
        self.name = name
        self.seen: list[Any] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        LOG.append((self.name, func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def empty_log() -> None:
    LOG.clear()


def ones(*shape: int) -> Any:
    return torch.ones(*shape).as_subclass(Logging)


# -- subclasses -----------------------------------------------------------------------------------------
def test_results_keep_the_class():
    x = torch.tensor([[3.0, 1.0], [2.0, 4.0]]).as_subclass(Plain)
    for result in (x + 1, 1 - x, torch.relu(x), x.sum(), x[0], functional.softmax(x, -1), x.t(), torch.cat([x, torch.ones(1, 2)]), x.data):
        assert type(result) is Plain
    assert [type(part) for part in torch.split(x, 1)] == [Plain, Plain]
    values, indices = torch.max(x, 0)
    assert type(values) is type(indices) is Plain and type(torch.max(x, 0)).__name__ == type(torch.max(torch.ones(2, 2), 0)).__name__
    assert type(x.shape) is torch.Size and type(x.numpy()).__name__ == "ndarray" and type(x.sum().item()) is float


def test_the_lower_class_wins_and_strangers_do_not_mix():
    class Lower(Plain):
        pass

    class Stranger(torch.Tensor):
        pass

    x, low, strange = (torch.ones(2).as_subclass(c) for c in (Plain, Lower, Stranger))
    assert type(x + low) is type(low + x) is Lower
    with pytest.raises(TypeError, match="unsupported operand"):
        x + strange
    with pytest.raises(TypeError, match=r"no implementation found for 'torch.add'.*Plain.*Stranger"):
        torch.add(x, strange)


def test_in_place_gives_the_object_itself():
    x = torch.ones(2).as_subclass(Plain)
    y = x
    y += 1
    assert y is x and x.mul_(2) is x and x.tolist() == [4.0, 4.0]


def test_gradients_flow_through_a_subclass():
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    x = leaf.as_subclass(Plain)
    assert not x.is_leaf and type((x * x).sum()) is Plain
    (x * x).sum().backward()
    assert leaf.grad.tolist() == [2.0, 4.0] and type(leaf.grad) is torch.Tensor
    own = torch.Tensor._make_subclass(Plain, torch.ones(2), True)
    (own * 3).sum().backward()
    assert own.is_leaf and own.grad.tolist() == [3.0, 3.0]


def test_a_subclass_of_a_view_stays_a_view():
    base = torch.zeros(4)
    part = base[1:3].as_subclass(Plain)
    part.add_(5)
    assert base.tolist() == [0.0, 5.0, 5.0, 0.0]
    base = torch.zeros(4, requires_grad=True) * 1
    base[1:3].as_subclass(Plain).fill_(2)
    assert base.tolist() == [0.0, 2.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x + 1", "add"), ("1 + x", "add"), ("x - 1", "sub"), ("1 - x", "__rsub__"), ("2 * x", "mul"), ("x / 2", "div"),
        ("2 / x", "__rdiv__"), ("x // 2", "__floordiv__"), ("2 // x", "__rfloordiv__"), ("x % 2", "remainder"),
        ("2 % x", "__rmod__"), ("x ** 2", "pow"), ("2 ** x", "__rpow__"), ("x @ x", "matmul"), ("x == 1", "__eq__"),
        ("x != 1", "ne"), ("x < 1", "lt"), ("x >= 1", "ge"), ("-x", "neg"), ("+x", "positive"), ("abs(x)", "abs"),
        ("x[0]", "__getitem__"), ("len(x)", "__len__"), ("x.shape", "__get__"), ("x.size()", "size"), ("x.sum()", "sum"),
        ("torch.mean(x, dim=0)", "mean"), ("repr(x)", "__repr__"), ("torch.stack([x])", "stack"), ("x.tolist()", "tolist"),
        ("functional.linear(x, torch.ones(3, 2))", "linear"), ("functional.relu(x)", "relu"),
        ("torch.zeros_like(x)", "zeros_like"), ("torch.where(x > 0, x, x)", "gt where"), ("x.requires_grad_()", "requires_grad_"),
        ("torch.numel(x)", "numel"), ("hash(x)", ""), ("torch.is_tensor(x)", ""),
        ("functional.cross_entropy(x, torch.tensor([0, 1]))", "cross_entropy"), ("x.add_(1)", "add_"), ("torch.tensor(1.0)", ""),
        ("x.new_zeros(2)", "new_zeros"), ("torch.max(x)", "max"), ("functional.dropout(x, 0.0)", "dropout"),
    ],
)  # fmt: skip
def test_what_the_class_is_asked(text, names):
    """As PyTorch 2.13 asks."""
    x = ones(2, 2)
    eval(text, globals(), {"x": x})
    assert [f.__name__ for f in LOG] == names.split()


def test_what_is_asked_is_the_public_function():
    x = ones(2)
    torch.add(x, 1)
    x.add(1)
    x.shape  # noqa: B018
    assert [torch.add, torch.Tensor.add, torch.Tensor.shape.__get__] == LOG
    assert [resolve_name(f) for f in LOG] == ["torch.add", "torch.Tensor.add", "torch.Tensor.shape.__get__"]
    assert resolve_name(len) is None


def test_references_made_before_are_overridden_and_signatures_stay():
    from flambeau.tensor.functions_pointwise import relu

    assert relu is torch.relu and type(relu(ones(2))) is Logging
    assert list(inspect.signature(torch.mean).parameters) == ["input", "dim", "keepdim", "dtype", "out"]
    assert str(inspect.signature(torch.Tensor.add)).startswith("(self, other")
    assert "mean along" in torch.mean.__doc__ and pickle.loads(pickle.dumps(torch.mean)) is torch.mean


def test_arguments_of_functions_are_checked_as_before():
    with pytest.raises(TypeError):
        torch.relu()
    with pytest.raises(TypeError):
        torch.mean(torch.ones(2), nonsense=1)


def test_without_overriding():
    x = ones(2)
    with torch._C.DisableTorchFunctionSubclass():
        assert not torch._C._is_torch_function_enabled()
        assert type(x + 1) is torch.Tensor and type(torch.relu(x)) is torch.Tensor
    assert LOG == [] and torch._C._is_torch_function_enabled()


def test_a_class_that_disables_it():
    class Quiet(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert type(torch.ones(2).as_subclass(Quiet) + 1) is torch.Tensor
    p = torch.nn.Parameter(torch.ones(2))
    assert type(p * 2) is torch.Tensor and not has_torch_function((p,))


def test_numbers_that_operators_compute_are_the_same():
    x = torch.linspace(-2, 2, 7)
    y = x.as_subclass(Plain)
    for function in (torch.exp, torch.sigmoid, lambda t: t * 2 - t / 3, lambda t: functional.gelu(t), lambda t: t.var()):
        assert torch.equal(function(y).as_subclass(torch.Tensor), function(x))


# -- other objects --------------------------------------------------------------------------------------
def test_objects_answer_functions_methods_and_operators():
    o, t = Other(), torch.ones(2)
    assert torch.relu(o) == ("answered", torch.relu, (o,), {})
    assert torch.mean(o, dim=0) == ("answered", torch.mean, (o,), {"dim": 0})
    assert (t + o)[1] is torch.Tensor.add and t.matmul(o)[1] is torch.Tensor.matmul
    assert torch.cat([t, o])[1] is torch.cat and functional.linear(t, o)[1] is functional.linear
    with pytest.raises(TypeError, match=r"no implementation found for 'torch.relu'.*Refusing"):
        torch.relu(Refusing())
    assert torch.overrides.is_tensor_like(o) and torch.overrides.is_tensor_like(t) and not torch.overrides.is_tensor_like(3)


def answers(function: Any, *args: Any) -> str:
    """What a function gives in a child process: "ok" where the object answered for that very function."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()
        try:
            found = function(*args)
            text = "ok" if isinstance(found, tuple) and found[:2] == ("answered", function) else f"gave {found!r}"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


FIRST_CALLS = """
import sys
sys.path.insert(0, {tests!r})
import inspect
import flambeau as torch
import flambeau.fft, flambeau.nn.functional, flambeau.special
from flambeau.tensor import overriding
from flambeau.nn import functional as F

class Other:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "answered", func

import gc, os
{answers}
assert not overriding._armed
o, t = Other(), torch.ones(2)
calls = [
    (torch.where, o, t, t), (torch.div, o, 2), (torch.pow, 2, o), (torch.cat, [t, o]), (torch.stack, (o,)), (torch.split, o, 1),
    (torch.split, o, [1, 2]), (torch.reshape, o, (1, 2)), (torch.permute, o, (0, 1)), (torch.flip, o, (0,)), (torch.max, o),
    (torch.max, t, o), (torch.max, o, 0), (torch.min, o), (torch.std, o), (torch.var, o, 0), (F.softmax, o, -1), (F.log_softmax, o, 1),
    (torch.vstack, (t, o)),
    (F.layer_norm, o, (2,)), (torch.sum, o), (F.linear, t, o), (F.dropout, o, 0.5, False), (torch.einsum, "i,i", o, t),
]
for space in overriding.published()[:-1]:
    for name, function in overriding.overridable(space).items():
        if name in overriding._MAKERS | overriding._QUICK | {{"nonzero_static"}}:
            continue
        plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind in plain]
        calls.append((function, *[Other() for _ in needed or "1"]))
# What has a stub already answers without arming; the others are called in processes of their own.
known = [c for c in calls if "_overriding" in (c[0].__kwdefaults__ or ())]
bad = [f.__name__ for f, *args in known if f(*args) != ("answered", f)]
assert not overriding._armed
bad += [(f.__name__, found) for f, *args in calls if (f, *args) not in known and (found := answers(f, *args)) != "ok"]
assert len(calls) > 500 and not bad, bad
"""


def test_the_first_call_ever_with_an_object_is_answered(tmp_path):
    """In a process where nothing was overridden before, each function by itself."""
    import subprocess
    import sys

    program = tmp_path / "first.py"
    program.write_text(FIRST_CALLS.format(tests=os.getcwd(), answers=inspect.getsource(answers).replace("Any", "object")))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]


# -- functions of one's own -----------------------------------------------------------------------------
def test_own_functions_can_be_overridden():
    def double(x):
        if has_torch_function((x,)):
            return handle_torch_function(double, (x,), x)
        return x * 2

    assert double(Other())[1] is double
    with Mode() as mode:
        double(torch.ones(1))
    assert double in mode.seen

    @wrap_torch_function(lambda a, b=None: (a, b))
    def pair(a, b=None):
        return a, b

    assert pair(1, 2) == (1, 2) and pair(1, b=Other())[1] is pair


def test_lists_of_what_can_be_overridden():
    found = torch.overrides.get_overridable_functions()
    assert torch.add in found["torch"] and functional.relu in found["torch.nn.functional"] and torch.Tensor.add in found["torch.Tensor"]
    assert torch.Tensor.shape.__get__ in found["torch.Tensor"] and torch.manual_seed not in found["torch"]
    assert "manual_seed" in torch.overrides.get_ignored_functions()
    assert torch.overrides.is_tensor_method_or_property(torch.Tensor.add) and not torch.overrides.is_tensor_method_or_property(torch.add)
    assert torch.Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions()


# -- modes ----------------------------------------------------------------------------------------------
def test_modes_nest_and_are_off_inside():
    with Mode("outer"), Mode("inner"):
        torch.relu(torch.zeros(1))
    names = [(n, f.__name__) for n, f in LOG]
    assert names == [("inner", "zeros"), ("outer", "zeros"), ("inner", "relu"), ("outer", "relu")]
    LOG.clear()
    torch.ones(1) + 1
    assert LOG == [] and torch._C._len_torch_function_stack() == 0


def test_modes_see_operators_methods_attributes_and_makers():
    x = torch.ones(2)
    with Mode() as mode:
        x + x
        x @ x
        -x  # noqa: B018
        x[0]
        x.shape  # noqa: B018
        x.mul_(2)
        torch.rand(1)
        torch.tensor([1.0])
        functional.relu(x)
    assert [f.__name__ for f in mode.seen] == "add matmul neg __getitem__ __get__ mul_ rand tensor relu".split()


def test_a_mode_can_replace_results_and_leave_the_call_to_others():
    class Doubling(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {})) * 2 if func is torch.relu else NotImplemented

    x, y = torch.ones(1), Other()
    with Doubling():
        doubled, other = torch.relu(x), torch.abs(y)
        with pytest.raises(TypeError, match=r"no implementation found for 'torch.abs'.*active mode"):
            torch.abs(x)
    assert doubled.item() == 2.0 and other[1] is torch.abs


def test_errors_leave_modes_as_they_were():
    class Failing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise LookupError("in the mode")

    with pytest.raises(LookupError, match="in the mode"), Failing():
        torch.relu(torch.ones(1))
    assert torch.overrides._get_current_function_mode() is None and torch.relu(torch.ones(1)).item() == 1.0
    with pytest.raises(NotImplementedError, match="needs a method"), TorchFunctionMode():
        torch.ones(1)


def test_modes_belong_to_a_thread():
    found = []
    with Mode() as mode:
        thread = threading.Thread(target=lambda: found.append(torch.relu(torch.ones(1)).item()))
        thread.start()
        thread.join()
    assert found == [1.0] and mode.seen == []


def test_modes_see_training():
    layer = torch.nn.Linear(2, 1)
    with Mode() as mode:
        layer(torch.ones(1, 2)).sum().backward()
    assert {"linear", "sum", "backward"} <= {f.__name__ for f in mode.seen} and layer.weight.grad is not None


def test_without_modes():
    with Mode() as mode, torch._C.DisableTorchFunction():
        torch.relu(torch.ones(1))
    assert mode.seen == []


# -- modes of operators ---------------------------------------------------------------------------------
def test_modes_of_operators():
    class Telling(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            LOG.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with Telling():
        y = functional.softmax(x * 2, 0)
        z = y.detach().clone().add_(1)
        with Telling():
            total = y.sum()
    assert [n for n in LOG if n in ("mul", "softmax", "add_", "sum")] == ["mul", "softmax", "add_", "sum", "sum"]
    assert torch.equal(z, functional.softmax(torch.tensor([2.0, 4.0]), 0) + 1)
    total.backward()
    assert x.grad is not None
    LOG.clear()
    x + 1
    assert LOG == []


def test_a_mode_of_operators_can_replace_results():
    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found = func(*args, **(kwargs or {}))
            return torch.zeros_like(found) if func.__name__ == "relu" else found

    with Zeros():
        assert torch.relu(torch.ones(2)).tolist() == [0.0, 0.0]


# -- devices --------------------------------------------------------------------------------------------
def test_devices_as_contexts_and_defaults():
    assert torch.get_default_device() == torch.device("cpu")
    with torch.device("cpu") as device:
        assert torch.ones(2).device == device
        assert torch.get_default_device() == device
    with torch.device("cuda"), pytest.raises(RuntimeError):
        if torch.cuda.is_available():
            raise RuntimeError
        torch.ones(2)
    with torch.device("cuda"):
        assert torch.ones(2, device="cpu").device.type == "cpu"
        assert torch.zeros_like(torch.ones(2, device="cpu")).device.type == "cpu"
        with torch.device("cpu"):
            assert torch.zeros(1).device.type == "cpu"
        assert torch.get_default_device().type == "cuda"
    assert torch.get_default_device().type == "cpu"
    with torch.device("meta"):
        assert torch.ones(2).is_meta


def test_set_default_device():
    torch.set_default_device("cpu")
    assert torch.rand(1).device.type == "cpu"
    torch.set_default_device("cuda:1")
    try:
        assert torch.get_default_device() == torch.device("cuda:1")
        assert torch.tensor([1.0], device="cpu").device.type == "cpu"
    finally:
        torch.set_default_device(None)
    with pytest.raises(RuntimeError, match="device type"):
        torch.set_default_device("nonsense")


def test_a_device_around_a_function():
    @torch.device("cpu")
    def make(n):
        return torch.ones(n)

    assert make(2).device.type == "cpu" and make.__name__ == "make"


def test_has_torch_function():
    assert has_torch_function((1, torch.ones(1), Other())) and has_torch_function(([ones(1)],))
    assert not has_torch_function((1, torch.ones(1), None))
    assert overriding.overrides(Plain) and not overriding.overrides(int)


def test_names_of_functions_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert overriding.name_of(torch.add) == "torch.add" and overriding.name_of(len) is None
    monkeypatch.setattr(overriding, "overridable", None)  # all functions of the library, which takes as long as a thousand operators
    assert overriding.name_of(torch.Tensor.add) == "torch.Tensor.add" and overriding.name_of(len) is None
    assert overriding.name_of(torch.Tensor.shape.__get__) == "torch.Tensor.shape.__get__"
