"""Writes PyTorch's public names with their documented parameters to the file that ``flambeau api`` and the tests of signatures read.

``python tools/torch_names.py [USAGE.tsv]`` needs an installed PyTorch. Parameters come from Python signatures, for functions written in
C++ from the stubs (``torch/_C/*.pyi``) or, where there are none, from the first lines of docstrings. Overloads that a longer one covers
are dropped. USAGE.tsv (columns name, program_repos) says how many programs use a name. PyTorch's code and texts are not copied.
"""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import re
import sys
import types
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools.call_forms import covers, parse_form  # noqa: E402 - after the path is set

FILE = Path(__file__).resolve().parent.parent / "flambeau" / "cli" / "torch_names.txt"
MODULES = """
torch torch.accelerator torch.amp torch.autograd torch.autograd.forward_ad torch.autograd.functional torch.autograd.graph
torch.autograd.profiler torch.backends torch.backends.cpu torch.backends.cuda torch.backends.cudnn torch.backends.mkl
torch.backends.mkldnn torch.backends.openmp torch.backends.opt_einsum torch.compiler torch.cpu torch.cuda torch.cuda.amp
torch.distributions torch.distributions.constraints torch.distributions.kl torch.distributions.transforms torch.export torch.fft torch.func
torch.futures torch.hub torch.jit torch.library torch.linalg torch.masked torch.multiprocessing torch.nested torch.nn torch.nn.attention
torch.nn.attention.flex_attention torch.nn.functional torch.nn.init torch.nn.parallel torch.nn.parameter torch.nn.utils
torch.nn.utils.fusion torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn
torch.nn.utils.stateless torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.overrides torch.profiler torch.random
torch.serialization torch.signal torch.signal.windows torch.sparse torch.special torch.testing torch.utils torch.utils.benchmark
torch.utils.checkpoint torch.utils.cpp_extension torch.utils.data torch.utils.data.distributed torch.utils.dlpack torch.utils.flop_counter
torch.utils.hooks torch.version
""".split()
CLASSES = "torch.Tensor torch.nn.Module torch.optim.Optimizer torch.Generator torch.Size torch.device torch.dtype".split()
# Names that PyTorch has for itself, for one vendor's library, or for what it no longer supports; nobody writes them in programs.
_INTERNAL = re.compile(
    r"AVG$|SUM$|cudnn_|miopen_|mkldnn_|fbgemm_|mkl_|hipblas|hpu|xpu|mtia|maia|privateuseone|vulkan|quantiz|q_|qint|quint|int_repr|fake_quant|"
    r"(is_)?quant|dequant|unsafe_index|sparse_sampled|PRIVATE_OPS|USE_|[A-Z]\w*Storage\w*$|storage_type|set_dir|merge_masters|"
    r"\w+_(backward|jvp)\w*$|native_channel|[A-Z]\w*Type$|NestedIOFunction|has_torch_function|assert_int_or_pair|"
    r"max_pool\dd?_with_indices|adaptive_max_pool\dd_with_indices|fractional_max_pool\dd_with_indices|set_override_stale|set_warn_on_acc"
)


def main() -> int:
    """Write the file."""
    usage = _usage(Path(sys.argv[1])) if len(sys.argv) > 1 else {}
    stubs = _stubs()
    sections: dict[str, dict[str, str]] = defaultdict(dict)
    for module in MODULES:
        found = importlib.import_module(module)
        for name in _public(found):
            whole = module == "torch"
            sections[module][name] = _forms(getattr(found, name), name, stubs["torch." if whole else "nn."], documented_by_stubs=whole)
    for path in CLASSES:
        kind = _resolve(path)
        members = [name for name in dir(kind) if not name.startswith("_") and not _INTERNAL.match(name)]
        for name in members:
            sections[path][name] = _forms(getattr(kind, name), name, stubs["Tensor."] if path == "torch.Tensor" else {}, bound=True)
    for path, programs in usage.items():
        section, _, name = path.rpartition(".")
        if programs >= 2 and name not in sections[section] and _resolve(path) is not None:
            sections[section][name] = ""
    lines = ["# PyTorch's public names and parameters, by tools/torch_names.py: name, overloads, and @ how many programs use it.\n"]
    for section, names in sorted((s, n) for s, n in sections.items() if n):
        lines.append(f"[{section}]\n")
        for name, forms in sorted(names.items()):
            used = usage.get(f"{section}.{name}", 0)
            lines.append(f"{name}{forms}{f' @{used}' if used else ''}\n")
    FILE.write_text("".join(lines), encoding="utf-8")
    print(f"{FILE}: {len(lines)} lines, {FILE.stat().st_size} bytes")
    return 0


