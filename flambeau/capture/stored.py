"""Captures that outlive the process: a trace tree in the disk cache, and the same tree in a later process.

A tree is kept only if all that it takes for granted can be said without addresses: every object that it names by a place that
is found from the call, every function that was interpreted by the contents of its code, which some check or fact looks at again, and
Modules, optimizers and classes by descriptions. In another process the places are followed, the descriptions compared, and the
program's own checks do the rest; at the first difference the function is captured anew.
"""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from flambeau.capture.contents import NotPortable, summary
from flambeau.capture.finding import Finder, follow
from flambeau.capture.portable import ABSENT, Decoder, Encoder, Outdated
from flambeau.capture.sizes import Pattern
from flambeau.capture.stored_graph import pack_runner, unpack_runner
from flambeau.capture.stress import stress
from flambeau.capture.tree import Block, Check, End, Step, Tree
from flambeau.capture.values import MISSING, code_digest
from flambeau.compilation.kernel_cache import toolchain
from flambeau.core.config import config
from flambeau.core.context import context
from flambeau.core.events import counters
from flambeau.ir import origins
from flambeau.runtime import disk_cache
from flambeau.tensor.base import TensorBase

__all__ = ["keep", "keys_of", "revive"]

NAMESPACE = "captures"
FORMAT = 1
CONSTANT = re.compile(r"\bc\d+\b")


