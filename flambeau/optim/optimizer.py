"""The base class of optimizers: groups of parameters, state for each parameter, saving and loading."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from flambeau.core.context import context, start_state
from flambeau.core.dtypes import float64
from flambeau.core.handles import RemovableHandle
from flambeau.core.identity import same
from flambeau.core.numbers import HostNumber
from flambeau.optim.state import ParameterState, States
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros
from flambeau.tensor.functions_complex import view_as_real
from flambeau.tensor.grad_mode import enable_grad, no_grad

__all__ = ["Optimizer", "ParamsT", "StateDict", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]

Hook = Callable[..., Any]
StateDict = dict[str, Any]
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]

_global_pre_hooks: dict[int, Hook] = OrderedDict()
_global_post_hooks: dict[int, Hook] = OrderedDict()


class _Required:
    """Marks a setting that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Run ``hook(optimizer, args, kwargs)`` before every optimizer's step."""
    return _add(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Run ``hook(optimizer, args, kwargs)`` after every optimizer's step."""
    return _add(_global_post_hooks, hook)


def _add(hooks: Any, hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's step that also runs the hooks and tells schedulers that it was called."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        own["_opt_called"] = True
        if "_optimizer_step_pre_hooks" not in own:  # A wrapper that has an optimizer and did not call our __init__.
            return step(self, *args, **kwargs)
        if not (_global_pre_hooks or _global_post_hooks or self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks):
            return step(self, *args, **kwargs)
        for hook in (*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"{step.__qualname__}: a pre hook must return None or (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    return hooked


class Optimizer:
    """Subclass it with a ``step``; `defaults` are the settings of groups that do not give their own.

    `params` are tensors, pairs of name and tensor, or dictionaries with the key "params" and settings of their own.
    Raises TypeError and ValueError for parameters that cannot be optimized.
    """

    OptimizerPreHook = OptimizerPostHook = Hook

    # Settings that states saved before the setting existed lack, and what they stand for there.
    _absent: Mapping[str, Any] = {}
    # What captures rely on only as far as a program checks it again.
    read_at_every_call = ("state", "param_groups", "defaults", "_opt_called")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._create_hooks()
        if isinstance(params, Tensor):
            raise TypeError(f"params argument given to the optimizer should be an iterable of Tensors or dicts, but got {params.type()}")
        self.state: dict[Any, Any] = States()
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _create_hooks(self) -> None:
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._create_hooks()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, default in self._absent.items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # -- hooks --------------------------------------------------------------------------------------------
    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Run ``hook(optimizer, args, kwargs)`` before `step`; it may return new arguments."""
        return _add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Run ``hook(optimizer, args, kwargs)`` after `step`."""
        return _add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Run ``hook(optimizer)`` before the state is saved."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Run ``hook(optimizer, state_dict)`` after the state has been saved; it may return another dictionary."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Run ``hook(optimizer, state_dict)`` before a state is loaded; it may return another dictionary."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Run ``hook(optimizer)`` after a state has been loaded."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # -- saving and loading -------------------------------------------------------------------------------
    def state_dict(self) -> StateDict:
        """The settings of the groups, and the state of each parameter under its number in order of the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups: list[dict[str, Any]] = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(parameter)] for parameter in group["params"]]
            groups.append(packed)
        plain = {key: dict(value) if type(value) is ParameterState else value for key, value in self.state.items()}
        state = {numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in plain.items()}
        result: StateDict = {"state": _with_own_steps(state), "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over what `state_dict` of an optimizer with the same groups gave; tensors are converted to the parameters' types.

        Raises ValueError when the groups do not match.
        """
        given = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, given)
            given = given if changed is None else changed
        saved: list[dict[str, Any]] = deepcopy(given["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(own["params"]) != len(other["params"]) for own, other in zip(self.param_groups, saved, strict=True)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        parameters: dict[int, Tensor] = {}
        for own, other in zip(self.param_groups, saved, strict=True):
            parameters.update(zip(other["params"], own["params"], strict=True))
        state: dict[Any, Any] = States()
        for key, value in given["state"].items():
            if key in parameters:
                own = _for_parameter(parameters[key], value)
                if isinstance(own, dict):
                    state[parameters[key]].update(own)
                else:
                    state[parameters[key]] = own
            else:
                state[key] = value
        for own, other in zip(self.param_groups, saved, strict=True):
            other["params"] = own["params"]
            if "param_names" in own and "param_names" not in other:
                other["param_names"] = own["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # -- use ----------------------------------------------------------------------------------------------
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero in place."""
        if context.capture is not None:
            context.capture.guard(lambda: tuple([tuple(map(same, group["params"])) for group in self.param_groups]))
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad = parameter.grad.detach().requires_grad_(False)
                    parameter.grad.zero_()

    def groups(self) -> list[dict[str, Any]]:
        """The parameter groups as a step should read them, see `recorded`."""
        return [recorded(self, group) for group in self.param_groups]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Override: one step; `closure` computes the loss anew, with gradients, and its result is returned."""
        raise NotImplementedError(f"{type(self).__name__}.step: an optimizer must define step")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own, for example layers that are trained from now on."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will "
                            "change between runs. Please use a list instead.")  # fmt: skip
        members: list[Any] = [params] if isinstance(params, Tensor) else list(params)
        if members and all(isinstance(member, tuple) for member in members):
            param_group["param_names"] = [name for name, _ in members]
            members = [parameter for _, parameter in members]
        param_group["params"] = members
        self._check_members(members)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self.param_groups.append(param_group)

    def _check_members(self, members: list[Any]) -> None:
        for member in members:
            if not isinstance(member, Tensor):
                kind = type(member)
                name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + name)
            if not self.defaults.get("differentiable") and not (member.is_leaf or member.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        numbers = {id(member) for member in members}
        if len(numbers) != len(members):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; see "
                          "github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=4)  # fmt: skip
        if any(id(parameter) in numbers for group in self.param_groups for parameter in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")

    _optimizer_step_pre_hooks: Any
    _optimizer_step_post_hooks: Any
    _optimizer_state_dict_pre_hooks: Any
    _optimizer_state_dict_post_hooks: Any
    _optimizer_load_state_dict_pre_hooks: Any
    _optimizer_load_state_dict_post_hooks: Any


_HOOKS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip


def _with_own_steps(states: dict[Any, Any]) -> dict[Any, Any]:
    """States in which no two parameters share a count: whoever loads them may step each by itself, as PyTorch does."""
    met: set[int] = set()
    for key, state in states.items():
        step = state.get("step") if isinstance(state, dict) else None
        if isinstance(step, Tensor):
            if id(step) in met:
                states[key] = {**state, "step": step.clone()}
            met.add(id(step))
    return states


def _for_parameter(parameter: Tensor, value: Any, key: str = "") -> Any:
    """Loaded state with its tensors in the type and on the device of the parameter; step counts stay as they are."""
    if isinstance(value, Tensor):
        if key == "step":
            return value
        return value.to(device=parameter.device, dtype=parameter.dtype if parameter.is_floating_point() else value.dtype)
    if isinstance(value, Mapping):
        return {name: _for_parameter(parameter, item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_for_parameter(parameter, item) for item in value)
    return value


# -- for the optimizers here ------------------------------------------------------------------------------
def loss_of(closure: Callable[[], Any] | None) -> Any:
    """What a step's closure gives, with gradients recorded."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def check_settings(name: str, *, differentiable: bool = False, foreach: bool | None = None, fused: bool | None = None) -> None:
    """Refuse settings that exclude one another or are not there."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if differentiable:
        raise NotImplementedError(f"{name}: differentiable=True is not implemented; write the update out with tensors and autograd.grad.")


def check_range(name: str, value: Any, low: float = 0.0) -> None:
    """ValueError unless ``low <= value``."""
    if not low <= value:
        raise ValueError(f"Invalid {name}: {value}")


def check_betas(betas: Sequence[Any]) -> None:
    """ValueError unless all decay rates of running means are in [0, 1)."""
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


def check_rate(lr: Any) -> None:
    """ValueError for a learning rate that is negative, or a tensor of several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    check_range("learning rate", lr)


def new_step(parameter: Tensor) -> Tensor:
    """A count of steps: a float32 tensor without dimensions, as PyTorch keeps it, on the device of the parameter."""
    return zeros((), device=parameter.device)


def recorded(optimizer: Optimizer, group: dict[str, Any]) -> dict[str, Any]:
    """The settings of a group as a step should read them.

    While a capture records, numbers are read again at every later call, and everything else is checked not to have changed.
    """
    capture = context.capture
    if capture is None:
        return group
    settings = dict(group)
    for name, value in group.items():
        if isinstance(value, float):
            settings[name] = HostNumber.of(lambda name=name: float(group[name]))
            capture.guard(lambda name=name: group[name] == 0)  # steps are written differently for it
        elif isinstance(value, tuple) and all(isinstance(v, float) for v in value):
            settings[name] = tuple(HostNumber.of(lambda name=name, i=i: float(group[name][i])) for i in range(len(value)))
        elif name != "params":
            capture.guard(functools.partial(group.get, name))
    capture.guard(lambda: _members(optimizer, group))
    return settings


def _members(optimizer: Optimizer, group: dict[str, Any]) -> tuple[Any, ...]:
    """What a recorded step is about. It is asked at every replay, which counts as a call for schedules."""
    optimizer.__dict__["_opt_called"] = True
    changes = getattr(optimizer.state, "changes", (0,))[0]
    return same(optimizer.state), changes, len(optimizer.param_groups), tuple(map(same, group["params"]))


def value_of(tensor: Tensor) -> Any:
    """The number in a tensor of one element; while a capture records the tensor, with the precision of numbers."""
    return float(tensor) if context.capture is None else tensor.reshape(()).double()


def at_least(value: Any, least: Any) -> Any:
    """The larger of two numbers, either of which may be a tensor without dimensions."""
    return value.clamp(min=least) if isinstance(value, Tensor) else max(value, least)


def with_tensor_rate(optimizer: Optimizer, group: dict[str, Any]) -> dict[str, Any]:
    """As `recorded`, with the learning rate as a tensor; all other settings are checked not to have changed."""
    if context.capture is None:
        return group
    settings = {**recorded(optimizer, group), **{name: value for name, value in group.items() if name != "lr"}}
    for name, value in group.items():
        if isinstance(value, (float, tuple)) and name != "lr":
            context.capture.guard(functools.partial(group.get, name))
    if isinstance(group["lr"], float):
        settings["lr"] = zeros((), dtype=float64, device=group["params"][0].device) + settings["lr"]
    return settings


def with_gradients(params: Sequence[Tensor]) -> list[Tensor]:
    """The parameters that have gradients."""
    if context.capture is None:
        return [parameter for parameter in params if parameter._grad is not None]
    return [parameter for parameter in params if parameter.grad is not None]


def share_steps(optimizer: Optimizer) -> None:
    """Let parameters of one group with the same count share one tensor, so that one operation steps them all."""
    for group in optimizer.param_groups:
        shared: dict[tuple[float, Any], Tensor] = {}
        for parameter in group["params"]:
            state = optimizer.state.get(parameter)
            if state and "step" in state:
                count = float(state["step"])
                key = count, parameter.device
                if key not in shared:
                    shared[key] = new_step(parameter).fill_(count)
                state["step"] = shared[key]


class Bucket:
    """Parameters of a group with the same step count: their gradients and the lists of their state.

    With ``views`` complex ones are given as real ones, whose parts are updated as numbers of their own.
    """

    __slots__ = ("grads", "params", "states", "step", "views")

    def __init__(self, step: Any) -> None:
        self.step, self.views = step, False
        self.params: list[Tensor] = []
        self.grads: list[Tensor] = []
        self.states: list[dict[str, Any]] = []

    def of(self, key: str) -> list[Tensor]:
        """One state tensor of each parameter."""
        found = [state[key] for state in self.states]
        return list(map(real_view, found)) if self.views else found

    def with_real_views(self) -> Bucket:
        """The same with real views where there are complex parameters."""
        self.views = any(kind.is_complex for kind in {parameter.dtype for parameter in self.params})
        if self.views:
            self.params, self.grads = list(map(real_view, self.params)), list(map(real_view, self.grads))
        return self


def real_view(tensor: Any) -> Any:
    """A complex tensor as a real one that shares its memory; anything else as it is."""
    return view_as_real(tensor) if isinstance(tensor, Tensor) and tensor.is_complex() else tensor


def buckets(optimizer: Optimizer, group: dict[str, Any], start: Callable[[Tensor, dict[str, Any]], None]) -> list[Bucket]:
    """The parameters of a group that have gradients, by step count; ``start(parameter, state)`` fills the state of new ones."""
    together = _one_bucket(optimizer, group["params"])
    if together is not None:
        return [together.with_real_views()]
    found: dict[int, Bucket] = {}
    waiting: list[dict[str, Any]] = []
    gradients = [parameter.grad for parameter in group["params"]]
    members = [p for p, gradient in zip(group["params"], gradients, strict=True) if gradient is not None]
    start_state(lambda: _start(optimizer, members, start))
    if context.capture is not None:
        context.capture.guard(lambda: _shared_counts(optimizer, members))
    for parameter, gradient in zip(group["params"], gradients, strict=True):
        if gradient is None:
            if optimizer.state.get(parameter):
                waiting.append(optimizer.state[parameter])
            continue
        state = optimizer.state[parameter]
        step = state["step"]
        bucket = found.get(id(step))
        if bucket is None:
            bucket = found[id(step)] = Bucket(step)
        bucket.params.append(parameter)
        bucket.grads.append(gradient)
        bucket.states.append(state)
    _separate(waiting, found)
    return [bucket.with_real_views() for bucket in found.values()]


def _shared_counts(optimizer: Optimizer, params: list[Tensor]) -> tuple[int, ...]:
    """For each parameter the first one with the same count of steps; () where all have one."""
    found = [id(optimizer.state[parameter]["step"]) for parameter in params]
    return () if len(set(found)) < 2 else tuple(map(found.index, found))


def _start(optimizer: Optimizer, params: list[Tensor], start: Callable[[Tensor, dict[str, Any]], None]) -> None:
    """Make the state of those parameters that have none yet; they share a step count."""
    if all(map(optimizer.state.get, params)):
        return
    fresh: dict[Any, Tensor] = {}
    for parameter in params:
        state = optimizer.state[parameter]
        if not state:
            if parameter.device not in fresh:
                fresh[parameter.device] = new_step(parameter)
            state["step"] = fresh[parameter.device]
            start(parameter, state)


def _one_bucket(optimizer: Optimizer, params: list[Tensor]) -> Bucket | None:
    """What `buckets` finds from the second step on in most programs: all parameters have gradients and one count. None otherwise."""
    states: list[Any] = list(map(optimizer.state.get, params))
    if context.capture is not None or not params or not all(states):
        return None
    steps = [state["step"] for state in states]
    grads = [parameter._grad for parameter in params]
    if len(set(map(id, steps))) > 1 or any(grad is None for grad in grads):
        return None
    bucket = Bucket(steps[0])
    bucket.params, bucket.grads, bucket.states = list(params), grads, states
    return bucket


def _separate(waiting: list[dict[str, Any]], moving: dict[int, Bucket]) -> None:
    """Give parameters that stand still in this step a count apart from those that move on."""
    kept: dict[int, Tensor] = {}
    for state in waiting:
        step = state["step"]
        if id(step) in moving:
            if id(step) not in kept:
                kept[id(step)] = step.clone()
            state["step"] = kept[id(step)]


class PerParameterOptimizer(Optimizer):
    """An optimizer whose step is written for one parameter at a time.

    Subclasses define `_start`, which fills a new parameter's state, and `_update`, which makes step number `count` (from 1). While a
    capture records, the count and the learning rate are tensors without dimensions, as every later call has others.
    """

    _absent = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    # Whether `_update` sees to the decay of weights itself.
    _decays_alone = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        share_steps(self)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what `closure` gives."""
        loss = loss_of(closure)
        with no_grad():
            for group in [with_tensor_rate(self, group) for group in self.param_groups]:
                for bucket in buckets(self, group, self._start):
                    count = value_of(bucket.step.add_(1))
                    for parameter, gradient, state in zip(bucket.params, bucket.grads, bucket.states, strict=True):
                        gradient = -gradient if group["maximize"] else gradient
                        if group.get("weight_decay") and not (self._decays_alone or group.get("decoupled_weight_decay")):
                            gradient = gradient + group["weight_decay"] * parameter
                        self._update(group, count, parameter, gradient, {key: real_view(value) for key, value in state.items()})
        return loss

    def _start(self, parameter: Tensor, state: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _start")

    def _update(self, group: dict[str, Any], count: Any, parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        """Change ``parameter`` and the tensors of ``state`` in place."""
        raise NotImplementedError(f"{type(self).__name__} must define _update")
