"""torch.distributed.checkpoint.state_dict: states of models and optimizers by the parameters' names, whatever wraps the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flambeau.distributed.fsdp import INSIDE
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel import DataParallel, DistributedDataParallel
from flambeau.optim.optimizer import Optimizer
from flambeau.tensor.creation import zeros_like
from flambeau.tensor.tensor_class import Tensor
from flambeau.utils._pytree import tree_map

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """How states are read and loaded: on the CPU, without frozen parameters, strictly; what concerns several processes is accepted."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _own_name(model: Module, name: str) -> str:
    """A name without the parts that wrappers of the model put there."""
    name = name.replace("_orig_mod.", "").replace(INSIDE, "")
    return name.removeprefix("module.") if isinstance(getattr(model, "_orig_mod", model), (DataParallel, DistributedDataParallel)) else name


def _options(name: str, options: StateDictOptions | None, submodules: Any = None) -> StateDictOptions:
    options = options or StateDictOptions()
    if submodules is not None or options.flatten_optimizer_state_dict:
        raise NotImplementedError(f"{name}: submodules and flatten_optimizer_state_dict are not supported; take parts by their names")
    return options


def _out(value: Any, options: StateDictOptions) -> Any:
    return tree_map(lambda v: v.cpu() if isinstance(v, Tensor) else v, value) if options.cpu_offload else value


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The model's state by its own names, without those of wrappers (DistributedDataParallel, FullyShardedDataParallel, compile)."""
    options = _options("get_model_state_dict", options, submodules)
    frozen = {n for n, p in model.named_parameters() if not p.requires_grad} if options.ignore_frozen_params else ()
    return _out({_own_name(model, n): v for n, v in model.state_dict().items() if n not in frozen}, options)


def set_model_state_dict(model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None) -> Any:
    """Load what `get_model_state_dict` gives; names that are missing and unexpected, as ``load_state_dict``."""
    options = _options("set_model_state_dict", options)
    names = {_own_name(model, n): n for n in model.state_dict()}
    return model.load_state_dict({names.get(n, n): v for n, v in model_state_dict.items()}, strict=options.strict)


def _each(optimizers: Optimizer | Iterable[Optimizer]) -> tuple[Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def _with_state(optimizer: Optimizer) -> Optimizer:
    """The optimizer, after a step that changes nothing (rates of 0) where it has made none, so that its state is there."""
    if not optimizer.state:
        groups = optimizer.param_groups
        grads = [(p, p.grad) for g in groups for p in g["params"]]
        rates = [g["lr"] for g in groups]
        for parameter, _ in grads:
            parameter.grad = zeros_like(parameter) if parameter.requires_grad else None
        for group in groups:
            group["lr"] = zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
        optimizer.step(closure=None)
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        for parameter, grad in grads:
            parameter.grad = grad
    return optimizer


def _renamed(state: dict[str, Any], name_of: Callable[[Any], Any]) -> dict[str, Any]:
    groups = [{**group, "params": [name_of(p) for p in group["params"]]} for group in state["param_groups"]]
    return {"state": {name_of(p): values for p, values in state["state"].items()}, "param_groups": groups}


def _names(model: Module, optimizer: Optimizer) -> list[str]:
    """The names of an optimizer's parameters in the order in which its state dict numbers them."""
    known = {id(p): _own_name(model, n) for n, p in model.named_parameters()}
    return [known[id(p)] for group in optimizer.param_groups for p in group["params"]]


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The optimizers' states with the names of parameters in place of numbers; an optimizer without steps gets its first state."""
    options = _options("get_optimizer_state_dict", options, submodules)
    out: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _each(optimizers):
        names = _names(model, optimizer)
        found = _renamed(_with_state(optimizer).state_dict(), lambda number, names=names: names[number])
        out["state"] |= found["state"]
        out["param_groups"] += found["param_groups"]
    return _out(out, options)


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Load what `get_optimizer_state_dict` gives, into optimizers of the same parameters in any order."""
    _options("set_optimizer_state_dict", options)
    for optimizer in _each(optimizers):
        _with_state(optimizer)
        names = _names(model, optimizer)
        numbers = {name: number for number, name in enumerate(names)}
        mine = [g for g in optim_state_dict["param_groups"] if any(n in numbers for n in g["params"])]
        settings = {n: {k: v for k, v in g.items() if k != "params"} for g in mine for n in g["params"]}
        own = optimizer.state_dict()["param_groups"]
        groups = [{**group, **settings.get(names[group["params"][0]], {}), "params": group["params"]} for group in own]
        state = {numbers[n]: values for n, values in optim_state_dict["state"].items() if n in numbers}
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def get_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Both states."""
    model_state = get_model_state_dict(model, submodules=submodules, options=options)
    return model_state, get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options)


def set_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, model_state_dict: dict[str, Any], optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:  # fmt: skip
    """Load both states."""
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
