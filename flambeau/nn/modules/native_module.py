"""Puts the native entries of Modules in the places of the Python ones, which stay behind them."""

from __future__ import annotations

import sys
from typing import Any

from flambeau.nn.modules import module_hooks
from flambeau.runtime.native import heap_types, library
from flambeau.tensor.native_plan import Block

__all__ = ["install"]


def install(module_class: type[Any]) -> None:
    """Called once by the Module class: let native code call Modules and find their parts."""
    native = library.load()
    if native is None:
        return
    hooks = (module_hooks.global_forward_hooks, module_hooks.global_forward_pre_hooks, module_hooks.global_backward_hooks,
             module_hooks.global_backward_pre_hooks)  # fmt: skip
    native.hold_block("global_hooks", Block([*map(id, hooks), 0], hooks))
    for field, names in (
        ("hook_names", ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")),
        ("registry_names", ("_parameters", "_buffers", "_modules")),
    ):
        interned = list(map(sys.intern, names))
        native.hold_block(field, Block([*map(id, interned), 0], interned))
    native.hold("compiled_name", sys.intern("_compiled_call_impl"))
    native.hold("forward_name", sys.intern("forward"))
    native.hold("call_module", module_class.__call__)
    native.hold("no_such_part", module_class.__getattr__)
    fast = heap_types.METH_FASTCALL | heap_types.METH_KEYWORDS
    heap_types.put_in_front(module_class, "__call__", native.symbols["module_call"], fast)
    heap_types.put_in_front(module_class, "__getattr__", native.symbols["module_getattr"], heap_types.METH_ONE)
