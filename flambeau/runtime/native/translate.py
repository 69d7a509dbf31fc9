"""From the language of native code to LLVM IR: parses the functions' source and emits clean SSA with phis at joins."""

from __future__ import annotations

import ast
import inspect
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

from flambeau.runtime.native import language
from flambeau.runtime.native.language import External, Global, NativeFunction, Struct

__all__ = ["translate"]


@dataclass(frozen=True, slots=True)
class _ArrayOf:
    """Static type of the address of structs that follow one another, or of words (None) or doubles."""

    element: type[Struct] | str | None


Kind = Any  # "word", "double", a Struct class, or _ArrayOf
_WORDS = _ArrayOf(None)
_SIMPLE: dict[str, Kind] = {"Word": "word", "Byte": "word", "Double": "double", "Words": _WORDS, "Doubles": _ArrayOf("double")}


@dataclass(frozen=True, slots=True)
class _Value:
    text: str
    kind: Kind = "word"

    @property
    def type(self) -> str:
        return "double" if self.kind == "double" else "i64"


_ZERO = _Value("0")
_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl",
           ast.RShift: "lshr"}  # fmt: skip
_FLOAT_BINARY = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
# What is computed at once for constants, so that they may be sizes of the stack.
_FOLDED = {ast.Add: int.__add__, ast.Mult: int.__mul__}
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge", ast.Is: "eq", ast.IsNot: "ne"}
_FLOAT_COMPARE = {ast.Eq: "oeq", ast.NotEq: "une", ast.Lt: "olt", ast.LtE: "ole", ast.Gt: "ogt", ast.GtE: "oge"}
_RESULTS = {"word": "i64", "int": "i32", "double": "double", "none": "void"}

Scope = dict[str, _Value]
Exit = tuple[str, Scope]


def translate(modules: Sequence[ModuleType]) -> str:
    """The LLVM IR of all native functions, globals and outside functions that the modules' functions use."""
    module = _Module()
    functions: list[str] = []
    for source in modules:
        tree = ast.parse(inspect.getsource(source))
        names = vars(source)
        for node in tree.body:
            found = names.get(node.name) if isinstance(node, ast.FunctionDef) else None
            if isinstance(node, ast.FunctionDef) and isinstance(found, NativeFunction):
                module.bodies[found] = node
    for source in modules:
        for found, node in module.bodies.items():
            if found.module == source.__name__ and not found.inline:
                functions.append(_Function(module, node, vars(source), source.__name__).emit())
    return "\n".join([*module.heads(), *functions])


