"""torch.nested: tensors of several lengths in one, packed one after another (layout jagged)."""

from flambeau.nested.functions import masked_select as masked_select
from flambeau.nested.functions import narrow as narrow
from flambeau.nested.functions import to_padded_tensor as to_padded_tensor
from flambeau.nested.tensor import as_nested_tensor as as_nested_tensor
from flambeau.nested.tensor import nested_tensor as nested_tensor
from flambeau.nested.tensor import nested_tensor_from_jagged as nested_tensor_from_jagged

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip
