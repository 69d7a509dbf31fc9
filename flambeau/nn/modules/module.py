"""Module: a part of a model with parameters, buffers and submodules that are registered by assigning them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from flambeau.core.dtypes import dtype, dtype_of
from flambeau.core.stamps import StampedDict, bump_module_stamp
from flambeau.nn.modules import native_module
from flambeau.nn.modules.module_hooks import (
    ModuleHooks,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    run_registration_hooks,
)
from flambeau.nn.modules.module_state import EXTRA_STATE, ModuleState, _IncompatibleKeys
from flambeau.nn.parameter import Buffer, Parameter
from flambeau.tensor import Tensor
from flambeau.tensor.creation import empty_like
from flambeau.tensor.grad_mode import no_grad

__all__ = [
    "Module", "_IncompatibleKeys", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip

T = TypeVar("T", bound="Module")
_EXTRA_STATE_KEY_SUFFIX = EXTRA_STATE  # torch's name
_ABSENT = object()


class Module(ModuleHooks, ModuleState):
    """The base class of all parts of models: subclass it, assign parts to ``self`` and define ``forward``.

    Parameters, buffers and Modules that are assigned to attributes are registered under the attribute's name, which gives
    ``parameters()``, ``state_dict()``, ``to()`` and the rest. Call the Module, not its ``forward``, so that hooks run.

    >>> import flambeau as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.weight = torch.nn.Parameter(torch.ones(size))
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> [(name, tuple(p.shape)) for name, p in Scale(3).named_parameters()]
    [('weight', (3,))]
    """

    training: bool
    dump_patches: bool = False

    def __init__(self) -> None:
        own = self.__dict__
        own["training"] = True
        for name in ("_parameters", "_buffers", "_modules"):
            own[name] = StampedDict()
        own["_non_persistent_buffers_set"] = set()
        self._create_hook_dictionaries()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Override: what the Module computes.

        Raises NotImplementedError in a class that does not define it.
        """
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # -- registration -------------------------------------------------------------------------------------
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under `name`; None keeps the name without a tensor."""
        self._check_new_name(name, "parameter", self._registry("_parameters", "parameter"))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{_type_name(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)")
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To express "
                f"'{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = run_registration_hooks("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but not a parameter, such as a running mean.

        It moves with the Module (``to``, ``cuda``), and is in ``state_dict`` when `persistent`.
        """
        self._check_new_name(name, "buffer", self._registry("_buffers", "buffer"))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' (torch Tensor or None required)")
        self._buffers[name] = run_registration_hooks("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child under `name`; None keeps the name without a child."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        self._check_new_name(name, "module", self._registry("_modules", "module"))
        self._modules[name] = run_registration_hooks("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _registry(self, key: str, kind: str) -> StampedDict:
        try:
            return self.__dict__[key]
        except KeyError:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call") from None

    def _check_new_name(self, name: str, kind: str, registry: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_type_name(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in registry and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
            self._modules[name] = run_registration_hooks("module", self, name, value)
        elif isinstance(value, Buffer):
            if "_buffers" not in own:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self._forget(name, "_parameters", "_modules")
            self.register_buffer(name, value, value.persistent)
        elif "_parameters" in own and not self._set_registered(name, value):
            if own.get(name, _ABSENT) is not value:
                bump_module_stamp()
            object.__setattr__(self, name, value)
        elif "_parameters" not in own:
            object.__setattr__(self, name, value)

    def _set_registered(self, name: str, value: Any) -> bool:
        """Set something that is registered to a plain value; whether `name` was registered."""
        if name in self._parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{_type_name(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, None)
        elif name in self._modules:
            if value is not None:
                raise TypeError(f"cannot assign '{_type_name(value)}' as child module '{name}' (torch.nn.Module or None expected)")
            self._modules[name] = None
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{_type_name(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)")
            self._buffers[name] = run_registration_hooks("buffer", self, name, value)
        else:
            return False
        return True

    def _forget(self, name: str, *registries: str) -> None:
        own = self.__dict__
        own.pop(name, None)
        for key in registries:
            if name in own[key]:
                del own[key][name]
        if "_buffers" in registries:
            self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for key in ("_parameters", "_buffers", "_modules"):
            registry = own.get(key)
            if registry is not None and name in registry:
                return registry[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            if name in registry:
                del registry[name]
                self._non_persistent_buffers_set.discard(name)
                return
        bump_module_stamp()
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    # -- looking up by path -------------------------------------------------------------------------------
    def get_submodule(self, target: str) -> Module:
        """The Module at a path such as ``layers.0.norm``; ``""`` is this one. Raises AttributeError when there is none."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a path; with `strict` something must be there already.

        Raises ValueError for an empty path or no Module, AttributeError when the path does not lead to a Module.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as ``layers.0.weight``; raises AttributeError when there is none."""
        parameter, name = self._get_at(target)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path; raises AttributeError when there is none."""
        path, _, name = target.rpartition(".")
        buffer, _ = self._get_at(target)
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    def _get_at(self, target: str) -> tuple[Any, str]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        return getattr(module, name), name

    # -- walking the tree ---------------------------------------------------------------------------------
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct children with their names; a child that has two names comes once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct children."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This Module and all below it with their paths, parents first; each Module once unless `remove_duplicate` is off."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This Module and all below it; those met twice once, or every time without ``remove_duplicate``."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def _named_members(
        self, get_members: Callable[[Module], Iterable[tuple[str, Any]]], prefix: str = "", recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths; each once unless `remove_duplicate` is off, own ones only without `recurse`."""
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, as an optimizer takes them."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Call ``fn(module)`` on every Module, children first, and return self; used to initialize parameters."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- modes --------------------------------------------------------------------------------------------
    def train(self: T, mode: bool = True) -> T:
        """Set training mode (dropout and batch normalization look at it) here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Set evaluation mode: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Say of all parameters whether gradients are recorded."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        bump_module_stamp()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero in place."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach().requires_grad_(False)
                parameter.grad.zero_()

    # -- conversion ---------------------------------------------------------------------------------------
    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        """Replace the data of all parameters, gradients and buffers by what `fn` makes of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        bump_module_stamp()
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            gradient = parameter.grad
            with no_grad():
                converted = fn(parameter)
                converted_gradient = None if gradient is None else fn(gradient)
            # A parameter keeps its identity, so that optimizers go on updating it.
            if parameter.device == converted.device:
                parameter.grad = None
                parameter.data = converted
                target = parameter
            else:
                target = self._parameters[name] = Parameter(converted, parameter.requires_grad)
            if gradient is not None and converted_gradient is not None:
                target.grad = converted_gradient.requires_grad_(gradient.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Move to a device, convert floating-point parameters and buffers to a dtype, or both, in place.

        ``to(device, dtype, non_blocking)``, ``to(dtype)``, ``to(tensor)`` and ``to(memory_format=...)``. Raises TypeError for a
        dtype that is neither floating-point nor complex.
        """
        device, element, non_blocking, memory_format = _parse_to(args, kwargs)
        if element is not None and not (element.is_floating_point or element.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={element}")

        def convert(tensor: Tensor) -> Tensor:
            wanted = element if tensor.is_floating_point() or tensor.is_complex() else None
            options: dict[str, Any] = {"device": device, "dtype": wanted}
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            return tensor.to(non_blocking=non_blocking, **{key: value for key, value in options.items() if value is not None})

        return self._apply(convert)

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Move to a device with undefined contents."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def cpu(self: T) -> T:
        """Move to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: T, device: Any = None) -> T:
        """Move to a CUDA device."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def type(self: T, dst_type: Any) -> T:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self: T) -> T:
        """Convert floating-point parameters and buffers to float32."""
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self: T) -> T:
        """Convert floating-point parameters and buffers to float64."""
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self: T) -> T:
        """Convert floating-point parameters and buffers to float16."""
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self: T) -> T:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)

    def share_memory(self: T) -> T:
        """Move parameters and buffers into memory that other processes see."""
        return self._apply(lambda tensor: tensor.share_memory_())

    # -- printing -----------------------------------------------------------------------------------------
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Override: what is printed of the Module itself, on one line or several."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _indented(text: str) -> str:
    """All lines but the first moved in by two spaces."""
    return text.replace("\n", "\n  ")


def _type_name(value: Any) -> str:
    if isinstance(value, Tensor):
        return value.type()
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dtype | None, bool, Any]:
    """The arguments of ``Module.to`` as device, dtype, non_blocking and memory_format."""
    known = {"device", "dtype", "tensor", "non_blocking", "copy", "memory_format"}
    given: dict[str, Any] = dict(kwargs)
    if "dtype" in given:
        given["dtype"] = dtype_of(given["dtype"])
    for value in map(dtype_of, args):
        kind = (
            "tensor" if isinstance(value, Tensor) else "dtype" if isinstance(value, dtype)
            else "non_blocking" if isinstance(value, bool) else "device"
        )  # fmt: skip
        if value is not None:
            known -= {kind}
            given[kind] = value
    if set(kwargs) - known or not isinstance(given.get("dtype", None), dtype | None):
        got = ", ".join([*(_type_name(a) for a in args), *(f"{name}={_type_name(value)}" for name, value in kwargs.items())])
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({got}), but expected (device, dtype, non_blocking), "
            "(dtype, non_blocking) or (tensor, non_blocking), and memory_format by name"
        )
    like = given.get("tensor")
    device, element = (given.get("device"), given.get("dtype")) if like is None else (like.device, like.dtype)
    return device, element, bool(given.get("non_blocking", False)), given.get("memory_format")


native_module.install(Module)