def _usage(path: Path) -> dict[str, int]:
    whole = {"Module": "torch.nn.Module", "Tensor": "torch.Tensor", "Optimizer": "torch.optim.Optimizer"}
    used = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            head, _, rest = row["name"].partition(".")
            used[f"{whole.get(head, head)}.{rest}"] = int(row["program_repos"])
    return used


def _resolve(path: str) -> Any:
    """What a dotted path leads to, None where it leads nowhere."""
    parts = path.split(".")
    found: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join(parts[:number]))
            except ImportError:
                return None
        found = getattr(found, part, None)
    return found


def _public(module: Any) -> list[str]:
    """The names that a module offers: those of ``__all__``, else its own and torch's objects, without what it imports for itself."""
    names = set(getattr(module, "__all__", ()))
    if module.__name__ == "torch":
        names |= set("autograd backends amp compiler cuda distributions fft func hub jit library linalg masked nested nn ops optim "
                     "overrides profiler random return_types serialization signal sparse special testing utils version export "
                     "accelerator cpu multiprocessing distributed futures fx channels_last channels_last_3d contiguous_format "
                     "preserve_format strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc jagged lu pca_lowrank svd_lowrank "
                     "unique from_dlpack to_dlpack broadcast_shapes set_default_dtype set_grad_enabled classes hub mps xpu "
                     "BFloat16Tensor HalfTensor FloatTensor DoubleTensor LongTensor IntTensor ShortTensor ByteTensor CharTensor "
                     "BoolTensor segment_reduce".split())  # fmt: skip
    elif not names:
        names = {name for name, value in vars(module).items() if _belongs(module.__name__, name, value)}
        names -= {"Tensor"}
    names = {name for name in names if hasattr(module, name) and not name.startswith("_") and not _INTERNAL.match(name)}
    return [name for name in names if module.__name__ != "torch" or _documented(name, getattr(module, name))]


def _documented(name: str, value: Any) -> bool:
    """Whether a name of torch is for programs; its ``__all__`` holds the classes of its compilers as well."""
    home = getattr(value, "__module__", None) or "torch"
    kept = "Size Generator Stream Event Tag Future GradScaler Tensor SymInt SymFloat SymBool OutOfMemoryError".split()
    inner = home == "torch" or home.startswith(("torch._C", "torch.jit", "torch.nn"))
    return not (inner and isinstance(value, type)) or name in kept or name.endswith("Tensor")


