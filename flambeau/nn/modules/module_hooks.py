"""Hooks of a Module: what runs before and after its forward and its backward, and the call that runs them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.core.compile_hook import compile_function
from flambeau.core.context import context
from flambeau.core.handles import RemovableHandle
from flambeau.core.stamps import StampedDict, bump_module_stamp
from flambeau.nn.modules.backward_hook import BackwardHook

__all__ = [
    "ModuleHooks", "register_module_buffer_registration_hook", "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

Hook = Callable[..., Any]
Self = TypeVar("Self", bound="ModuleHooks")

# Hooks that run for every Module.
global_forward_hooks = StampedDict()
global_forward_hooks_with_kwargs = StampedDict()
global_forward_hooks_always_called = StampedDict()
global_forward_pre_hooks = StampedDict()
global_backward_hooks = StampedDict()
global_backward_pre_hooks = StampedDict()
global_registration_hooks: dict[str, StampedDict] = {"module": StampedDict(), "parameter": StampedDict(), "buffer": StampedDict()}


def _add(hooks: StampedDict, hook: Hook, prepend: bool = False, flags: tuple[tuple[StampedDict, bool], ...] = ()) -> RemovableHandle:
    """Put a hook into `hooks`; each dictionary of `flags` gets an entry where its flag is set."""
    handle = RemovableHandle(hooks, extra_dict=[dictionary for dictionary, _ in flags])
    hooks[handle.id] = hook
    for dictionary, wanted in flags:
        if wanted:
            dictionary[handle.id] = True
    if prepend:
        hooks.move_to_front(handle.id)
    return handle


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Run ``hook(module, args)`` before every Module's forward."""
    return _add(global_forward_pre_hooks, hook)


