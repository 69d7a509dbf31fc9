"""Tables looked up by index."""

from __future__ import annotations

from typing import Any

from flambeau.core.dtypes import dtype
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor
from flambeau.tensor.creation import empty
from flambeau.tensor.grad_mode import no_grad

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A weight of shape (num_embeddings, embedding_dim) with an optional row that stays as it is."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    weight: Tensor

    def _create_weight(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, given: Tensor | None, freeze: bool, options: dict[str, Any]
    ) -> None:
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        if given is None:
            self.weight = Parameter(empty((num_embeddings, embedding_dim), **options), requires_grad=not freeze)
            self.reset_parameters()
            return
        if list(given.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(given, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw the table anew, standard normal, with zeros in the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Rows of a table: integer input (*), output (*, embedding_dim).

    The row `padding_idx` starts as zeros and gets no gradient. With `max_norm`, rows that are looked up are first shrunk to
    that `norm_type` norm, in place.

    >>> import flambeau as torch
    >>> tuple(torch.nn.Embedding(10, 3)(torch.tensor([[1, 2, 4, 5]])).shape)
    (1, 4, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: Any = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._create_weight(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, {"device": device, "dtype": dtype})

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        defaults = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        for name, default in defaults.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text + (", sparse=True" if self.sparse else "")

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """An Embedding whose table is `embeddings`, of shape (num_embeddings, embedding_dim)."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight=embeddings, _freeze=freeze)


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a table: integer input (bags, length), or (total) with `offsets` of the bags.

    Output (bags, embedding_dim).
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._create_weight(num_embeddings, embedding_dim, padding_idx, _weight, False, {"device": device, "dtype": dtype})

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
