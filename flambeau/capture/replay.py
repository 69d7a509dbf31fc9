"""Residual programs in native form: each line becomes instructions of `runtime.native.replay`, which asks Python where it is not sure."""

from __future__ import annotations

import ast
import builtins
import math
import struct
import sys
import types
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from flambeau.capture.guards import ModuleGuard
from flambeau.capture.regions import memories
from flambeau.capture.residual import NAME, Exit, Printer, scope_of
from flambeau.capture.segments import Runner, firsts, set_gradient
from flambeau.capture.session import CodeGuard, modes, set_modes
from flambeau.capture.sizes import Pattern, equal_to
from flambeau.capture.trace import position
from flambeau.capture.tree import OTHERWISE, Block, Check, End, Step, Tree
from flambeau.core.context import autocast_bits
from flambeau.core.events import counters
from flambeau.core.stamps import module_stamp_address
from flambeau.ops.declare import default_float_check
from flambeau.runtime.native import heap_types, layouts, library, replay
from flambeau.tensor.base import TensorBase
from flambeau.tensor.native_plan import Block as Words
from flambeau.tensor.native_plan import NativePlan, pack, performable

__all__ = ["NativeProgram", "native_program"]

UNSET: Any = object()
MOST_METAS = 1 << 10
COMPARISONS = (ast.Lt, ast.LtE, ast.Eq, ast.NotEq, ast.Gt, ast.GtE)  # in the order of the C API
reasons: Counter[str] = Counter()  # why Python did a call, a check or a segment of a replay
REASONS = ("modes", "check", "segment", "step")
for _reason in REASONS:
    counters.watch(f"python_for_replay_{_reason}", lambda reason=_reason: reasons[reason])


def native_program(tree: Tree) -> NativeProgram | None:
    """The native form of a tree's program; None where native code is off, or the program is too long."""
    native = library.load()
    made = None if native is None else NativeProgram(native, tree)
    return made if made is not None and made.variables <= replay.OBJECTS else None


