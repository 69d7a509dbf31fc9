"""The plans of calls in native form: rows of words that native code reads, made once for each plan."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau.compilation.program import BoundProgram
from flambeau.interp.functions import Derivative
from flambeau.runtime.generator import default_generator
from flambeau.runtime.launch import TaskArray
from flambeau.runtime.native import launch, layouts
from flambeau.runtime.native.language import Struct
from flambeau.runtime.storage import TensorMeta
from flambeau.tensor.plans import CallPlan

__all__ = ["Block", "NativePlan", "pack", "performable", "recording_of", "remember_backward"]

# Backward functions of one plan that native code gets to know, one after another.
_MOST_BACKWARDS = 16

# What a plain alias of an operand is seen through.
NO_STEPS: tuple[Any, ...] = ()


class Block:
    """Words in memory that native code reads, with what they point to kept alive."""

    __slots__ = ("address", "kept", "words")

    def __init__(self, words: Sequence[int], *kept: Any) -> None:
        self.words = array("q", words)
        self.kept = kept
        self.address = self.words.buffer_info()[0]


def pack(struct: type[Struct], values: Mapping[str, int]) -> list[int]:
    """The words of a struct; fields that are not named are 0."""
    words = [0] * (struct.size // 8)
    for name, value in values.items():
        words[struct.offset(name) // 8] = _signed(value)
    return words


def _signed(value: int) -> int:
    return value if value < 1 << 63 else value - (1 << 64)


class NativePlan:
    """One plan in native form. With a ``call_plan`` of None the call is left to Python."""

    __slots__ = ("block", "hash", "kept", "name", "tasks")

    def __init__(
        self, name: str, call_plan: CallPlan | None, structure: Any, fields: Mapping[str, int], steps: Sequence[Any] = ()
    ) -> None:  # fmt: skip
        self.name = name
        self.tasks: TaskArray | None = None
        self.kept: list[Any] = [call_plan, steps]
        self.hash = fields.get("hash", 0)
        words = {**fields, "owner": id(self)}
        if call_plan is not None:
            self._fill(words, call_plan, structure, steps)
        self.block = Block(pack(layouts.Plan, words))

    def _keep(self, words: Sequence[int], *kept: Any) -> int:
        block = Block(words, *kept)
        self.kept.append(block)
        return block.address

    def _fill(self, fields: dict[str, int], plan: CallPlan, structure: Any, steps: Sequence[Any]) -> None:
        run = plan.run
        fields["structure"] = self._keep(_description(structure), structure)
        fields["inputs"] = len(plan.metas)
        fields["made"] = len(run.outputs)
        if plan.derivative is not None:
            fields["recording"] = recording_of(plan).address
        outputs: list[int] = []
        if run.views is not None:
            fields["kind"] = launch.VIEWS
            for output, (view, meta) in enumerate(zip(run.views, run.outputs, strict=True)):
                outputs += pack(layouts.Output, {"meta": id(meta), "target": view.position, "offset": view.offset * meta.dtype.itemsize,
                                                 "steps": id(steps[output]) if steps else 0})  # fmt: skip
        else:
            fields["kind"] = launch.RUN
            into = run.into or (None,) * len(run.outputs)
            fields["writes"] = any(t is not None for t in into)
            for meta, target in zip(run.outputs, into, strict=True):
                outputs += pack(layouts.Output, {"meta": id(meta), "nbytes": meta.nbytes, "target": -1 if target is None else target})
            assert isinstance(run.bound, BoundProgram)
            self._bind(fields, run.bound)
        fields["outputs"] = self._keep(outputs, run.outputs)

    def _bind(self, fields: dict[str, int], bound: BoundProgram) -> None:
        self.tasks = tasks = bound.tasks
        self.kept.append(bound)
        base = tasks.address
        inputs = fields["inputs"]
        patches: list[int] = []
        for source, found in [*enumerate(bound.input_patches[:inputs]), *enumerate(bound.output_patches, inputs)]:
            for patch in found:
                patches += pack(layouts.Patch, {"source": source, "slot": base + 8 * patch.slot, "offset": patch.offset})
        temporaries: list[int] = []
        for slot, offset in bound.temporary_patches:
            temporaries += pack(layouts.Patch, {"slot": base + 8 * slot, "offset": offset})
        scalars: list[int] = []
        for number, targets in enumerate(bound.scalar_slots):
            for slot, kind in targets:
                form = launch.AS_INT if not kind.is_floating_point else launch.AS_DOUBLE if kind.itemsize == 8 else launch.AS_FLOAT
                scalars += pack(layouts.Scalar, {"number": number, "slot": base + 8 * slot, "kind": form})
        for slot in bound.random_slots:
            tasks.slots[slot] = default_generator.address
        for field, count, words, struct in (
            ("patches", "patch_count", patches, layouts.Patch), ("temporaries", "temporary_count", temporaries, layouts.Patch),
            ("scalars", "scalar_count", scalars, layouts.Scalar),
        ):  # fmt: skip
            fields[field] = self._keep(words)
            fields[count] = len(words) * 8 // struct.size
        fields["number_count"] = len(bound.scalar_slots)
        fields["arena_bytes"] = bound.arena_bytes
        fields["releases"] = bound.release_gil
        fields["program"] = base
        fields["error"] = tasks.error_address
        fields["busy"] = tasks.busy_address
        single = tasks.single_call()
        if single is not None and not bound.release_gil:
            fields["function"], fields["arguments"] = single


def recording_of(plan: CallPlan) -> Block:
    """What `dispatch.record` does with a plan; the same block for every native form of it."""
    if plan.recording is None:
        derivative = plan.derivative
        assert isinstance(derivative, Derivative)
        edges = Block([position for position, wanted in enumerate(plan.wanted) if wanted])
        words: list[int] = []
        for kind, index in derivative.kept:
            place = plan.count + index if kind == "extra" else index
            written = kind == "input" and bool(plan.run.into) and index in plan.run.into
            output = index if kind == "output" else -1
            words += pack(layouts.Save, {"made": kind != "input", "index": place, "output": output, "written": written})
        saves = Block(words)
        metas = tuple(plan.run.outputs[: plan.count])
        results = Block(plan.recorded)
        plan.recording = Block(pack(layouts.Recording, {
            "call_plan": id(plan), "metas": id(metas), "edge_count": sum(plan.wanted), "edges": edges.address,
            "save_count": len(derivative.kept), "saves": saves.address, "result_count": len(plan.recorded),
            "results": results.address,
        }), edges, saves, metas, results)  # fmt: skip
    return plan.recording


def remember_backward(
    plan: CallPlan, derivative: Derivative, found: CallPlan, given: Sequence[TensorMeta], places: Sequence[int],
    copies: Mapping[int, CallPlan],
) -> None:  # fmt: skip
    """Let native code run the backward of ``plan``'s entries by ``found`` where saved values and cotangents are ``given``.

    ``derivative`` is the one of ``plan``, or one for fewer cotangents. ``places`` tells where in an entry are the saved values it
    takes, ``copies`` which operands are copied before.
    """
    if plan.recording is None or not all(derivative.given) or len(plan.recording.kept) > _MOST_BACKWARDS:
        return
    if not all(map(performable, (found, *copies.values()))):
        return
    assert isinstance(plan.derivative, Derivative)
    aliases = [NO_STEPS] * len(found.run.outputs)
    native = NativePlan(found.run.function.name, found, list(range(found.count)), {}, aliases)
    present = list(enumerate(zip(plan.derivative.split.present, derivative.split.present, strict=True)))
    cotangents = Block([place for place, (_, here) in present if here])
    missing = Block([place for place, (usually, here) in present if usually and not here])
    saved, numbers, metas = Block(places), Block(list(derivative.saved_numbers)), Block(list(map(id, given)), given)
    natives = [NativePlan("clone", copy, 0, {}) for copy in copies.values()]
    copied = Block([w for at, n in zip(copies, natives, strict=True) for w in (at, n.block.address)], natives)
    place = layouts.Recording.offset("backward") // 8
    backward = Block(pack(layouts.Backward, {
        "plan": native.block.address, "saved_count": len(places), "saved": saved.address,
        "cotangent_count": len(cotangents.words), "cotangents": cotangents.address,
        "missing_count": len(missing.words), "missing": missing.address,
        "number_count": len(derivative.saved_numbers), "numbers": numbers.address, "metas": metas.address,
        "copy_count": len(copies), "copies": copied.address, "next": plan.recording.words[place],
    }), native, saved, cotangents, missing, numbers, metas, copied)  # fmt: skip
    # Never let go: native code may be in the middle of an earlier one.
    plan.recording.kept = (*plan.recording.kept, backward)
    plan.recording.words[place] = backward.address


def _description(structure: Any) -> list[int]:
    """A structure of results as `launch.build` reads it."""
    if structure is None:
        return [launch.NOTHING, 0, 0]
    if isinstance(structure, int):
        return [launch.SINGLE, structure, 0]
    kind = {tuple: launch.TUPLE, list: launch.LIST}.get(type(structure), launch.CLASS)
    return [kind, len(structure), id(type(structure)), *(word for part in structure for word in _description(part))]


def performable(plan: CallPlan) -> bool:
    """Whether native code can run, wrap and record what the plan gives."""
    if plan.run.call is not None or not (plan.derivative is None or isinstance(plan.derivative, Derivative)):
        return False
    if any(node.dtype.is_complex for node in plan.run.function.graph.inputs[len(plan.metas) :]):
        return False
    return plan.run.views is not None or isinstance(plan.run.bound, BoundProgram)
