"""Sequences of different lengths: padded to one tensor, or packed step by step for recurrent Modules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from flambeau import ops
from flambeau.tensor import Tensor
from flambeau.tensor.creation import tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """Steps of several sequences, longest first: `data` (steps in all, *), and how many sequences each step has.

    `sorted_indices` gives the order by length from the caller's, `unsorted_indices` the way back.
    """

    data: Tensor
    batch_sizes: Tensor | None = None
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with its data moved or converted."""
        return self._replace(data=self.data.to(*args, **kwargs))

    @property
    def is_cuda(self) -> bool:
        """Whether the data lies on a CUDA device."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another."""
    return None if permutation is None else permutation.argsort()


def _lengths(lengths: Any) -> list[int]:
    return [int(length) for length in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Pack padded sequences (T, B, *), or (B, T, *) with `batch_first`, of the given lengths.

    With `enforce_sorted` they must come longest first. Raises RuntimeError for lengths that do not fit.
    """
    sizes = _lengths(lengths)
    if batch_first:
        input = input.transpose(0, 1)
    if len(sizes) != input.size(1):
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={input.size(1)})")
    if min(sizes, default=0) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    order: Tensor | None = None
    if not enforce_sorted:
        order = tensor(sorted(range(len(sizes)), key=lambda i: -sizes[i]))
        sizes = sorted(sizes, reverse=True)
        input = input.index_select(1, order)
    elif any(a < b for a, b in zip(sizes, sizes[1:], strict=False)):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                           "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement.")  # fmt: skip
    counts = [sum(size > step for size in sizes) for step in range(sizes[0])]
    data = ops.cat([input[step, :count] for step, count in enumerate(counts)])
    return PackedSequence(data, tensor(counts), order, invert_permutation(order))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded sequences (T, B, *) and their lengths, in the order that they were packed from."""
    counts = _lengths(sequence.batch_sizes)
    steps = len(counts) if total_length is None else total_length
    if steps < len(counts):
        raise ValueError(f"Expected total_length to be at least the length of the longest sequence in input, but got total_length={steps} "
                         f"and max sequence length being {len(counts)}")  # fmt: skip
    out = sequence.data.new_full((steps, counts[0], *sequence.data.shape[1:]), padding_value)
    rows: list[Tensor] = []
    for step, part in enumerate(sequence.data.split(counts)):
        rows.append(part if counts[step] == counts[0] else ops.cat([part, out[step, counts[step] :]]))
    padded = ops.stack(rows)
    if steps > len(counts):
        padded = ops.cat([padded, out[len(counts) :]])
    lengths = tensor([sum(count > i for count in counts) for i in range(counts[0])])
    if sequence.unsorted_indices is not None:
        padded, lengths = padded.index_select(1, sequence.unsorted_indices), lengths[sequence.unsorted_indices]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences (length, *) as one tensor (T, B, *), or (B, T, *) with `batch_first`, filled up at one side.

    >>> import flambeau as torch
    >>> torch.nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)], batch_first=True)
    tensor([[1., 1.],
            [1., 0.]])
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: padding_side should be 'left' or 'right', got {padding_side!r}")
    given = list(sequences.unbind(0)) if isinstance(sequences, Tensor) else list(sequences)
    longest = max(sequence.size(0) for sequence in given)
    rows: list[Tensor] = []
    for sequence in given:
        missing = longest - sequence.size(0)
        filling = sequence.new_full((missing, *sequence.shape[1:]), padding_value)
        rows.append(ops.cat([sequence, filling] if padding_side == "right" else [filling, sequence]) if missing else sequence)
    return ops.stack(rows, 0 if batch_first else 1)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, in their order, each of its own length."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows.unbind(0), _lengths(lengths), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, *)."""
    return pack_padded_sequence(pad_sequence(sequences), [sequence.size(0) for sequence in sequences], enforce_sorted=enforce_sorted)