def roots_of(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What places begin at."""
    return {"function": function, **{str(i): v for i, v in enumerate(args)}, **{f"{k}=": v for k, v in kwargs.items()}}


def keys_of(function: Any, args: Sequence[Any], kwargs: dict[str, Any], settings: tuple[Any, ...]) -> list[str]:
    """The names of the capture of such a call in the cache: for these sizes, and for others too; none where there cannot be one.

    A capture that was kept knows no lines of the program, so none is used while somebody wants those.
    """
    inner = getattr(function, "__func__", function)
    code = getattr(inner, "__code__", None)
    if not config.cache or stress.flush or stress.leave or stress.fresh or origins.wanted() or code is None:
        return []
    globals_ = inner.__globals__
    used = [globals_[n] for c in nested(code) for n in c.co_names if n in globals_]
    versions = FORMAT, disk_cache.source_epoch(), sys.version, np.__version__, toolchain()
    held = [summary(v) for v in (function, inner.__defaults__, *used)]
    given = [[summary(v, sizes) for v in (*args, *kwargs.values())] for sizes in (True, False)]
    return [disk_cache.key(*versions, settings, sorted(kwargs), repr(context.devices), held, found) for found in given]


def nested(code: types.CodeType) -> list[types.CodeType]:
    """A code object and those inside it."""
    return [code, *(inner for c in code.co_consts if isinstance(c, types.CodeType) for inner in nested(c))]


# -- keeping --------------------------------------------------------------------------------------------
def keep(keys: Sequence[str], tree: Tree, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> str | None:
    """Put a tree into the cache; or why that cannot be."""
    try:
        data = pack(tree, Finder(roots_of(function, args, kwargs), tree.seen_names))
    except NotPortable as reason:
        counters["captures_not_kept"] += 1
        return str(reason)
    looks = [b.end.outcomes for b in tree.blocks() if isinstance(b.end, Check) and b.end.kind == "look"]
    for key in keys if any(type(k[1]) is Pattern for outcomes in looks for k in outcomes) else keys[:1]:
        disk_cache.put(NAMESPACE, key, json.dumps(data, separators=(",", ":")).encode())
    counters["captures_kept"] += 1
    return None


def pack(tree: Tree, finder: Finder) -> dict[str, Any]:
    """A tree as plain data."""
    encoder = Encoder(tree, finder)
    blocks = list(tree.blocks())
    numbers = {id(b): i for i, b in enumerate(blocks)}
    packed = [_pack_block(encoder, b, numbers) for b in blocks]
    used = dict.fromkeys(name for b in blocks for text in _texts(b) for name in CONSTANT.findall(text) if name in tree.constants)
    used.update((tree.names[id(b.end.guard)], None) for b in blocks if isinstance(b.end, Check) and b.end.guard is not None)
    constants = {name: encoder.of(tree.constants[name]) for name in used}
    runners = [pack_runner(encoder, runner) for runner in tree.segments]
    shapes = [[encoder.of(k), encoder.of(v)] for k, v in tree.shapes.items()]
    _account(tree, encoder)
    return {
        "facts": list(encoder.facts.values()), "blocks": packed, "constants": constants, "runners": runners, "shapes": shapes,
        "named": tree.named, "count": tree.count, "seen": sorted(tree.seen_names), "left": tree.left, "places": finder.table,
    }  # fmt: skip


def _account(tree: Tree, encoder: Encoder) -> None:
    """Every function that was interpreted is one whose code is looked at again on the way to there, or stands inside one."""
    inside = {found: {code_digest(c) for c in nested(code)} for found, (code, _) in tree.entered.items()}
    for found, (code, blocks) in tree.entered.items():
        for block in blocks.values():
            looked = set(encoder.accounted)
            for above in block.line():
                check, key = cast("tuple[Any, Any]", above.parent or (None, None))
                if isinstance(check, Check):
                    looked |= {key[1]} if check.kind == "look" and key[0] == "code" else encoder.codes_of(check.guard)
            if found not in looked.union(*(inside[k] for k in looked if k in inside)):
                raise NotPortable(f"{code.co_qualname} was called in a way that is not checked by its code")


def _texts(block: Block) -> list[str]:
    return [s.expression for s in block.steps] + [e.expression if isinstance(e := block.end, Check) else getattr(e, "text", "")]


def _pack_block(encoder: Encoder, block: Block, numbers: dict[int, int]) -> list[Any]:
    end, tree = block.end, encoder.tree
    if isinstance(end, Check):
        outcomes = [[encoder.of(k), numbers[id(b)]] for k, b in end.outcomes.items()]
        last = ["check", end.expression, end.kind, end.where, outcomes, None if end.guard is None else tree.names[id(end.guard)]]
    else:
        last = None if end is None else [end.kind, end.text]
    return [[_pack_step(encoder, s, numbers) for s in block.steps], last]


def _pack_step(encoder: Encoder, step: Step, numbers: dict[int, int]) -> list[Any]:
    if step.undo is None and step.segment is None and not step.raises and step.place is None:
        return [step.names, step.expression, step.where, step.birth]
    place = step.place
    if place is not None:
        place = [place[0], *encoder.all(place[1:] if place[0] in ("argument", "size") else place[1:-1])]
    raises = [[encoder.of(kind), numbers[id(b)]] for kind, b in step.raises.items()]
    segment = None if step.segment is None else encoder.runners.get(id(step.segment))
    if step.segment is not None and segment is None:
        raise NotPortable("a segment whose first run raised")
    return [step.names, step.expression, step.where, step.birth, place, segment, encoder.of(step.undo), raises, step.error]


# -- and having again -----------------------------------------------------------------------------------
def revive(keys: Sequence[str], tree: Tree, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> str | None:
    """Fill an empty tree with what an earlier process kept; or why that cannot be, "" where there is nothing."""
    key, kept = next(((k, found) for k in keys if (found := disk_cache.get(NAMESPACE, k)) is not None), ("", b""))
    if not kept:
        return ""
    try:
        data = json.loads(kept)
        unpack(tree, data, roots_of(function, args, kwargs))
    except Outdated as reason:
        counters["captures_outdated"] += 1
        return str(reason)
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, AssertionError):
        disk_cache.discard(NAMESPACE, key)
        return "it was damaged"
    counters["captures_revived"] += 1
    return None


def unpack(tree: Tree, data: dict[str, Any], roots: dict[str, Any]) -> None:
    """Fill an empty tree. Constants that are not there yet are looked for again when state has been started."""
    objects = follow(data["places"], roots, ABSENT)
    decoder = Decoder(tree, objects)
    checker = Encoder(tree, Finder({}, set()))
    for where, described in data["facts"]:
        value = decoder.of(where)
        try:
            same = not described or checker.described(value) == described
        except NotPortable:
            same = False
        if not same:
            raise Outdated(f"{getattr(value, '__qualname__', None) or type(value).__qualname__} is not what it was")
    decoder.runners = tree.segments
    tree.segments += [unpack_runner(decoder, runner) for runner in data["runners"]]
    tree.seen_names = set(data["seen"])
    tree.named, tree.count, tree.captures, tree.left = data["named"], data["count"], 1, data["left"]
    late = _set_constants(tree, decoder, data["constants"], data["places"])
    tree.shapes = {decoder.of(k): decoder.of(v) for k, v in data["shapes"]}
    blocks = [tree.root, *(Block() for _ in data["blocks"][1:])]
    for block, packed in zip(blocks, data["blocks"], strict=True):
        _unpack_block(decoder, block, packed, blocks)
    if late:
        tree.late = lambda: _find_late(tree, data, roots, objects, late)


def _set_constants(tree: Tree, decoder: Decoder, constants: dict[str, Any], places: list[list[Any]]) -> dict[str, Any]:
    late: dict[str, Any] = {}
    for name, packed in constants.items():
        if type(packed) is list and packed[0] == "later" and decoder.places[packed[1]] is ABSENT and _in_state(places, packed[1]):
            late[name] = packed
            tree.constants[name] = ABSENT
        else:
            tree.constants[name] = value = decoder.of(packed)
            tree.names[id(value)] = name
    if len(tree.names) + len(late) != len(constants):
        raise Outdated("two objects that it uses are one here")
    return late


def _in_state(places: list[list[Any]], number: int) -> bool:
    """Whether a place is what some object holds for a tensor, as optimizers do, so that it may come into being yet."""
    while number >= 0:
        number, kind, *_ = places[number]
        if kind == "at":
            return True
    return False


def _find_late(tree: Tree, data: dict[str, Any], roots: dict[str, Any], objects: list[Any], late: dict[str, Any]) -> None:
    objects[:] = follow(data["places"], roots, ABSENT, objects)
    for name, (_, number) in list(late.items()):
        value = objects[number]
        if isinstance(value, TensorBase) and id(value) not in tree.names:
            tree.constants[name], tree.names[id(value)] = value, name
            del late[name]
    if not late:
        tree.late = None
    tree.changed()


def _unpack_block(decoder: Decoder, block: Block, packed: list[Any], blocks: list[Block]) -> None:
    steps, last = packed
    for names, expression, where, birth, *rest in steps:
        place, segment, undo, raises, error = rest or (None, None, None, (), "")
        step = Step(names, expression, where, birth=birth, parent=block, error=error, undo=decoder.of(undo))
        step.segment = None if segment is None else decoder.runners[segment]
        step.place = None if place is None else _unpack_place(decoder, *place)
        for kind, number in raises:
            kind = decoder.of(kind)
            step.raises[kind], blocks[number].parent = blocks[number], (step, kind)
        block.steps.append(step)
    if last is not None and last[0] == "check":
        _, expression, kind, where, outcomes, guard = last
        check = block.end = Check(expression, kind, where, block, guard=None if guard is None else decoder.tree.constants[guard])
        for key, number in outcomes:
            key = decoder.of(key)
            check.outcomes[key], blocks[number].parent = blocks[number], (check, key)
    elif last is not None:
        block.end = End(*last)


def _unpack_place(decoder: Decoder, kind: str, *rest: Any) -> tuple[Any, ...]:
    """A place with what is there now: once the checks have passed it is what they are about."""
    values = decoder.all(rest)
    if kind == "value":
        return kind, *values, values[0].get(values[1], MISSING)
    if kind == "cell":
        return kind, *values, values[0].cell_contents
    return (kind, *values, values[0]()) if kind == "get" else (kind, *values)