def _belongs(module: str, name: str, value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return value.__name__ == f"{module}.{name}"
    home = getattr(value, "__module__", None) or "torch"
    return home.startswith(module) or (home.startswith("torch._C") and callable(value)) or isinstance(value, types.BuiltinFunctionType)


# -- parameters -------------------------------------------------------------------------------------------
def _forms(value: Any, name: str, stubs: dict[str, list[str]], *, documented_by_stubs: bool = True, bound: bool = False) -> str:
    """``(parameters)`` for each overload, or an empty text for what is not called or says nothing."""
    if isinstance(value, property) or not callable(value) or type(value).__name__ == "Tag":
        return ""
    forms = _from_signature(value, bound)
    if forms is None or forms == ["(*args, **kwargs)"]:
        written, stubbed = _from_docstring(value, name), stubs.get(name, [])
        if bound:  # stubs give methods an out= that they do not take
            stubbed = [re.sub(r"(\*, )?\bout=None", "", form).replace(", )", ")") for form in stubbed]
        if not documented_by_stubs or not stubbed:
            forms = written or stubbed or forms or []
        else:  # docstrings of functions in C++ are careless; they count where they tell of a parameter that stubs leave out
            told = {name for form in stubbed for name in getattr(parse_form(form), "parameters", ())}
            more = [w for w in written if all(covers(w, form) for form in stubbed) and set(getattr(parse_form(w), "parameters", ())) - told]
            forms = more or stubbed
    return "".join(_without_covered(forms))


def _from_signature(value: Any, bound: bool) -> list[str] | None:
    if isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType):
        return None
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return None
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    if bound and isinstance(value, types.FunctionType):
        parameters = parameters[1:]
    parameters = [p if p.default is p.empty else p.replace(default=_Text(_value_text(p.default))) for p in parameters]
    return [str(inspect.Signature(parameters))]


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _value_text(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str | list | dict) or (isinstance(value, tuple) and type(value) is tuple):
        text = repr(value)
        return text if "<" not in text and "object" not in text else "..."
    if type(value).__name__ in ("dtype", "layout", "memory_format"):
        return str(value)
    return "..."


def _stubs() -> dict[str, dict[str, list[str]]]:
    """Overloads in PyTorch's stubs: functions of torch, of its nn, and methods of Tensor."""
    folder = Path(_resolve("torch").__file__).parent / "_C"
    found: dict[str, dict[str, list[str]]] = {"torch.": defaultdict(list), "nn.": defaultdict(list), "Tensor.": defaultdict(list)}
    trees = {"torch.": "_VariableFunctions.pyi", "nn.": "_nn.pyi"}
    for place, file in trees.items():
        _collect(ast.parse((folder / file).read_text()).body, found[place])
    for node in ast.parse((folder / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == "TensorBase":
            _collect(node.body, found["Tensor."], method=True)
    return found


def _collect(body: list[ast.stmt], found: dict[str, list[str]], method: bool = False) -> None:
    for node in body:
        if not isinstance(node, ast.FunctionDef) or any(getattr(d, "id", "") == "property" for d in node.decorator_list):
            continue
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in filter(None, every):
            if argument is arguments.vararg and argument.annotation is not None:
                argument.arg = {"size": "size", "dims": "dims"}.get(argument.arg, argument.arg)
            argument.annotation = None
        if method:
            (arguments.posonlyargs or arguments.args).pop(0)
        elif any(argument.arg == "self" for argument in arguments.args):
            continue  # the deprecated orders of arguments
        found[node.name].append(f"({ast.unparse(arguments)})")


def _from_docstring(value: Any, name: str) -> list[str]:
    """The lines ``name(parameters) -> ...`` at the start of a docstring."""
    text = inspect.getdoc(value) or ""
    found = []
    for line in text.split("\n")[:40]:
        match = re.match(rf"(?:\w+\.)*{re.escape(name)}(\(.*?\))\s*(?:->.*)?$", line.strip())
        if match:
            form = match[1].replace("\\*", "*").replace("[", "").replace("]", "")
            form = re.sub(r"1\./(\d)", lambda match: repr(1 / int(match[1])), form)
            if parse_form(form) is not None:
                found.append(form)
    return found


def _without_covered(forms: list[str]) -> list[str]:
    """The forms that no other one covers; a generator may be left out, and sizes be given one by one."""
    kept: list[str] = []
    if any(form.startswith("(*size") for form in forms):
        forms = [re.sub(r"^\(size\b(?!=)", "(*size", form) for form in forms]
    forms = [re.sub(r"generator(?=[,)])", "generator=None", form) for form in forms]
    forms = [form.replace(", *, ", ", ") if "*size" in form else form for form in forms]
    for form in sorted(set(forms), key=lambda form: (-form.count(","), "'" in form, form)):
        if not any(covers(longer, form) for longer in kept):
            kept.append(form)
    return kept


if __name__ == "__main__":
    sys.exit(main())
