"""The state of a Module: saving it as a flat dictionary of tensors and loading it again."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.core.handles import RemovableHandle
from flambeau.core.stamps import StampedDict
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor
from flambeau.tensor.grad_mode import no_grad

__all__ = ["EXTRA_STATE", "ModuleState"]

EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` found: keys that the Module has and the dictionary lacks, and the reverse."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


class ModuleState:
    """The part of Module that saves and loads its state."""

    # Raised by a subclass when its entries change; `_load_from_state_dict` finds the saved one in its metadata.
    _version: int = 1

    _parameters: StampedDict
    _buffers: StampedDict
    _modules: StampedDict
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: StampedDict
    _state_dict_pre_hooks: StampedDict
    _load_state_dict_pre_hooks: StampedDict
    _load_state_dict_post_hooks: StampedDict

    def get_extra_state(self) -> Any:
        """Override to save something besides tensors; `set_extra_state` gets it back."""
        raise RuntimeError(f"{type(self).__name__}.get_extra_state: the class has no extra state; override it with set_extra_state.")

    def set_extra_state(self, state: Any) -> None:
        """Override to take up what `get_extra_state` gave."""
        raise RuntimeError(f"{type(self).__name__}.set_extra_state: the class has no extra state; override it with get_extra_state.")

    # -- saving -------------------------------------------------------------------------------------------
    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
        """All parameters and persistent buffers by their full names, in an ordered dictionary.

        The tensors share the Module's memory and are detached unless `keep_vars`. `destination` takes the entries, and `prefix`
        goes before every name.

        >>> import flambeau as torch
        >>> list(torch.nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        if args:
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and not prefix else prefix
            keep_vars = args[2] if len(args) > 2 and not keep_vars else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, replaces in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if result is not None:
                if not replaces:
                    raise RuntimeError("state_dict post-hook must return None")
                destination = result
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put this Module's own entries, not its children's, into `destination`."""
        for name, tensor in self._own_entries().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _own_entries(self) -> dict[str, Any]:
        entries = {name: tensor for name, tensor in self._parameters.items() if tensor is not None}
        for name, tensor in self._buffers.items():
            if tensor is not None and name not in self._non_persistent_buffers_set:
                entries[name] = tensor
        return entries

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Run ``hook(module, state_dict, prefix, local_metadata)`` after this Module's entries have been saved; it may change them."""
        return self._add_state_dict_hook(hook, replaces=False)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._add_state_dict_hook(hook, replaces=True)

    def _add_state_dict_hook(self, hook: Callable[..., Any], replaces: bool) -> RemovableHandle:
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = (hook, replaces)
        return handle

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Run ``hook(module, prefix, keep_vars)`` before this Module's state is saved."""
        handle = RemovableHandle(self._state_dict_pre_hooks)
        self._state_dict_pre_hooks[handle.id] = hook
        return handle

    # -- loading ------------------------------------------------------------------------------------------
    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Run ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., None], with_module: bool = False) -> RemovableHandle:
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        self._load_state_dict_pre_hooks[handle.id] = (hook, with_module)
        return handle

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Run ``hook(module, incompatible_keys)`` after this Module has been loaded; it may change the two lists of keys."""
        handle = RemovableHandle(self._load_state_dict_post_hooks)
        self._load_state_dict_post_hooks[handle.id] = hook
        return handle

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> _IncompatibleKeys:
        """Copy the entries of `state_dict` into the parameters and buffers with the same names.

        With `strict`, keys that do not match raise; the result names them. With `assign` the tensors of `state_dict` take the
        places of the Module's own. Raises RuntimeError listing everything that did not fit (what fitted has been loaded then),
        and TypeError when `state_dict` is not a mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        # A copy: `_load_from_state_dict` of a Module may rename entries of older versions in it.
        entries: Any = OrderedDict(state_dict)
        if metadata is not None:
            entries._metadata = metadata
        self._load(entries, "", metadata, assign, missing, unexpected, errors)
        if strict and missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if strict and unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(missing, unexpected)

    def _load(
        self, entries: Any, prefix: str, metadata: Any, assign: bool, missing: list[str], unexpected: list[str], errors: list[str]
    ) -> None:
        local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local_metadata = {**local_metadata, "assign_to_params_buffers": True}
        self._load_from_state_dict(entries, prefix, local_metadata, True, missing, unexpected, errors)
        for name, child in self._modules.items():
            if child is not None:
                start = f"{prefix}{name}."
                of_child = {key: value for key, value in entries.items() if key.startswith(start)}
                child._load(of_child, start, metadata, assign, missing, unexpected, errors)
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, _IncompatibleKeys(missing, unexpected)) is not None:
                raise AssertionError(
                    "load_state_dict: a post hook returned a value; it must return None and change incompatible_keys in place."
                )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load this Module's own entries, not its children's; what does not fit is added to the three lists."""
        for hook, with_module in self._load_state_dict_pre_hooks.values():
            first = (self,) if with_module else ()
            hook(*first, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, own in self._own_entries().items():
            key = prefix + name
            if key in state_dict:
                self._load_entry(name, own, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        has_extra = type(self).set_extra_state is not ModuleState.set_extra_state
        extra = prefix + EXTRA_STATE
        if has_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif has_extra and strict:
            missing_keys.append(extra)
        if strict:
            self._report_unexpected(state_dict, prefix, extra if has_extra else "", unexpected_keys)

    def _load_entry(self, name: str, own: Tensor, key: str, value: Any, assign: bool, errors: list[str]) -> None:
        if not isinstance(value, Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint but '
                f"received {type(value)}"
            )
            return
        if own.dim() == 0 and tuple(value.shape) == (1,):
            # Files of the oldest versions hold single numbers with one dimension.
            value = value[0]
        if tuple(value.shape) != tuple(own.shape):
            errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current model is "
                f"{own.shape}."
            )
            return
        try:
            with no_grad():
                if assign:
                    self._assign_entry(name, own, value)
                else:
                    own.copy_(value)
        except Exception as error:
            errors.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {own.size()} and whose dimensions in '
                f"the checkpoint are {value.size()}, an exception occurred : {error.args}."
            )

    def _assign_entry(self, name: str, own: Tensor, value: Tensor) -> None:
        if isinstance(own, Parameter):
            if not isinstance(value, Parameter):
                value = Parameter(value, requires_grad=own.requires_grad)
            else:
                value.requires_grad_(own.requires_grad)
        setattr(self, name, value)

    def _report_unexpected(self, state_dict: Any, prefix: str, extra: str, unexpected: list[str]) -> None:
        known = self._own_entries()
        for key in state_dict:
            if not key.startswith(prefix) or key == extra:
                continue
            parts = key[len(prefix) :].split(".", 1)
            if parts[0] not in known if len(parts) == 1 else parts[0] not in self._modules:
                unexpected.append(key)


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
