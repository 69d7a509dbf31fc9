"""Softmax over many classes of which few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau import ops
from flambeau.core.dtypes import dtype
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn.modules.container import ModuleList, Sequential
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class ASMoutput(NamedTuple):
    """The logarithm of each target's chance, and the loss: the negative mean of these."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes sorted by frequency in clusters that begin at 0 and at the `cutoffs`; rarer ones get narrower layers (Grave et al., 2017).

    The head gives scores of the first cluster's classes and of the other clusters; cluster i has two Linears, with
    ``in_features / div_value**i`` between them. Input (N, in_features) or (in_features), target (N) or ().
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
        device: Any = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in cutoffs)
        if cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1 or not whole:
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is "
                             "between 1 and n_classes-1")  # fmt: skip
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for number, (start, end) in enumerate(self._ranges()[1:], 1):
            width = int(in_features // div_value**number)
            layers = (Linear(in_features, width, False, device, dtype), Linear(width, end - start, False, device, dtype))
            self.tail.append(Sequential(*layers))

    def _ranges(self) -> list[tuple[int, int]]:
        return list(zip([0, *self.cutoffs[:-1]], self.cutoffs, strict=True))

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for layer in (self.head, *(layer for layer in self.tail.modules() if isinstance(layer, Linear))):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        """The logarithms of the targets' chances and the loss."""
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target_.dim() == 1 and input_.size(0) != target_.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input_.dim() != target_.dim() + 1:
            raise RuntimeError(f"{target_.dim()}D target tensor expects {target_.dim() + 1}D input tensors, but found inputs with size "
                               f"{input_.size()}")  # fmt: skip
        input, target = (input_, target_) if target_.dim() else (input_.unsqueeze(0), target_.unsqueeze(0))
        if target.numel() and not (0 <= int(target.min()) and int(target.max()) < self.n_classes):
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                               f"{target.max().item()}] were found. ")  # fmt: skip
        places, output = target.clone(), input.new_zeros(target.shape)
        for number, (start, end) in enumerate(self._ranges()[1:]):
            (rows,) = ops.logical_and(target >= start, target < end).nonzero(as_tuple=True)
            if rows.numel():
                places.index_fill_(0, rows, self.shortlist_size + number)
                within = F.log_softmax(self.tail[number](input.index_select(0, rows)), dim=1)
                chosen = within.gather(1, (target.index_select(0, rows) - start).unsqueeze(1)).squeeze(1)
                output = output.index_copy(0, rows, chosen)
        output = output + F.log_softmax(self.head(input), dim=1).gather(1, places.unsqueeze(1)).squeeze(1)
        return ASMoutput(output if target_.dim() else output.squeeze(0), (-output).mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The logarithms of all classes' chances, (N, n_classes)."""
        return self._full_log_prob(input, self.head(input))

    def _full_log_prob(self, input: Tensor, scores: Tensor) -> Tensor:
        head = F.log_softmax(scores, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for number, layers in enumerate(self.tail):
            parts.append(F.log_softmax(layers(input), dim=1) + head[:, self.shortlist_size + number].unsqueeze(1))
        return ops.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each row, (N)."""
        scores = self.head(input)
        best = scores.argmax(dim=1)
        within = best < self.shortlist_size
        return best if bool(within.all()) else ops.where(within, best, self._full_log_prob(input, scores).argmax(dim=1))