def _double(value: float) -> _Value:
    """A constant of the same bits."""
    return _Value(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", "double")


class _Module:
    """What functions refer to outside themselves, and their bodies."""

    def __init__(self) -> None:
        self.bodies: dict[NativeFunction, ast.FunctionDef] = {}
        self.declarations: dict[str, str] = {}
        self.globals: dict[str, Global] = {}
        self.texts: dict[str, str] = {}

    def heads(self) -> Iterable[str]:
        for name, found in self.globals.items():
            yield f"@{name} = global [{found.struct.size} x i8] zeroinitializer, align 64"
        for value, name in self.texts.items():
            data = "".join(f"\\{byte:02x}" for byte in value.encode() + b"\0")
            yield f'@{name} = internal constant [{len(value.encode()) + 1} x i8] c"{data}"'
        yield from self.declarations.values()

    def text(self, value: str) -> str:
        return self.texts.setdefault(value, f"text.{len(self.texts)}")


class _Function:
    """Emits one function. ``scope`` maps names to values and is replaced at joins; a block that has ended has no label."""

    def __init__(self, module: _Module, node: ast.FunctionDef, names: dict[str, Any], file: str) -> None:
        self.module = module
        self.node = node
        self.names = names
        self.file = file
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.scope: Scope = {}
        self.block: str | None = "entry"
        self.count = 0
        self.loops: list[tuple[str, list[Exit], str, list[Exit]]] = []
        # Of the inlined function whose body is being emitted: where it returns to, with the values.
        self.returns: tuple[str, list[Exit]] | None = None
        returns_nothing = isinstance(node.returns, ast.Constant) and node.returns.value is None
        self.result: Kind = None if returns_nothing else self.kind_of(node.returns)

    def emit(self) -> str:
        arguments: list[str] = []
        for argument in self.node.args.args:
            value = _Value(f"%a.{argument.arg}", self.kind_of(argument.annotation))
            self.scope[argument.arg] = value
            arguments.append(f"{value.type} {value.text}")
        self.statements(self.node.body)
        if self.block is not None:
            if self.result is not None:
                self.fail(self.node, "control reaches the end of a function with a result")
            self.line("ret void")
        result = "void" if self.result is None else "double" if self.result == "double" else "i64"
        return "\n".join([f"define {result} @{self.node.name}({', '.join(arguments)}) {{", "entry:", *self.allocas, *self.lines, "}"])

    def fail(self, node: ast.AST, reason: str) -> NoReturn:
        raise SyntaxError(f"{self.file}, line {getattr(node, 'lineno', '?')}: {reason}")

    # -- text -------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def define(self, text: str, kind: Kind = "word") -> _Value:
        name = "%" + self.fresh()
        self.line(f"{name} = {text}")
        return _Value(name, kind)

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")
        self.block = None

    def join(self, label: str, exits: Sequence[Exit]) -> None:
        """Start the block that all ``exits`` jump to; names that are not the same everywhere get a phi, or are gone."""
        if not exits:
            self.block = None
            return
        self.begin(label)
        merged: Scope = {}
        for name, first in exits[0][1].items():
            values = [scope.get(name) for _, scope in exits]
            if any(v is None for v in values):
                continue
            if all(v == first for v in values):
                merged[name] = first
            elif all(v is not None and v.type == first.type for v in values):
                incoming = ", ".join(f"[ {v.text}, %{block} ]" for v, (block, _) in zip(values, exits, strict=True) if v is not None)
                merged[name] = self.define(f"phi {first.type} {incoming}", first.kind)
        self.scope = merged

    # -- types ------------------------------------------------------------------------------------------
    def kind_of(self, node: ast.AST | None) -> Kind:
        if isinstance(node, ast.Name):
            return self.named_kind(node.id, self.names)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            return _ArrayOf(self.names[node.slice.id])
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.kind_of(ast.parse(node.value, mode="eval").body)
        self.fail(node or self.node, "a parameter, result or name needs a type: Word, Double, Words, Array[...] or a Struct")

    def named_kind(self, name: str, names: dict[str, Any]) -> Kind:
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name.startswith("Array["):
            return _ArrayOf(names[name[6:-1]])
        found = names.get(name)
        if not (isinstance(found, type) and issubclass(found, Struct)):
            raise SyntaxError(f"{self.file}: {name} is no type of native code")
        return found

    # -- statements -------------------------------------------------------------------------------------
    def statements(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if self.block is None:
                self.fail(node, "unreachable")
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self.expression(value, used=False)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value) if value is not None:
                self.scope[name] = _Value(self.expression(value).text, self.kind_of(annotation))
            case ast.Assign(targets=[target], value=value):
                self.assign(target, self.expression(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self.assign(target, self.arithmetic(node, op, self.expression(target), self.expression(value)))
            case ast.If():
                self.branch(node)
            case ast.While():
                self.loop(node)
            case ast.For():
                self.count_loop(node)
            case ast.Return():
                self.leave(node)
            case ast.Break() | ast.Continue():
                label, exits, again, repeats = self.loops[-1]
                stops = isinstance(node, ast.Break)
                assert self.block is not None
                (exits if stops else repeats).append((self.block, self.scope))
                self.jump(label if stops else again)
            case _:
                self.fail(node, f"{type(node).__name__} is not part of the language")

    def leave(self, node: ast.Return) -> None:
        if (node.value is None) != (self.result is None):
            self.fail(node, "return does not agree with the function's result")
        if self.returns is not None:
            scope = {} if node.value is None else {"return": self.expression(node.value)}
            label, exits = self.returns
            assert self.block is not None
            exits.append((self.block, scope))
            self.jump(label)
        elif node.value is None:
            self.line("ret void")
        else:
            value = self.expression(node.value)
            self.line(f"ret {value.type} {value.text}")
        self.block = None

    def branch(self, node: ast.If) -> None:
        yes, no, after = self.fresh("then"), self.fresh("else"), self.fresh("end")
        self.condition(node.test, yes, no)
        before = self.scope
        exits: list[Exit] = []
        for label, body in ((yes, node.body), (no, node.orelse)):
            self.begin(label)
            self.scope = dict(before)
            self.statements(body)
            if self.block is not None:
                exits.append((self.block, self.scope))
                self.jump(after)
        self.join(after, exits)

    def loop(self, node: ast.While) -> None:
        self.repeat(node.body, node.test, None)

    def count_loop(self, node: ast.For) -> None:
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[*starts, stop])) if len(starts) < 2:
                self.scope[name] = self.expression(starts[0]) if starts else _ZERO
                limit = self.expression(stop)
            case _:
                self.fail(node, "for needs the form: for name in range(...)")
        hidden = self.fresh("limit")
        self.scope[hidden] = limit
        test = ast.Compare(ast.Name(name), [ast.Lt()], [ast.Name(hidden)])
        self.repeat(node.body, test, name)
        self.scope.pop(hidden, None)

    def repeat(self, body: list[ast.stmt], test: ast.expr, counter: str | None) -> None:
        head, inside, done, latch, after = (self.fresh(stem) for stem in ("loop", "body", "done", "next", "end"))
        assert self.block is not None
        before, entered = self.scope, self.block
        self.jump(head)
        self.begin(head)
        changed = {n.id for part in body for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        changed = sorted((changed | ({counter} if counter else set())) & set(before))
        phis = {name: _Value("%" + self.fresh(), before[name].kind) for name in changed}
        place = len(self.lines)
        self.scope = {**before, **phis}
        at_head = self.scope
        self.condition(test, inside, done)
        repeats: list[Exit] = []
        exits: list[Exit] = [(done, at_head)]
        self.loops.append((after, exits, latch, repeats))
        self.begin(inside)
        self.scope = dict(at_head)
        self.statements(body)
        if self.block is not None:
            repeats.append((self.block, self.scope))
            self.jump(latch)
        self.loops.pop()
        self.join(latch, repeats)
        if self.block is not None:
            if counter:
                self.scope[counter] = self.define(f"add i64 {self.scope[counter].text}, 1")
            back, again = self.block, self.scope
            self.jump(head)
        self.lines[place:place] = [
            f"  {phi.text} = phi {phi.type} [ {before[name].text}, %{entered} ]" + (f", [ {again[name].text}, %{back} ]" if repeats else "")
            for name, phi in phis.items()
        ]
        self.begin(done)
        self.jump(after)
        self.join(after, exits)

    def assign(self, target: ast.expr, value: _Value) -> None:
        match target:
            case ast.Name(id=name):
                self.scope[name] = value
            case ast.Attribute(value=base, attr=field):
                address, kind, width = self.field(target, self.expression_or_global(base), field)
                self.store(address, value, width)
            case ast.Subscript(value=base, slice=index):
                self.store(self.element(target, self.expression(base), self.expression(index)), value, 8)
            case _:
                self.fail(target, "cannot assign to this")

    def store(self, address: str, value: _Value, width: int) -> None:
        if width == 1:
            value = self.define(f"trunc i64 {value.text} to i8")
            self.line(f"store i8 {value.text}, ptr {address}")
        else:
            self.line(f"store {value.type} {value.text}, ptr {address}")

    # -- conditions -------------------------------------------------------------------------------------
    def condition(self, node: ast.expr, yes: str, no: str) -> None:
        """Jump to ``yes`` or ``no``."""
        match node:
            case ast.BoolOp(op=op, values=values):
                for part in values[:-1]:
                    more = self.fresh("and" if isinstance(op, ast.And) else "or")
                    self.condition(part, *((more, no) if isinstance(op, ast.And) else (yes, more)))
                    self.begin(more)
                self.condition(values[-1], yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.condition(operand, no, yes)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                flag = self.comparison(op, self.expression(left), self.expression(right))
                self.line(f"br i1 {flag.text}, label %{yes}, label %{no}")
                self.block = None
            case _:
                flag = self.define(f"icmp ne i64 {self.expression(node).text}, 0")
                self.line(f"br i1 {flag.text}, label %{yes}, label %{no}")
                self.block = None

    def truth(self, node: ast.expr) -> _Value:
        """A condition as 0 or 1."""
        yes, no, after = self.fresh("true"), self.fresh("false"), self.fresh("end")
        self.condition(node, yes, no)
        for label in (yes, no):
            self.begin(label)
            self.jump(after)
        self.begin(after)
        return self.define(f"phi i64 [ 1, %{yes} ], [ 0, %{no} ]")

    def comparison(self, op: ast.cmpop, left: _Value, right: _Value) -> _Value:
        if left.kind == "double":
            return self.define(f"fcmp {_FLOAT_COMPARE[type(op)]} double {left.text}, {right.text}")
        return self.define(f"icmp {_COMPARE[type(op)]} i64 {left.text}, {right.text}")

    # -- expressions ------------------------------------------------------------------------------------
    def expression(self, node: ast.expr, used: bool = True) -> _Value:
        match node:
            case ast.Constant(value=int(value)):
                return _Value(str(int(value)))
            case ast.Constant(value=float(value)):
                return _double(value)
            case ast.Name():
                return self.name(node)
            case ast.Attribute(value=base, attr=field):
                address, kind, width = self.field(node, self.expression_or_global(base), field)
                if width == 1:
                    return self.define(f"zext i8 {self.define(f'load i8, ptr {address}').text} to i64")
                return self.define(f"load {'double' if kind == 'double' else 'i64'}, ptr {address}", kind)
            case ast.Subscript(value=base, slice=index):
                array = self.expression(base)
                element = self.element(node, array, self.expression(index))
                if array.kind == _SIMPLE["Doubles"]:
                    return self.define(f"load double, ptr {element}", "double")
                if array.kind != _WORDS:
                    return self.define(f"ptrtoint ptr {element} to i64", array.kind.element)
                return self.define(f"load i64, ptr {element}")
            case ast.BinOp(left=left, op=op, right=right):
                return self.arithmetic(node, op, self.expression(left), self.expression(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.expression(operand)
                if value.kind == "double":
                    return self.define(f"fneg double {value.text}", "double")
                return self.define(f"sub i64 0, {value.text}")
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self.define(f"xor i64 {self.expression(operand).text}, -1")
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                flag = self.comparison(op, self.expression(left), self.expression(right))
                return self.define(f"zext i1 {flag.text} to i64")
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self.truth(node)
            case ast.Call():
                return self.called(node, used)
            case _:
                self.fail(node, f"{type(node).__name__} is not part of the language")

    def expression_or_global(self, node: ast.expr) -> _Value | Global:
        found = self.names.get(node.id) if isinstance(node, ast.Name) and node.id not in self.scope else None
        if isinstance(found, Global):
            self.module.globals[found.name] = found
            return found
        return self.expression(node)

    def name(self, node: ast.Name) -> _Value:
        if node.id in self.scope:
            return self.scope[node.id]
        found = self.names.get(node.id)
        if isinstance(found, int):
            return _Value(str(int(found)))
        if isinstance(found, float):
            return _double(found)
        if isinstance(found, Global):
            self.module.globals[found.name] = found
            return _Value(f"ptrtoint (ptr @{found.name} to i64)", found.struct)
        if isinstance(found, NativeFunction):
            return _Value(f"ptrtoint (ptr @{found.name} to i64)")
        self.fail(node, f"{node.id} is not defined on every way here")

    def arithmetic(self, node: ast.AST, op: ast.operator, left: _Value, right: _Value) -> _Value:
        if type(op) in _FLOAT_BINARY and left.kind == right.kind == "double":
            return self.define(f"{_FLOAT_BINARY[type(op)]} double {left.text}, {right.text}", "double")
        if type(op) not in _BINARY or left.kind == "double" or right.kind == "double":
            self.fail(node, f"{type(op).__name__} of {left.type} and {right.type} is not part of the language")
        if type(op) in _FOLDED and left.text.isdigit() and right.text.isdigit():
            return _Value(str(_FOLDED[type(op)](int(left.text), int(right.text))))
        return self.define(f"{_BINARY[type(op)]} i64 {left.text}, {right.text}")

    def field(self, node: ast.AST, base: _Value | Global, field: str) -> tuple[str, Kind, int]:
        """The address of a field, its type and its width in bytes."""
        struct = base.struct if isinstance(base, Global) else base.kind
        if not (isinstance(struct, type) and issubclass(struct, Struct)) or field not in struct.fields:
            self.fail(node, f"there is no field {field} in {struct}")
        offset, kind_name = struct.fields[field]
        kind = self.named_kind(kind_name, struct.scope())
        if isinstance(base, Global):
            address = f"getelementptr (i8, ptr @{base.name}, i64 {offset})"
        else:
            place = base.text if not offset else self.define(f"add i64 {base.text}, {offset}").text
            address = self.define(f"inttoptr i64 {place} to ptr").text
        return address, kind, 1 if kind_name == "Byte" else 8

    def element(self, node: ast.AST, array: _Value, index: _Value) -> str:
        if not isinstance(array.kind, _ArrayOf):
            self.fail(node, "only Words and Array[...] can be indexed")
        size = 8 if array.kind.element is None or isinstance(array.kind.element, str) else array.kind.element.size
        base = self.define(f"inttoptr i64 {array.text} to ptr")
        words = self.define(f"mul i64 {index.text}, {size // 8}") if size != 8 else index
        return self.define(f"getelementptr i64, ptr {base.text}, i64 {words.text}").text

    # -- calls ------------------------------------------------------------------------------------------
    def called(self, node: ast.Call, used: bool) -> _Value:
        match node.func:
            case ast.Attribute(value=ast.Name(id=struct), attr="at"):
                return _Value(self.expression(node.args[0]).text, self.named_kind(struct, self.names))
            case ast.Name(id=name) if name not in self.scope:
                target = self.names.get(name)
            case _:
                self.fail(node, "only functions that are known by name can be called; use call(address, ...)")
        if isinstance(target, External):
            return self.call_external(target, [self.expression(a) for a in node.args])
        if isinstance(target, NativeFunction):
            return self.call_native(node, target)
        return self.built_in(node, target)

    def call_external(self, target: External, arguments: list[_Value]) -> _Value:
        given = ", ".join(f"{a.type} {a.text}" for a in arguments)
        result = _RESULTS[target.result]
        types = ", ".join([a.type for a in arguments] if target.fixed is None else ["i64"] * target.fixed + ["..."])
        self.module.declarations[target.name] = f"declare {result} @{target.name}({types})"
        text = f"call {result} ({types}) @{target.name}({given})"
        if target.result == "none":
            self.line(text)
            return _ZERO
        value = self.define(text, "double" if target.result == "double" else "word")
        return self.define(f"sext i32 {value.text} to i64") if target.result == "int" else value

    def call_native(self, node: ast.Call, target: NativeFunction) -> _Value:
        names = target.function.__annotations__
        arguments = [self.expression(a) for a in node.args]
        if len(arguments) != len(names) - ("return" in names):
            self.fail(node, f"{target.name} takes {len(names) - 1} arguments")
        if target.inline:
            return self.call_inline(target, arguments)
        given = ", ".join(f"{a.type} {a.text}" for a in arguments)
        returned = names["return"]
        if returned == "None":
            self.line(f"call void @{target.name}({given})")
            return _ZERO
        kind = self.named_kind(returned, target.function.__globals__)
        return self.define(f"call {'double' if kind == 'double' else 'i64'} @{target.name}({given})", kind)

    def call_inline(self, target: NativeFunction, arguments: list[_Value]) -> _Value:
        """Emit the body of a function here."""
        node = self.module.bodies[target]
        outside = self.scope, self.names, self.file, self.result, self.loops, self.returns
        after = self.fresh("back")
        exits: list[Exit] = []
        self.names, self.file = target.function.__globals__, target.module
        self.loops, self.returns = [], (after, exits)
        returns_nothing = isinstance(node.returns, ast.Constant) and node.returns.value is None
        self.result = None if returns_nothing else self.kind_of(node.returns)
        self.scope = {
            a.arg: _Value(value.text, self.kind_of(a.annotation)) for a, value in zip(node.args.args, arguments, strict=True)
        }
        self.statements(node.body)
        if self.block is not None:
            if self.result is not None:
                self.fail(node, "control reaches the end of a function with a result")
            exits.append((self.block, {}))
            self.jump(after)
        kind = self.result
        self.join(after, exits)
        value = self.scope.get("return", _ZERO)
        self.scope, self.names, self.file, self.result, self.loops, self.returns = outside
        return _Value(value.text, "word" if kind is None else kind)

    def built_in(self, node: ast.Call, target: Any) -> _Value:
        arguments = node.args
        if target is language.stack:
            words = self.expression(arguments[0]).text
            name = f"%{self.fresh('stack')}"
            if words.isdigit():
                self.allocas.append(f"  {name} = alloca [{words} x i64], align 16")
            else:
                self.line(f"{name} = alloca i64, i64 {words}, align 16")
            return self.define(f"ptrtoint ptr {name} to i64", _WORDS)
        if target is language.text:
            return _Value(f"ptrtoint (ptr @{self.module.text(ast.literal_eval(arguments[0]))} to i64)")
        if target is language.size_of:
            return _Value(str(self.kind_of(arguments[0]).size))
        values = [self.expression(a) for a in arguments]
        if target is language.call:
            function = self.define(f"inttoptr i64 {values[0].text} to ptr")
            return self.define(f"call i64 {function.text}({', '.join(f'{v.type} {v.text}' for v in values[1:])})")
        if target is language.bit_length:
            self.module.declarations["llvm.ctlz.i64"] = "declare i64 @llvm.ctlz.i64(i64, i1)"
            return self.define(f"sub i64 64, {self.define(f'call i64 @llvm.ctlz.i64(i64 {values[0].text}, i1 false)').text}")
        if target is language.double:
            return self.define(f"sitofp i64 {values[0].text} to double", "double")
        if target is language.whole:
            return self.define(f"fptosi double {values[0].text} to i64")
        if target is language.single:
            rounded = self.define(f"fptrunc double {values[0].text} to float")
            return self.define(f"fpext float {rounded.text} to double", "double")
        if target is language.bits_of_double:
            return self.define(f"bitcast double {values[0].text} to i64")
        if target is language.bits_of_float:
            single = self.define(f"fptrunc double {values[0].text} to float")
            return self.define(f"zext i32 {self.define(f'bitcast float {single.text} to i32').text} to i64")
        self.fail(node, f"{ast.unparse(node.func)} is not known to native code")
