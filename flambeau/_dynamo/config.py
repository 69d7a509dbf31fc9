"""torch._dynamo.config: settings of ``compile`` as attributes. Some have no effect here; unknown ones raise AttributeError."""

from __future__ import annotations

import sys
from contextlib import ContextDecorator
from types import ModuleType
from typing import Any

from flambeau.capture.settings import Settings, settings

# Other names of the same setting.
SAME = {"cache_size_limit": "recompile_limit"}
# What is accepted because programs set it, and changes nothing: what they ask for holds anyway, or is no matter here.
WITHOUT_EFFECT: dict[str, Any] = {
    "accumulated_cache_size_limit": 256, "accumulated_recompile_limit": 256, "allow_rnn": False, "allow_unspec_int_on_nn_module": False,
    "cache_size_limit_check": True, "capture_dynamic_output_shape_ops": True, "capture_func_transforms": True,
    "capture_scalar_outputs": True, "compiled_autograd": False, "error_on_nested_fx_trace": True, "fail_on_recompile_limit_hit": False,
    "force_parameter_static_shapes": True, "force_nn_module_property_static_shapes": True, "guard_nn_modules": True,
    "inline_inbuilt_nn_modules": True, "log_level": None, "optimize_ddp": True, "print_graph_breaks": False, "replay_record_enabled": False,
    "report_guard_failures": True, "repro_after": None, "repro_level": 2, "skip_fwd_side_effects_in_bwd_under_checkpoint": False,
    "skip_nnmodule_hook_guards": True, "specialize_float": False, "specialize_int": False, "suppress_errors": False,
    "traceable_tensor_subclasses": set(), "verbose": False,
}  # fmt: skip
_others = dict(WITHOUT_EFFECT)


class patch(ContextDecorator):  # noqa: N801 - used as a function
    """Set settings inside a ``with`` block or a function: ``patch(name=value)``, ``patch("name", value)`` or ``patch({...})``."""

    def __init__(self, first: Any = None, value: Any = None, **changes: Any) -> None:
        self.changes = {**({first: value} if isinstance(first, str) else first or {}), **changes}
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self.before.append({name: getattr(sys.modules[__name__], name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(sys.modules[__name__], name, value)

    def __exit__(self, *_: object) -> None:
        for name, value in self.before.pop().items():
            setattr(sys.modules[__name__], name, value)


class _Config(ModuleType):
    def __getattr__(self, name: str) -> Any:
        name = SAME.get(name, name)
        if name in Settings.__dataclass_fields__:
            return getattr(settings, name)
        if name in _others:
            return _others[name]
        raise AttributeError(f"torch._dynamo.config.{name} does not exist")

    def __setattr__(self, name: str, value: Any) -> None:
        name = SAME.get(name, name)
        if name in Settings.__dataclass_fields__:
            setattr(settings, name, value)
        elif name in _others:
            _others[name] = value
        elif name.startswith("__"):
            super().__setattr__(name, value)
        else:
            raise AttributeError(f"torch._dynamo.config.{name} does not exist")


sys.modules[__name__].__class__ = _Config
