"""Weights divided by their largest singular value (Miyato et al., 2018), by a hook before each call."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter, is_lazy
from flambeau.tensor import Tensor
from flambeau.tensor.grad_mode import no_grad

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook that sets a Module's weight to ``weight_orig`` over its spectral norm, found by power iterations in training."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with `dim` first and all other dimensions as one."""
        return weight.movedim(self.dim, 0).reshape(weight.size(self.dim), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight of now."""
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    F.normalize(matrix.t().mv(u), dim=0, eps=self.eps, out=v)
                    F.normalize(matrix.mv(v), dim=0, eps=self.eps, out=u)
                # Copies, since a later call changes the vectors in place before this one's backward.
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    def remember_version(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        """Write PyTorch's mark of what the entries are into the metadata."""
        local_metadata.setdefault("spectral_norm", {})[self.name + ".version"] = 1


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a parameter by its largest singular value before each call; returns the Module.

    ``torch.nn.utils.parametrizations.spectral_norm`` does the same by a parametrization.

    >>> import flambeau as torch
    >>> [name for name, _ in torch.nn.utils.spectral_norm(torch.nn.Linear(2, 3)).named_buffers()]
    ['weight_u', 'weight_v']
    """
    if dim is None:
        dim = int(getattr(module, "transposed", False))
    if any(isinstance(hook, SpectralNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    if is_lazy(weight):
        raise ValueError("The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
                         "before applying spectral normalization")  # fmt: skip
    with no_grad():
        sizes = hook.reshape_weight_to_matrix(weight).shape
        u, v = (F.normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in sizes)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(hook.remember_version)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the parameter one again, with its value of now; ValueError when it is not normalized."""
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, SpectralNorm) and hook.name == name:
            with no_grad():
                weight = ops.clone(hook.compute_weight(module, False))
            for part in ("", "_u", "_v", "_orig"):
                delattr(module, name + part)
            module.register_parameter(name, Parameter(weight))
            del module._forward_pre_hooks[number]
            for key, (saving, _) in list(module._state_dict_hooks.items()):
                if getattr(saving, "__self__", None) is hook:
                    del module._state_dict_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
