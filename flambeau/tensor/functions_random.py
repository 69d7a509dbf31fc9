"""Random numbers, in PyTorch's order for the same seed, and the state of their generators."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.context import context
from flambeau.core.dtypes import dtype, dtype_of
from flambeau.core.symbolic import as_size
from flambeau.runtime.generator import Generator as GeneratorState
from flambeau.runtime.generator import default_generator as default_state
from flambeau.tensor import dispatch
from flambeau.tensor.arguments import given_sizes, write_out
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import chosen_type, empty_like, finished, tensor
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.tensor import empty_tensor

# The widest range that one 32-bit word of the stream decides about.
_WIDEST = 1 << 32
_DIGITS = {dtypes.float64: 53, dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}


def drawn(generator: Any, operator: Any, *args: Any) -> Any:
    """Call ``operator``, drawing from ``generator`` (None: the default one)."""
    if generator is None:
        return operator(*args)
    context.generator = generator
    try:
        return dispatch.dispatch(operator, args, {})
    finally:
        context.generator = None


def integer_range(kind: dtype, bounds: tuple[Any, ...]) -> tuple[int, int]:
    """The range [low, high) that ``random_`` draws from."""
    if len(bounds) == 2 and bounds[1] is not None:
        low, high = bounds
    elif bounds and bounds[0] is not None:
        low, high = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], 1 << 24)
    elif kind.is_floating_point:
        low, high = 0, (1 << _DIGITS[kind]) + 1
    else:
        low, high = 0, 2 if kind is dtypes.bool_ else int(np.iinfo(kind.numpy).max) + 1
    return checked_range("random_", low, high, kind)


def checked_range(operator: str, low: Any, high: Any, kind: dtype | None = None) -> tuple[int, int]:
    """Integer bounds that the generator can serve, and whose numbers the type holds."""
    if not low < high:
        raise RuntimeError(f"{operator}: expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if kind is not None and not kind.is_inexact:
        least, most = (0, 1) if kind is dtypes.bool_ else (np.iinfo(kind.numpy).min, np.iinfo(kind.numpy).max)
        for name, value in (("from", low), ("to - 1", high - 1)):
            if not least <= value <= most:
                raise RuntimeError(f"{operator}: {name} is out of bounds for {kind}, got {value}")
    if high - low > _WIDEST:
        raise NotImplementedError(f"{operator}: a range wider than 2**32 is not supported, got [{low}, {high}); combine two draws")
    return int(low), int(high)


def _sizes(size: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, ...]:
    given = given_sizes((options.pop("size"),) if "size" in options else size)
    if any(n < 0 for n in given):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(given)}: {list(given)}")
    return tuple(as_size(n) for n in given)


def rand(*size: Any, generator: Any = None, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Uniform numbers in [0, 1).

    >>> import flambeau as torch
    >>> torch.rand(2, generator=torch.Generator().manual_seed(0))
    tensor([0.4963, 0.7682])
    """
    out = drawn(generator, ops.rand, _sizes(size, options), chosen_type("rand", dtype, options))
    return finished("rand", out, requires_grad, **options)


