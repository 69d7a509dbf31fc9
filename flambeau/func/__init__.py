"""torch.func: functions of functions, as derivatives and maps over a batch, which nest to any depth."""

from flambeau.func.derivatives import functionalize as functionalize
from flambeau.func.derivatives import grad as grad
from flambeau.func.derivatives import grad_and_value as grad_and_value
from flambeau.func.derivatives import jvp as jvp
from flambeau.func.derivatives import linearize as linearize
from flambeau.func.derivatives import vjp as vjp
from flambeau.func.jacobians import hessian as hessian
from flambeau.func.jacobians import jacfwd as jacfwd
from flambeau.func.jacobians import jacrev as jacrev
from flambeau.func.modules import functional_call as functional_call
from flambeau.func.modules import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from flambeau.func.modules import stack_module_state as stack_module_state
from flambeau.func.vmap import debug_unwrap as debug_unwrap
from flambeau.func.vmap import vmap as vmap

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
