"""Says in the user's terms what a check looks at, what was met that a program does not know, and what ends a graph."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Any

from flambeau.capture.residual import NAME, Exit
from flambeau.capture.sizes import Pattern
from flambeau.capture.tree import Block, Check, Tree
from flambeau.core.dtypes import dtype

__all__ = ["CHOOSING", "cause", "subject", "why"]

# Modules of operators that choose by values which function is called.
CHOOSING = ("flambeau._higher_order_ops.cond", "flambeau._higher_order_ops.while_loop")

CONSTANT = r"\b(c\d+)"
MISSING = "nothing"
DIGEST = re.compile("[0-9a-f]{64}")  # of code


def why(found: Exit, tree: Tree, call: tuple[Any, ...]) -> str:
    """What a replay met that the tree did not know; ``call``: how many arguments, which keywords, and the modes of the call."""
    at = found.at
    if isinstance(at, Block):
        return "a way that no call had gone to its end"
    if not isinstance(at, Check):
        return f"{type(found.error).__name__} was raised ({at.where})"
    return f"{_met(at, found.variables, tree, call)} ({at.where})"


def _met(at: Check, variables: dict[str, Any], tree: Tree, call: tuple[Any, ...]) -> str:
    text, known = subject(tree, at.expression, _expressions(at.block)), list(at.outcomes)
    if at.guard is not None:
        return at.guard.failed() or f"{text} changed"
    if at.kind == "look" and known[0][0] == "guard" and isinstance(known[0][1], tuple) and at.expression.startswith("(len(args)"):
        return _call_differs(known[0][1], call)
    if ".fits(" in at.expression:
        return "a tensor lies in other memory than before, or is another one, so that a graph does not fit"
    if at.kind == "number":
        same = "are one object, and were not" if known[0] == -1 else "are not the objects that they were"
        return f"{' and '.join(text.partition('(')[2].strip(')').split(', '))} {same}"
    if at.kind in ("truth", "same", "sizes"):
        return f"{text} was {known[0]} and is now {not known[0]}"
    value = variables.get(at.expression.strip("()"), variables)
    now = "" if value is variables else f" and is now {_value(value)}"
    return f"{text} was {' or '.join(dict.fromkeys(map(_outcome, known[:3])))}{' or others' if len(known) > 3 else ''}{now}"


def _call_differs(before: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    names = ("the number of positional arguments", "the keywords")
    found = [f"{n} was {a} and is now {b}" for n, a, b in zip(names, before[:2], now[:2], strict=True) if a != b]
    modes = ("grad mode", "inference mode", "the default dtype", "autocast")
    found += [f"{n} was {a} and is now {b}" for n, a, b in zip(modes, before[2], now[2], strict=True) if a != b]
    return "; ".join(found) or "the call was made in other modes"


def _expressions(block: Block) -> dict[str, str]:
    return {n: s.expression for b in block.line() for s in b.steps for n in s.names[:1] if s.segment is None}


def subject(tree: Tree, text: str, made: dict[str, str]) -> str:
    """An expression of a program with its variables and constants replaced by what they are in the function."""
    for _ in range(6):
        before, text = text, NAME.sub(lambda m: made.get(m[0], m[0]), text)
        if text == before or len(text) > 400:
            break
    constants = tree.constants
    text = re.sub(r"\bargs\[(\d+)\]", lambda m: _parameter(tree, int(m[1])), text)
    text = re.sub(r"\bkwargs\['(\w+)'\]", r"\1", text)
    text = re.sub(CONSTANT + r"\.get\('(\w+)', c\d+\)", r"\2", text)
    text = re.sub(r"\.__dict__\.get\('(\w+)', c\d+\)", r".\1", text)
    text = re.sub(CONSTANT + r"\.__closure__\[(\d+)\]\.cell_contents", lambda m: _free_name(constants.get(m[1]), int(m[2])), text)
    text = re.sub(r"\bt\d+\b", "a computed tensor", text)
    text = re.sub(CONSTANT + r"(?!\w)", lambda m: _named(constants.get(m[1])), text)
    text = text.strip("()") if text.startswith("(") and text.count("(") == 1 else text
    return text if len(text) < 90 else text[:87] + "..."


def _parameter(tree: Tree, position: int) -> str:
    return f"argument {tree.parameters[position]!r}" if position < len(tree.parameters) else f"argument {position}"


def _free_name(function: Any, index: int) -> str:
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return names[index] if index < len(names) else "a variable of an enclosing function"


def _named(value: Any) -> str:
    return getattr(value, "__name__", None) or type(value).__name__


def _outcome(key: Any) -> str:
    how, seen = key if isinstance(key, tuple) and len(key) == 2 else ("", key)
    if how == "tensor" and isinstance(seen, tuple):
        return _tensor(*seen[1:])
    if isinstance(seen, Pattern):
        dims = ", ".join("any" if n is None else str(n) for n in seen.dims)
        return f"a tensor {seen.dtype} of sizes [{dims}]{', requires_grad' if seen.gradient else ''}"
    if how == "value" and seen[0] in (float, complex):
        numbers = [float.fromhex(part) for part in seen[1:]]
        return repr(numbers[0] if seen[0] is float else complex(*numbers))
    if how == "value":
        return repr(seen[1]) if not isinstance(seen[1], type) else seen[1].__name__
    if how in ("type", "any"):
        return f"a {_named(seen)}"
    seen = getattr(seen, "value", seen)
    return "a function of other code" if isinstance(seen, str) and DIGEST.fullmatch(seen) else _value(seen)


def _tensor(meta: Any, gradient: bool, leaf: bool, shown: Any) -> str:
    marks = ", requires_grad" * gradient + ", not a leaf" * (not leaf) + ", a view" * (shown is not None)
    return f"a tensor {meta!r}{marks}"


def _value(value: Any) -> str:
    meta = getattr(value, "meta", None)
    if meta is not None:
        view = value.view_of is not None
        return _tensor(meta, value._requires_grad, value.entry is None, True if view else None)
    if isinstance(value, types.FunctionType):
        return f"the function {value.__qualname__} (line {value.__code__.co_firstlineno})"
    if isinstance(value, types.CodeType):
        return f"the function {value.co_qualname} (line {value.co_firstlineno})"
    if type(value).__name__ == "_Missing":
        return MISSING
    plain = isinstance(value, (bool, int, float, complex, str, bytes, type(None), tuple, dtype, type))
    text = repr(value) if plain else f"a {type(value).__name__}"
    return text if len(text) < 90 else text[:87] + "..."


# -- what ends a graph --------------------------------------------------------------------------------------
READS = "; keep it a tensor, compute with it instead of with a Python number"
SIZED = "the size of its result depends on values"
CAUSES = {
    "bool": ("a branch needs the value of a tensor (bool)", "; use torch.where or torch.cond"),
    "__bool__": ("a branch needs the value of a tensor (bool)", "; use torch.where or torch.cond"),
    "numpy": ("numpy() needs the values of a tensor", "; compute with tensors"),
    "from_numpy": ("from_numpy() makes a tensor of memory outside", "; make it outside, and pass it"),
    "print": ("print() needs the values of a tensor", "; print outside"),
    "manual_seed": ("manual_seed() sets the random state", "; set it outside"),
    "calling_back": ("the optimizer decides by values how it goes on", "; call its step outside"),
    **{n: (f"{n}() needs the value of a tensor", READS) for n in ("item", "tolist", "int", "float", "__int__", "__float__", "__index__")},
    **{n: (f"{n}(): {SIZED}", "; use torch.where(mask, x, 0) or nonzero_static()") for n in ("nonzero", "masked_select", "argwhere")},
    **{n: (f"{n}(): {SIZED}", "") for n in ("unique", "unique_consecutive", "bincount", "repeat_interleave")},
}


def cause(function: Callable[..., Any]) -> tuple[str, str]:
    """Why a call ends the graph, and how to do without."""
    name = getattr(function, "__name__", type(function).__name__)
    if getattr(function, "_torchdynamo_disable", False):
        return f"{name} is marked by torch.compiler.disable", ""
    if name in CAUSES:
        return CAUSES[name]
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & 0x80:
        return f"{name} is a coroutine function", ""
    return f"it calls {getattr(function, '__qualname__', function)}, which needs values or does something outside", ""
