"""torch.sparse: functions of sparse tensors; their methods and operators are in `sparse.tensor` and `sparse.functions`."""

from flambeau.sparse.functions import addmm as addmm
from flambeau.sparse.functions import log_softmax as log_softmax
from flambeau.sparse.functions import mm as mm
from flambeau.sparse.functions import softmax as softmax
from flambeau.sparse.functions import sum as sum  # noqa: A004 - torch's own name
from flambeau.sparse.tensor import sparse_coo_tensor as sparse_coo_tensor
from flambeau.sparse.tensor import sparse_csr_tensor as sparse_csr_tensor

__all__ = ["addmm", "log_softmax", "mm", "softmax", "sum"]
