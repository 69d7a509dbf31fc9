"""What programs need besides tensors: data loading and hook handles."""

from flambeau.utils import _python_dispatch as _python_dispatch
from flambeau.utils import _pytree as _pytree
from flambeau.utils import checkpoint, data, dlpack, hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]