def register_module_forward_hook(hook: Hook, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Run ``hook(module, args, output)`` after every Module's forward."""
    flags = ((global_forward_hooks_with_kwargs, with_kwargs), (global_forward_hooks_always_called, always_call))
    return _add(global_forward_hooks, hook, flags=flags)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Run ``hook(module, grad_input, grad_output)`` when the gradients of any Module's inputs are known."""
    return _add(global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Run ``hook(module, grad_output)`` before any Module's backward."""
    return _add(global_backward_pre_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Run ``hook(module, name, submodule)`` whenever a child is registered; what it returns takes the child's place."""
    return _add(global_registration_hooks["module"], hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Run ``hook(module, name, parameter)`` whenever a parameter is registered; what it returns takes its place."""
    return _add(global_registration_hooks["parameter"], hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Run ``hook(module, name, buffer)`` whenever a buffer is registered; what it returns takes its place."""
    return _add(global_registration_hooks["buffer"], hook)


def run_registration_hooks(kind: str, module: Any, name: str, value: Any) -> Any:
    for hook in global_registration_hooks[kind].values():
        replaced = hook(module, name, value)
        value = value if replaced is None else replaced
    return value


class ModuleHooks:
    """The part of Module that keeps its hooks and calls its forward."""

    _compiled_call_impl: Callable[..., Any] | None = None
    forward: Callable[..., Any]
    _forward_hooks: StampedDict
    _forward_hooks_with_kwargs: StampedDict
    _forward_hooks_always_called: StampedDict
    _forward_pre_hooks: StampedDict
    _forward_pre_hooks_with_kwargs: StampedDict
    _backward_hooks: StampedDict
    _backward_pre_hooks: StampedDict

    def _create_hook_dictionaries(self) -> None:
        own = self.__dict__
        for name in _DICTIONARIES:
            own[name] = StampedDict()

    def register_forward_pre_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Run ``hook(module, args)`` before forward; what it returns becomes the arguments.

        A single value is taken as the only argument. With `with_kwargs` it is ``hook(module, args, kwargs)``, which returns both.
        """
        return _add(self._forward_pre_hooks, hook, prepend, ((self._forward_pre_hooks_with_kwargs, with_kwargs),))

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Run ``hook(module, args, output)`` after forward; what it returns, unless None, becomes the output.

        With `with_kwargs` it is ``hook(module, args, kwargs, output)``; with `always_call` it runs even when forward raises.
        """
        flags = ((self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call))
        return _add(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Run ``hook(module, grad_output)`` before the Module's backward; what it returns, unless None, takes grad_output's place."""
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Run ``hook(module, grad_input, grad_output)`` once the inputs' gradients are known.

        Both are tuples with None for what has no gradient. What the hook returns, unless None, takes grad_input's place.
        """
        return _add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Use `register_full_backward_hook`: the old kind of hook saw the gradients of the last operator only."""
        raise NotImplementedError(
            f"{type(self).__name__}.register_backward_hook: gradients of the last operator only are not offered; "
            "use register_full_backward_hook, which sees those of the whole module."
        )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this Module's call in place; the arguments are those of ``flambeau.compile``."""
        self._compiled_call_impl = compile_function()(self._call_impl, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if context.capture is not None:
            context.capture.note_module(self)
        if not (
            self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
            or global_forward_hooks or global_forward_pre_hooks or global_backward_hooks or global_backward_pre_hooks
        ):  # fmt: skip
            return self.forward(*args, **kwargs)
        called: set[int] = set()
        try:
            return self._call_with_hooks(args, kwargs, called)
        except Exception:
            self._call_remaining_hooks(args, kwargs, called)
            raise

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
        args, kwargs = self._run_forward_pre_hooks(args, kwargs)
        backward: BackwardHook | None = None
        if self._backward_hooks or self._backward_pre_hooks or global_backward_hooks or global_backward_pre_hooks:
            hooks = [*global_backward_hooks.values(), *self._backward_hooks.values()]
            pre_hooks = [*global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
            backward = BackwardHook(self, hooks, pre_hooks)
            args = backward.setup_inputs(args)
        output = self.forward(*args, **kwargs)
        for number, hook, with_kwargs, _ in self._all_forward_hooks():
            called.add(number)
            replaced = hook(self, args, kwargs, output) if with_kwargs else hook(self, args, output)
            output = output if replaced is None else replaced
        return output if backward is None else backward.setup_output(output)

    def _run_forward_pre_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for hook in tuple(global_forward_pre_hooks.values()):
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        for number, hook in tuple(self._forward_pre_hooks.items()):
            if number in self._forward_pre_hooks_with_kwargs:
                both = hook(self, args, kwargs)
                if both is not None:
                    if not (isinstance(both, tuple) and len(both) == 2):
                        raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {both}.")
                    args, kwargs = both
                continue
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs

    def _all_forward_hooks(self) -> list[tuple[int, Hook, bool, bool]]:
        """Number, hook, whether it takes keyword arguments, whether it always runs."""
        found: list[tuple[int, Hook, bool, bool]] = []
        for number, hook in global_forward_hooks.items():
            always = number in global_forward_hooks_always_called
            found.append((number, hook, number in global_forward_hooks_with_kwargs, always))
        for number, hook in self._forward_hooks.items():
            found.append((number, hook, number in self._forward_hooks_with_kwargs, number in self._forward_hooks_always_called))
        return found

    def _call_remaining_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> None:
        """After a failure, run the hooks that must run always and have not run yet."""
        for number, hook, with_kwargs, always in self._all_forward_hooks():
            if always and number not in called:
                try:
                    _ = hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
                except Exception as error:
                    warnings.warn(f"{type(self).__name__}: a forward hook with always_call=True raised {error!r}", stacklevel=4)

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        # Modules pickled by other versions come with plain dictionaries, or without the newer ones.
        for name in (*_DICTIONARIES, "_parameters", "_buffers", "_modules"):
            if type(own.get(name)) is not StampedDict:
                own[name] = StampedDict(own.get(name) or {})
        own.setdefault("_non_persistent_buffers_set", set())
        bump_module_stamp()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_compiled_call_impl", None)
        return state


_DICTIONARIES = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