def randn(*size: Any, generator: Any = None, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Normal numbers with mean 0 and variance 1."""
    out = drawn(generator, ops.randn, _sizes(size, options), chosen_type("randn", dtype, options))
    return finished("randn", out, requires_grad, **options)


def randint(
    *bounds: Any, size: Any = None, generator: Any = None, dtype: dtype = dtypes.int64, requires_grad: bool = False, **options: Any
) -> Any:
    """Integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``."""
    given = list(bounds)
    if size is None:
        size = given.pop()
    high = options.pop("high", None)
    low = options.pop("low", None)
    high = given.pop() if high is None else high
    low = (given.pop() if given else 0) if low is None else low
    dtype = dtype_of(dtype)
    low, high = checked_range("randint", low, high, dtype)
    out = drawn(generator, ops.randint, low, high, tuple(as_size(n) for n in size), dtype)
    return finished("randint", out, requires_grad, **options)


def randperm(n: int, *, generator: Any = None, dtype: dtype = dtypes.int64, requires_grad: bool = False, **options: Any) -> Any:
    """The numbers below n in random order."""
    if n < 0:
        raise RuntimeError(f"randperm: n must be non-negative, got {n}")
    dtype = dtype_of(dtype)
    if n and not dtype.is_inexact and n - 1 > np.iinfo(dtype.numpy).max:
        raise RuntimeError(f"randperm: {dtype} does not hold the numbers below {n}")
    return finished("randperm", drawn(generator, ops.randperm, n, dtype), requires_grad, **options)


def rand_like(input: Any, *, dtype: dtype | None = None, requires_grad: bool = False, generator: Any = None, **options: Any) -> Any:
    """Uniform numbers in the shape of ``input``."""
    out = empty_like(input, dtype=dtype, **options).uniform_(generator=generator)
    return out.requires_grad_() if requires_grad else out


def randn_like(input: Any, *, dtype: dtype | None = None, requires_grad: bool = False, generator: Any = None, **options: Any) -> Any:
    """Normal numbers in the shape of ``input``."""
    out = empty_like(input, dtype=dtype, **options).normal_(generator=generator)
    return out.requires_grad_() if requires_grad else out


def randint_like(
    input: Any, *bounds: Any, dtype: dtype | None = None, requires_grad: bool = False, generator: Any = None, **options: Any
) -> Any:
    """Integers in [low, high) in the shape of ``input``: ``randint_like(x, high)`` or ``randint_like(x, low, high)``."""
    high = options.pop("high", None)
    low = options.pop("low", None)
    given = [int(b) for b in bounds]
    high = given.pop() if high is None else high
    low = (given.pop() if given else 0) if low is None else low
    bounds = checked_range("randint_like", low, high, dtype_of(dtype) or input.meta.dtype)
    out = empty_like(input, dtype=dtype, **options).random_(*bounds, generator=generator)
    return out.requires_grad_() if requires_grad else out


def bernoulli(input: Any, p: float | None = None, *, generator: Any = None, out: Any = None) -> Any:
    """Ones with the probability that ``input`` has at their place (with ``p``: that one), and zeros."""
    if p is not None:
        return empty_like(input).bernoulli_(p, generator=generator)
    result = drawn(generator, ops.bernoulli, input)
    return result if out is None else write_out(out, result)


def _check_weights(weights: Any) -> None:
    """RuntimeError unless weights are finite, none negative, and some positive in each row."""
    if not weights.meta.dtype.is_floating_point or not weights.meta.numel:
        return
    with no_grad():
        # Yes or no, not how much: compiled functions look at what decides.
        total = ops.sum(weights, -1)
        if not ops.all(ops.logical_and(ops.all(ops.ge(weights, 0), -1), ops.isfinite(total))).item():
            raise RuntimeError("multinomial: probability tensor contains either `inf`, `nan` or element < 0")
        if not ops.all(ops.gt(total, 0)).item():
            raise RuntimeError("multinomial: invalid multinomial distribution (sum of probabilities <= 0)")


def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None) -> Any:
    """Indices drawn by the weights in the last dimension."""
    _check_weights(input)
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype}")
    result = drawn(generator, ops.multinomial, input, num_samples, replacement)
    return result if out is None else write_out(out, result)


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, dtype: dtype | None = None,
           requires_grad: bool = False, **options: Any) -> Any:  # fmt: skip
    """Normal numbers with the means and standard deviations given, each a tensor or a number; two numbers need ``size``."""
    if isinstance(mean, TensorBase) or isinstance(std, TensorBase):
        result = drawn(generator, ops.normal, mean, std)
        return result if out is None else write_out(out, result)
    if size is None:
        raise TypeError("normal(): needs a tensor for mean or std, or the argument 'size'")
    kind = chosen_type("normal", dtype, {"out": out})
    result = empty_tensor(tuple(as_size(n) for n in size), kind).normal_(mean, std, generator=generator)
    return finished("normal", result, requires_grad, out, **options)


# -- generators -----------------------------------------------------------------------------------------
class Generator(GeneratorState):
    """A source of random numbers with a state of its own; the same seed gives the same numbers.

    >>> import flambeau as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> torch.randint(10, (3,), generator=g)
    tensor([4, 9, 3])
    """

    __slots__ = ()

    @property
    def device(self) -> Any:
        """Where the numbers are made."""
        return empty_tensor((0,), dtypes.uint8).device

    def get_state(self) -> Any:
        """The state as a tensor of bytes."""
        return tensor(np.frombuffer(self.state_bytes(), np.uint8))

    def set_state(self, new_state: Any) -> Generator:
        """Go on from a state that ``get_state`` gave."""
        self.set_state_bytes(new_state.array().tobytes())
        return self


def _end_capture() -> None:
    """Draws that a capture has put off come before whatever is done to the stream now."""
    if context.capture is not None:
        context.capture.flush()


def manual_seed(seed: int) -> Any:
    """Start the default stream that belongs to ``seed``; returns the default generator."""
    _end_capture()
    return default_state.manual_seed(int(seed))


def seed() -> int:
    """Start the default stream with a seed from the operating system, and return that seed."""
    _end_capture()
    return default_state.seed()


def initial_seed() -> int:
    """The seed that the default stream was started with."""
    return default_state.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator as a tensor of bytes."""
    _end_capture()
    return tensor(np.frombuffer(default_state.state_bytes(), np.uint8))


def set_rng_state(new_state: Any) -> None:
    """Go on from a state that ``get_rng_state`` gave."""
    _end_capture()
    default_state.set_state_bytes(new_state.array().tobytes())
