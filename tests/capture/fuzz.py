"""Random programs, plainly and compiled: ``python -m tests.capture.fuzz [FIRST] [COUNT] [--show] [--flush] [--exit] [--apart]``.

A seed gives one program as source text: arithmetic, views and in-place changes, loops, branches on numbers and on tensor values,
closures, containers, exceptions, printing. Every operator in it is exact, so results must agree in every bit.
"""

from __future__ import annotations

import argparse
import linecache
import os
import random
import signal
import sys
from typing import Any

import flambeau as torch
from tests.capture.corpus.harness import Program, compare
from tests.capture.corpus.stress import stressed

# The shapes of the variables whose names start with these letters.
SHAPES = {"v": (4,), "m": (2, 2), "h": (2,), "s": ()}
POINTWISE = ("relu", "abs", "neg", "floor", "sign", "square")
START = ("v0 = x * 1.0", "v1 = x + outside", "m0 = v1.view(2, 2)", "h0 = v0[:2]", "s0 = x[1] * 0.5", "l0 = [v0, v1]")
HEAD = "def make():\n    kept, box, log = [], {'n': 0}, []\n    outside = ramp(4)\n    count = 0\n"


class Writer:
    """One program in the making. ``names`` has what is in scope by letter: those of `SHAPES`, ``n`` ints, ``r`` floats, ``l`` lists."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.made = 0
        self.names: dict[str, list[str]] = {"v": ["v0", "v1"], "m": ["m0"], "h": ["h0"], "s": ["s0"], "n": ["n0"], "r": ["r0"], "l": ["l0"]}
        self.depth = 0

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def pick(self, kind: str) -> str:
        return self.random.choice(self.names[kind])

    def fresh(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made + 9}"

    # -- expressions ------------------------------------------------------------------------------------
    def number(self) -> str:
        r = self.random
        return r.choice([self.pick("n"), self.pick("r"), str(r.randint(-2, 3)), str(r.choice([0.5, -1.25, 2.0])), "box['n']", "len(log)"])

    def tensor(self, kind: str, depth: int = 0) -> str:
        r = self.random
        if depth > 1 or r.random() < 0.3:
            return self.pick(kind)
        a, b = self.tensor(kind, depth + 1), self.tensor(kind, depth + 1)
        choices = [
            f"({a} + {b})", f"({a} - {b})", f"({a} * 0.5)", f"torch.clamp({a}, -3, 3)",
            f"({a} * {self.tensor('s', depth + 1)}).clamp(-4, 4)",
            f"torch.{r.choice(POINTWISE)}({a}).clamp(-8, 8)", f"torch.where({a} > {b}, {a}, {b})", f"({a} + {self.number()}).clamp(-9, 9)",
            f"torch.maximum({a}, {b})",
        ]  # fmt: skip
        v, m, h = self.pick("v"), self.pick("m"), self.pick("h")
        choices += {
            "v": [f"{m}.reshape(4)", f"torch.cat([{h}, {self.pick('h')}])", f"{v}.flip(0)", f"{m}.view(-1)"],
            "m": [f"{v}.view(2, 2)", f"{a}.t()", f"torch.stack([{h}, {self.pick('h')}])", f"{v}.reshape(2, 2)"],
            "h": [f"{v}[1:3]", f"{v}[::2]", f"{m}[{r.randint(-2, 1)}]", f"{m}[:, 1]", f"{v}[-2:]"],
            "s": [f"{v}.max()", f"{v}[{r.randint(0, 3)}]", f"{h}.min()", f"torch.tensor({self.number()}).float()", f"{v}.sum()"],
        }[kind]
        return r.choice(choices)

    def condition(self) -> str:
        r = self.random
        s, n = self.pick("s"), self.pick("n")
        return r.choice([
            f"{n} % 2 == 0", f"{n} > {r.randint(0, 2)}", f"{self.pick('r')} < 1.0", f"{s} > 0", f"({self.pick('v')} > 1).any()",
            f"{s}.item() < {r.choice([0.5, -1.0])}", "box['n'] % 3 == 1", f"len({self.pick('l')}) > 2",
            f"{self.pick('v')} is {self.pick('v')}",
            f"not {s} == 0 and {n} != 1", f"{self.pick('v')}.requires_grad",
        ])  # fmt: skip

    # -- statements -------------------------------------------------------------------------------------
    def block(self, indent: int, size: int) -> None:
        """A block of statements; names made in it are gone after it."""
        before = {k: list(v) for k, v in self.names.items()}
        self.depth += 1
        for _ in range(size):
            self.statement(indent)
        self.depth -= 1
        self.names = before

    def statement(self, indent: int) -> None:
        r = self.random
        simple = [self.assign, self.assign, self.in_place, self.in_place, self.view, self.host, self.container, self.detached]
        nested = [self.branch, self.loop, self.closure, self.attempt, self.mode, self.repeat]
        r.choice(simple if self.depth > 2 or r.random() < 0.65 else nested)(indent)

    def assign(self, indent: int) -> None:
        kind = self.random.choice("vvmhs")
        value = self.tensor(kind)
        if self.random.random() < 0.5:
            self.put(indent, f"{self.pick(kind)} = {value}")
        else:
            name = self.fresh(kind)
            self.put(indent, f"{name} = {value}")
            self.names[kind].append(name)

    def view(self, indent: int) -> None:
        kind = self.random.choice("mhv")
        v, m = self.pick("v"), self.pick("m")
        text = {"m": [f"{v}.view(2, 2)", f"{m}.t()"], "h": [f"{v}[1:3]", f"{m}[0]", f"{v}[::2]"], "v": [f"{m}.reshape(4)", f"{v}.view(4)"]}
        name = self.fresh(kind)
        self.put(indent, f"{name} = {self.random.choice(text[kind])}")
        self.names[kind].append(name)

    def in_place(self, indent: int) -> None:
        r = self.random
        kind = r.choice("vvmh")
        a = self.pick(kind)
        self.put(indent, r.choice([
            f"{a}.add_({self.tensor(kind, 1)}).clamp_(-9, 9)", f"{a}.mul_(0.5)", f"{a}[0] = {self.number()}", f"{a} += {self.number()}",
            f"{a}[1:] *= -1", f"{a}.copy_({self.tensor(kind, 1)})", f"{a}.clamp_(max={r.randint(0, 3)})", "outside.mul_(0.5).add_(1)",
            f"{self.pick('v')}[{self.pick('v')} > 1] = 0", f"{a}.relu_()",
        ]))  # fmt: skip

    def detached(self, indent: int) -> None:
        kind = self.random.choice("vm")
        name = self.fresh(kind)
        a = self.pick(kind)
        self.put(indent, f"{name} = {self.random.choice([f'{a}.detach()', f'{a}.clone()', f'{a} * 1', 'outside' if kind == 'v' else a])}")
        self.names[kind].append(name)

    def host(self, indent: int) -> None:
        r = self.random
        n, x = self.pick("n"), self.pick("r")
        self.put(indent, r.choice([
            f"{n} = ({n} + {r.randint(1, 3)}) % 5", f"{x} = {self.pick('s')}.item()", f"{n} = int({self.pick('s')}.clamp(-3, 3))",
            f"{x} = min({x} * 0.5 + {n}, 4.0)", f"print('{n}', {n}, {self.pick('s')})", f"log.append({self.number()})", "box['n'] += 1",
            f"{x} = float({self.pick('v')}[{r.randint(0, 3)}])", f"print({self.pick('h')}.tolist())",
            f"log.append(type({self.number()}).__name__)",
        ]))  # fmt: skip

    def container(self, indent: int) -> None:
        r = self.random
        items, v = self.pick("l"), self.pick("v")
        self.put(indent, r.choice([
            f"{items}.append({self.tensor('v', 1)})", f"{v} = {items}[{self.pick('n')} % len({items})]", f"kept.append({v})",
            f"box['last'] = {v}", f"{items} = [t + 1 for t in {items}[-2:]]", f"{v} = sum({items}[-3:]).clamp(-9, 9)",
            f"box.setdefault('m', {self.pick('m')})",
            f"{items}[0], {v} = {v}, {items}[0]", f"{v} = box.get('last', {v})", f"del {items}[1:-1]",
        ]))  # fmt: skip

    def branch(self, indent: int) -> None:
        self.put(indent, f"if {self.condition()}:")
        self.block(indent + 1, self.random.randint(1, 3))
        if self.random.random() < 0.6:
            self.put(indent, "else:")
            self.block(indent + 1, self.random.randint(1, 2))

    def loop(self, indent: int) -> None:
        name = self.fresh("n")
        count = self.random.choice(["2", "3", f"abs({self.pick('n')}) % 4", f"len({self.pick('l')}[:3])"])
        self.put(indent, f"for {name} in range({count}):")
        self.names["n"].append(name)
        self.block(indent + 1, self.random.randint(1, 3))
        if self.random.random() < 0.4:
            self.put(indent + 1, f"if {self.condition()}:")
            self.put(indent + 2, self.random.choice(["break", "continue"]))
        self.names["n"].remove(name)

    def repeat(self, indent: int) -> None:
        name, s = self.fresh("n"), self.pick("s")
        self.put(indent, f"{name} = 0")
        self.names["n"].append(name)
        self.put(indent, f"while {s} < 2 and {name} < 4:")
        self.block(indent + 1, 1)
        self.put(indent + 1, f"{s} = {s} + 0.75")
        self.put(indent + 1, f"{name} += 1")

    def closure(self, indent: int) -> None:
        name, v = f"g{self.made}", self.pick("v")
        self.made += 1
        self.put(indent, f"def {name}(p, q={self.pick('n')}):")
        self.put(indent + 1, self.random.choice(["nonlocal count", f"box['{name}'] = q"]))
        if "nonlocal" in self.lines[-1]:
            self.put(indent + 1, "count += 1")
        self.put(indent + 1, f"if {self.random.choice(['q > 1', 'p.sum() > 0', 'count % 2'])}:")
        self.put(indent + 2, f"return p + {self.tensor('v', 1)}")
        if self.random.random() < 0.5:
            self.put(indent + 1, "kept.append(lambda: p + q)")
        self.put(indent + 1, f"return p * q - {self.pick('s')}")
        self.put(indent, f"{v} = {name}({self.tensor('v', 1)}).clamp(-9, 9)")

    def attempt(self, indent: int) -> None:
        self.put(indent, "try:")
        self.block(indent + 1, self.random.randint(1, 2))
        self.put(indent + 1, f"if {self.condition()}:")
        self.put(indent + 2, self.random.choice(["raise ValueError('v')", "{}['missing']", f"{self.pick('v')}[{self.pick('n')} + 3]"]))
        self.put(indent, self.random.choice(["except ValueError:", "except (ValueError, LookupError) as error:", "except Exception:"]))
        self.block(indent + 1, 1)
        if self.random.random() < 0.4:
            self.put(indent, "finally:")
            self.put(indent + 1, "log.append('finally')")

    def mode(self, indent: int) -> None:
        self.put(indent, self.random.choice(["with torch.no_grad():", "with torch.enable_grad():"]))
        self.block(indent + 1, self.random.randint(1, 2))

    # -- the whole --------------------------------------------------------------------------------------
    def program(self) -> str:
        self.put(1, "def f(x, n0, r0=0.5):")
        self.put(2, "nonlocal count")
        for line in START:
            self.put(2, line)
        for _ in range(self.random.randint(4, 9)):
            self.statement(2)
        self.put(2, "return " + ", ".join(self.pick(kind) for kind in "vmhsnrl"))
        calls = ", ".join(self.arguments() for _ in range(self.random.randint(4, 6)))
        self.put(1, f"return f, [{calls}], lambda: (kept[-4:], box, log, outside, count)")
        return HEAD + "\n".join(self.lines) + "\n"

    def arguments(self) -> str:
        r = self.random
        x = f"ramp(4, start={r.choice([-1.0, 0.25, 1.5])}, step={r.choice([0.375, -0.5])}, grad={r.random() < 0.3})"
        return f"({x}, {r.randint(0, 3)}, {r.choice([0.5, 0.5, 2.0])})"


def source_of(seed: int) -> str:
    """The program of a seed."""
    return Writer(seed).program()


def run(seed: int, flush: bool = False, leave: bool = False) -> str | None:
    """The first difference between the plain and the compiled program of a seed, or None; the capture's switches as in `stressed`."""
    text, name = source_of(seed), f"<fuzz {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"torch": torch, "__name__": "tests.capture.fuzzed"}
    exec("from tests.capture.corpus.harness import ramp", space)
    exec(compile(text, name, "exec"), space)
    with stressed(flush=flush, leave=leave):
        return compare(Program(name, space["make"], 0.0, True, False, ("function",)))[0]


def told(seed: int, flush: bool, leave: bool) -> str | None:
    """As `run`, with errors in words."""
    try:
        return run(seed, flush, leave)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def apart(seed: int, flush: bool, leave: bool) -> str | None:
    """As `told`, in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, (told(seed, flush, leave) or "").encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        found = pipe.read()
    status = os.waitpid(child, 0)[1]
    return f"crashed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else found or None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.capture.fuzz", description=__doc__)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("count", nargs="?", type=int, default=500)
    parser.add_argument("--show", action="store_true", help="print the programs that differ")
    parser.add_argument("--flush", action="store_true", help="run what is recorded after every operator")
    parser.add_argument("--exit", action="store_true", help="leave the recorded program at every check")
    parser.add_argument("--apart", action="store_true", help="run each program in a process of its own, which may crash")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.first, options.first + options.count):
        found = (apart if options.apart else told)(seed, options.flush, options.exit)
        if found:
            bad += 1
            print(f"seed {seed}: {found[:300]}", flush=True)
            if options.show:
                print(source_of(seed))
    print(f"{options.count} programs, {bad} differ")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