class NativeProgram:
    """The instructions of a tree. ``call(args, kwargs)`` gives what the program returns, an `Exit` where the tree does not go on, or
    NotImplemented in modes that only Python knows. ``expressions`` are the parts of the program that run as Python code."""

    def __init__(self, native: library.Library, tree: Tree) -> None:
        self.native, self.tree = native, tree
        self.scope = scope_of(tree)
        self.printer = Printer(tree)
        self.numbers: dict[str, int] = {"args": replay.ARGS, "kwargs": replay.KWARGS}
        self.variables = replay.VARIABLES
        self.rows: list[dict[str, int]] = []
        self.places: list[Any] = []
        self.handlers: dict[tuple[int, type], tuple[int, int]] = {}
        self.kept: list[Any] = []
        self.expressions: list[str] = []
        self._texts: dict[str, Any] = {}
        self._known: dict[int, dict[Any, bool]] = {}
        self._codes: dict[int, int] = {}
        self._fitting: dict[int, Any] = {}
        header = self._keep([0] * (layouts.Program.size // 8))
        self._emit(header.address)
        size = layouts.Instruction.size
        base = self._base = self._keep([0] * (len(self.rows) * size // 8))
        for k, row in enumerate(self.rows):
            for field in ("otherwise", "onward"):
                row[field] = base.address + size * row.get(field, 0)
            base.words[k * size // 8 : (k + 1) * size // 8] = type(base.words)("q", pack(layouts.Instruction, row))
        self.handlers = {key: (base.address + size * row, number) for key, (row, number) in self.handlers.items()}
        functions = self.decide, self.recover, self.leave
        fields = {"first": base.address, "variables": self.variables, "unset": id(UNSET)}
        fields |= dict(zip(("decide", "recover", "leave"), map(id, functions), strict=True))
        header.words[:] = type(header.words)("q", pack(layouts.Program, fields))
        self.kept.append(functions)
        self.call = native.function("replay", heap_types.METH_FASTCALL, header.address, self.kept)

    # -- what Python does when it is asked --------------------------------------------------------------
    def values(self, found: tuple[Any, ...]) -> dict[str, Any]:
        """The variables by their names."""
        return {name: found[k] for name, k in self.numbers.items() if found[k] is not UNSET}

    def _run(self, text: str, variables: dict[str, Any], mode: str = "eval") -> Any:
        code = self._texts.get(text)
        if code is None:
            code = self._texts[text] = compile(text, f"<residual program of {self.tree.name}>", mode)
        return eval(code, self.scope, variables)

    def decide(self, number: int, found: tuple[Any, ...], _: None) -> Any:
        """Do a whole line: the value of a step, the list of those of a segment, True or None for a check."""
        at, variables = self.places[number], self.values(found)
        if isinstance(at, Step):
            reasons["segment" if at.segment is not None else "step"] += 1
            if at.segment is None:
                return self._run(at.expression, variables, "eval" if at.names else "exec")
            call = ast.parse(at.expression, mode="eval").body
            assert isinstance(call, ast.Call)
            sizes = self._run(ast.unparse(call.args[0]), variables)
            made = self._run(at.expression, variables)
            self._add_launch(at.segment, sizes)
            return made
        check, key = at
        reasons["check"] += 1
        if isinstance(key, tuple) and key[0] == "sizes":
            known, value = self._known[id(key[1])], self._run(check.expression, variables)
            if isinstance(value, TensorBase) and len(known) < MOST_METAS:
                known[value.meta] = key[1].takes(value.meta)
        if not self._run(self.printer.test(check, key), variables):
            return None
        if number in self._codes:
            place = self._codes[number] * layouts.Instruction.size + layouts.Instruction.offset("second")
            code = self._fitting[number] = self._run(check.expression, variables).__code__
            self._base.words[place // 8] = id(code)
        return True

    def recover(self, number: int, found: tuple[Any, ...], error: BaseException) -> Any:
        """After an error: the instruction that the program goes on at, the variable of the error and it, or where the program is left."""
        step = self.places[number]
        if not (isinstance(step, Step) and isinstance(error, Exception)):
            raise error
        variables = self.values(found)
        if step.segment is not None and isinstance(error, (IndexError, RuntimeError)):
            try:
                self._run(step.expression.replace(".run(", ".blame(", 1), variables)
            except (IndexError, RuntimeError) as blamed:
                error = blamed
        handler = self.handlers.get((number, type(error)))
        return self._exit(step, variables, error) if handler is None else (*handler, error)

    def leave(self, number: int, found: tuple[Any, ...], _: None) -> Exit:
        """Where the tree does not go on."""
        return self._exit(self.places[number], self.values(found))

    def _exit(self, at: Any, variables: dict[str, Any], error: Exception | None = None) -> Exit:
        """Steps may have changed the modes; an interpretation begins in those that the program began in."""
        block: Block = at if isinstance(at, Block) else at.block if isinstance(at, Check) else at.parent
        start = block.path().get(id(self.tree.root.end))
        if start is not None:
            set_modes(start[1][2])
        return Exit(at, variables, error)

    def _add_launch(self, runner: Runner, sizes: tuple[int, ...]) -> None:
        if sizes not in runner.launches:
            if len(runner.launches) >= MOST_METAS:
                runner.launches.clear()
            runner.launches[sizes] = launch_of(self.native, runner, sizes)

    # -- emitting ---------------------------------------------------------------------------------------
    def _keep(self, words: Sequence[int], *kept: Any) -> Words:
        block = Words(words, *kept)
        self.kept.append(block)
        return block

    def _object(self, value: Any) -> int:
        self.kept.append(value)
        return id(value)

    def _place(self, at: Any) -> int:
        self.places.append(at)
        return len(self.places) - 1

    def _fresh(self) -> int:
        self.variables += 1
        return self.variables - 1

    def _add(self, function: str, operands: Sequence[int] | None = None, **fields: int) -> None:
        if operands is not None:
            fields |= {"count": len(operands), "operands": self._keep(operands).address}
        self.rows.append({"function": self.native.symbols[function], **fields})

    def _result(self, function: str, operands: Sequence[int] | None = None, **fields: int) -> int:
        """An instruction that makes something; the variable of that."""
        target = self._fresh()
        self._add(function, operands, target=target, **fields)
        return target

    def _emit(self, header: int) -> None:
        """All blocks: a line at a time, with the first outcome of each check; the others follow later."""
        waiting: list[tuple[list[int], Any]] = [([], self.tree.root)]
        while waiting:
            before, at = waiting.pop()
            for row in before:
                self.rows[row]["otherwise"] = len(self.rows)
            if isinstance(at, tuple) and isinstance(at[0], Step):
                step, place, kind = at
                self.handlers[place, kind] = len(self.rows), self.numbers[step.error]
                at = step.raises[kind]
            block: Any = at if isinstance(at, Block) else self._outcome(at[0], at[1], header, waiting)
            while block is not None:
                for step in block.steps:
                    self._step(step, waiting)
                end = block.end
                if isinstance(end, End) and end.kind == "return":
                    self._add("do_return", first=self.value(end.text))
                elif isinstance(end, Check):
                    block = self._outcome(end, 0, header, waiting)
                    continue
                else:
                    self._add("do_leave", second=header, place=self._place(block))
                block = None

    def _outcome(self, check: Check, number: int, header: int, waiting: list[tuple[list[int], Any]]) -> Block | None:
        """The test of an outcome, and its block; past the last one the program is left."""
        if number == len(check.outcomes):
            self._add("do_leave", second=header, place=self._place(check))
            return None
        key = list(check.outcomes)[number]
        begin = len(self.rows)
        if key != OTHERWISE:
            self._test(check, key)
            waiting.append((self._finish(begin, (check, key), -1), (check, number + 1)))
        return check.outcomes[key]

    def _finish(self, begin: int, at: Any, results: int, into: int = 0) -> list[int]:
        """What all instructions of a line have in common."""
        rows, place = list(range(begin, len(self.rows))), self._place(at)
        for row in rows:
            self.rows[row] |= {"place": place, "results": results, "into": into, "onward": len(self.rows)}
        return rows

    # -- steps ------------------------------------------------------------------------------------------
    def _step(self, step: Step, waiting: list[tuple[list[int], Any]]) -> None:
        begin, into, results = len(self.rows), 0, 0
        if step.segment is not None:
            into, results = self._run_segment(step), 2 + len(step.names)
        elif step.names:
            into, results = self.value(step.expression), 1
            if into >= replay.OBJECTS or begin == len(self.rows):
                into = self._result("do_move", first=into)
            self.numbers[step.names[0]] = into
        else:
            self._statement(step.expression)
        self._finish(begin, step, results, into)
        if step.raises:
            self.numbers[step.error] = self._fresh()
            waiting += [([], (step, len(self.places) - 1, kind)) for kind in step.raises]

    def _run_segment(self, step: Step) -> int:
        runner: Runner = step.segment
        call: Any = ast.parse(step.expression, mode="eval").body
        sizes, tensors, numbers = ([self.value(v) for v in part.elts] for part in call.args)
        into = self.variables
        self.numbers |= {name: self._fresh() for name in step.names}
        if not sizes:
            self._add_launch(runner, ())
        fields = {"target": into, "second": self._object(runner.launches), "third": len(sizes)}
        self._add("do_run", [*sizes, *tensors, *numbers], **fields)
        return into

    def _statement(self, text: str) -> None:
        node = ast.parse(text).body[0]
        match node:
            case ast.Assign(targets=[ast.Attribute(value=holder, attr=name)], value=value):
                found, holder_value = self.value(value), self.value(holder)
                self._add("do_set_attribute", first=holder_value, second=self._object(sys.intern(name)), third=found)
            case ast.Assign(targets=[ast.Subscript(value=holder, slice=key)], value=value) if not isinstance(key, ast.Slice):
                found, holder_value = self.value(value), self.value(holder)
                self._add("do_set_item", first=holder_value, second=self.value(key), third=found)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[leaf, gradient])) if self.scope.get(name) is set_gradient:
                self._add("do_set_gradient", first=self.value(leaf), second=self.value(gradient))
            case ast.Expr(value=value):
                self.value(value)
            case _:
                self._python(text, text)

    # -- expressions ------------------------------------------------------------------------------------
    def value(self, node: Any) -> int:
        """The operand that an expression is: an object, or the variable that instructions put it into."""
        if isinstance(node, str):
            if node in self.numbers:
                return self.numbers[node]
            node = ast.parse(node, mode="eval").body
        match node:
            case ast.Name(id=name):
                if name in self.numbers:
                    return self.numbers[name]
                return self._object(self.scope[name] if name in self.scope else vars(builtins)[name])
            case ast.Constant(value=value):
                return self._object(value)
            case ast.Attribute(value=holder, attr=name):
                return self._result("do_attribute", first=self.value(holder), second=self._object(sys.intern(name)))
            case ast.Subscript(value=holder, slice=key) if not isinstance(key, ast.Slice):
                first = self.value(holder)
                return self._result("do_item", first=first, second=self.value(key))
            case ast.Call(args=args, keywords=[]) if not any(isinstance(a, ast.Starred) for a in args):
                return self._call(node.func, args)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                first = self.value(left)
                return self._result("do_compare", first=first, second=self.value(right), third=COMPARISONS.index(type(op)))
            case ast.Tuple(elts=items) | ast.List(elts=items) if not any(isinstance(a, ast.Starred) for a in items):
                found = self._result("do_tuple", [self.value(v) for v in items])
                return found if isinstance(node, ast.Tuple) else self._result("do_call", [found], first=id(list))
            case ast.Dict(keys=[]):
                return self._result("do_call", [], first=id(dict))
        text = ast.unparse(node)
        return self._python(text, f"return {text}")

    def _call(self, function: ast.expr, args: list[ast.expr]) -> int:
        if isinstance(function, ast.Attribute):
            operands = [self.value(v) for v in (function.value, *args)]
            if function.attr == "get" and len(operands) == 3:
                return self._result("do_get", first=operands[0], second=operands[1], third=operands[2])
            return self._result("do_method", operands, first=self._object(sys.intern(function.attr)))
        known = self._constant(function)
        if type(known) is partial and type(getattr(known.func, "__self__", None)) is dict and known.func.__name__ == "get" and not args:
            operands = [known.func.__self__, *known.args, None]
            return self._result("do_get", first=id(operands[0]), second=self._object(operands[1]), third=self._object(operands[2]))
        first = self.value(function)
        return self._result("do_call", [self.value(v) for v in args], first=first)

    def _python(self, text: str, body: str) -> int:
        """A call of a Python function for what there is no instruction for."""
        self.expressions.append(text)
        names = [n for n in dict.fromkeys([*NAME.findall(text), "args", "kwargs"]) if n in self.numbers]
        made: dict[str, Any] = {}
        exec(compile(f"def step({', '.join(names)}): {body}", f"<residual program of {self.tree.name}>", "exec"), self.scope, made)
        return self._result("do_call", [self.numbers[n] for n in names], first=self._object(made["step"]))

    def _constant(self, node: ast.AST) -> Any:
        return self.scope.get(node.id) if isinstance(node, ast.Name) else None

    def _called(self, node: Any) -> Any:
        """The constant that an expression calls, if it is a call of one."""
        return self._constant(node.func) if isinstance(node, ast.Call) else None

    # -- checks -----------------------------------------------------------------------------------------
    def _test(self, check: Check, key: Any) -> None:
        if check.kind == "look":
            getattr(self, f"_test_{key[0]}")(check, key[1])
            return
        node: Any = ast.parse(check.expression, mode="eval").body
        called = self._called(node)
        if check.kind == "number" and called in (position, equal_to):
            first, *others = [self.value(v) for v in node.args]
            self._add("do_position" if called is position else "do_equal", others, first=first, third=key)
        elif check.kind == "number":
            self._add("do_integer", first=self.value(node), second=key)
        elif key and type(check.guard) is ModuleGuard:
            guard = check.guard
            self._add("do_stamp", first=self._object(guard), second=guard.stamp, third=module_stamp_address())
        elif key and type(check.guard) is CodeGuard and check.guard.code is not None:
            code = self._result("do_attribute", first=self._object(check.guard.function), second=self._object("__code__"))
            self._add("do_is", first=code, second=self._object(check.guard.code), third=replay.UNSURE)
        elif key and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fits":
            self._fits(self.scope[node.func.value.id], node.args)  # type: ignore[attr-defined]
        elif key and isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is):
            first = self.value(node.left)
            self._add("do_is", first=first, second=self.value(node.comparators[0]), third=replay.NO)
        else:
            self._add("do_true", first=self.value(node), second=bool(key))

    def _fits(self, runner: Runner, args: list[Any]) -> None:
        sizes, tensors = [self.value(v) for v in args[0].elts], [self.value(v) for v in args[1:]]
        if not sizes:
            self._add_launch(runner, ())
        self._add("do_fits", [*sizes, *tensors], second=self._object(runner.launches), third=len(sizes))

    def _test_is(self, check: Check, seen: Any) -> None:
        self._add("do_is", first=self.value(check.expression), second=self._object(seen.value), third=replay.NO)

    def _test_type(self, check: Check, seen: Any) -> None:
        self._add("do_type", first=self.value(check.expression), second=self._object(seen), third=replay.NO)

    _test_any = _test_type

    def _test_code(self, check: Check, seen: Any) -> None:
        if isinstance(seen, type):
            self._python_test(check, ("code", seen))
            return
        first = self.value(check.expression)
        self._add("do_type", first=first, second=id(types.FunctionType), third=replay.UNSURE)
        code = self._result("do_attribute", first=first, second=self._object("__code__"))
        self._codes[len(self.places)] = len(self.rows)  # the code object that last fitted is learned when one has
        self._add("do_is", first=code, second=self._object(None), third=replay.UNSURE)

    def _test_value(self, check: Check, seen: Any) -> None:
        kind, first = seen[0], self.value(check.expression)
        if kind is int and abs(seen[1]) < 1 << 62:
            self._add("do_integer", first=first, second=seen[1])
        elif kind is float:
            number = float.fromhex(seen[1])
            bits = struct.unpack("q", struct.pack("d", number))[0]
            self._add("do_float", first=first, second=bits, third=replay.UNSURE if math.isnan(number) else replay.NO)
        elif kind in (bool, type(None)):
            self._add("do_is", first=first, second=id(seen[1]), third=replay.NO)
        else:
            self._add("do_is", first=first, second=self._object(seen[1]), third=replay.UNSURE)

    def _test_tensor(self, check: Check, seen: Any) -> None:
        if not isinstance(seen, tuple) or not issubclass(seen[0], self.native.tensor_fields):
            self._python_test(check, ("tensor", seen))
            return
        kind, meta, gradient, leaf, shown = seen
        base, distance = (0, 0) if shown is None else (self._object(shown[0]), shown[1])
        self._add("do_tensor", [self._object(kind), self._object(meta), gradient, leaf, base, distance], first=self.value(check.expression))

    def _test_sizes(self, check: Check, seen: Pattern) -> None:
        known = self._known[id(seen)] = {}
        flags = [self._object(seen.kind), seen.gradient, seen.leaf, seen.view, id(True)]
        self._add("do_pattern", flags, first=self.value(check.expression), second=self._object(known))

    def _test_guard(self, check: Check, seen: Any) -> None:
        node: Any = ast.parse(check.expression, mode="eval").body
        if self._called(node) is memories:
            wanted = self._keep([w for first, distance, _ in seen for w in (first, distance)])
            self._add("do_memories", [self.value(v) for v in node.args], second=wanted.address)
        elif isinstance(node, ast.Tuple) and self._called(node.elts[-1]) is modes:
            count, names, (grad, inference, kind, autocast) = seen
            _, defaults, _, _ = default_float_check()
            bits = (not grad) | inference << 4 | autocast_bits(autocast)
            self._add("do_start", [count, bits, self._object(defaults), self._object(kind), self._object(names)])
        else:
            self._add("do_equal_object", first=self.value(node), second=self._object(seen))

    def _test_apart(self, check: Check, seen: Any) -> None:
        self._python_test(check, ("apart", seen))

    def _python_test(self, check: Check, key: Any) -> None:
        test = self.printer.test(check, key)
        self._add("do_true", first=self._python(test, f"return {test}"), second=1)


def launch_of(native: library.Library, runner: Runner, sizes: tuple[int, ...]) -> Any:
    """The native form of a segment for these sizes, None where only Python can run it."""
    segment, shapes = runner.segment, runner.shapes(sizes)
    plan = segment.plan_for(runner.segment_sizes(sizes))
    if segment.dropped or not performable(plan):
        return None
    made = NativePlan(plan.run.function.name, plan, (), {})
    arguments = Words([w for meta, marked in shapes.metas for w in (id(meta), marked)], shapes)
    overlaps = Words([w for triple in shapes.shared for w in triple])
    words: list[int] = []
    makers: list[Any] = []
    for result, first in zip(shapes.results, firsts(shapes.results), strict=True):
        recorded = plan.derivative is not None and result.index in plan.recorded
        whole = first and result.is_whole(recorded, plan.run.outputs[result.index])
        makers.append(partial(result.of, recorded=recorded, first=first))
        words += [result.index, 0 if whole else id(makers[-1])]
    results = Words(words, makers)
    block = Words(pack(layouts.Launch, {
        "plan": made.block.address, "inputs": len(shapes.metas), "arguments": arguments.address, "storages": runner.storages,
        "overlap_count": len(shapes.shared), "overlaps": overlaps.address, "result_count": len(shapes.results),
        "results": results.address, "runs": runner.counted.buffer_info()[0],
    }), made, arguments, overlaps, results, runner.counted)  # fmt: skip
    holder = native.holder()
    holder.owner, holder.address = block, block.address
    return holder
