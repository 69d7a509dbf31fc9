"""What programs do that users post because a compiler gave up on it."""

import contextlib
import dataclasses
import functools
import itertools
import random
import re
import types
import typing
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.capture.corpus.harness import call, program, ramp
from tests.capture.corpus.modules import filled


class ModelOutput(OrderedDict):
    """A dictionary whose items are attributes and which can be indexed by position, as of well-known libraries."""

    def __init__(self, **items):
        super().__init__({k: v for k, v in items.items() if v is not None})

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self):
        return tuple(super(ModelOutput, self).__getitem__(k) for k in self)


@program()
def output_dictionary_with_attributes():
    def head(x, with_hidden):
        return ModelOutput(logits=x * 2, hidden=(x, x + 1) if with_hidden else None, loss=x.sum() if with_hidden else None)

    def f(x, with_hidden):
        out = head(x, with_hidden)
        total = out.logits + out[0]
        if "hidden" in out:
            total = total + sum(out.hidden) + out["loss"]
        return total, list(out), len(out), getattr(out, "loss", None), hasattr(out, "attentions")

    return f, [(ramp(2), True), (ramp(2), False), (ramp(2), True), (ramp(3), False)]


@dataclasses.dataclass
class Options:
    width: int = 2
    scale: float = 0.5
    kinds: tuple = ("add", "mul")
    extra: dict = dataclasses.field(default_factory=dict)

    @property
    def area(self):
        return self.width * self.width


@program()
def configuration_dataclass_is_changed():
    options = Options()

    def f(x):
        y = x[: options.width] * options.scale + options.area
        for kind in options.kinds:
            y = y + 1 if kind == "add" else y * 2
        return y + options.extra.get("shift", 0), dataclasses.replace(options, width=1).width

    def widen():
        options.width = 3

    def shift():
        options.extra["shift"] = 10.0

    return f, [(ramp(4),), (ramp(4),), widen, (ramp(4),), shift, (ramp(4),), lambda: setattr(options, "kinds", ("mul",)), (ramp(4),)]


@program()
def rearranging_by_pattern():
    def axes(pattern):
        left, right = (re.findall(r"\w+", side) for side in pattern.split("->"))
        return [left.index(name) for name in right]

    @functools.lru_cache(maxsize=None)
    def plan(pattern):
        return tuple(axes(pattern))

    def rearrange(x, pattern, **sizes):
        y = x.permute(*plan(pattern))
        return y.reshape(sizes["rows"], -1) if "rows" in sizes else y

    def f(x):
        return rearrange(x, "b h w -> w b h"), rearrange(x, "b h w -> h w b", rows=x.shape[1])

    return f, [(ramp(2, 3, 4),), (ramp(2, 3, 4),), (ramp(1, 2, 3),), (ramp(3, 2, 2),)]


@program()
def stack_of_contexts_and_callbacks():
    log = []

    @contextlib.contextmanager
    def stage(name):
        log.append(f"in {name}")
        try:
            yield name.upper()
        finally:
            log.append(f"out {name}")

    def f(x, names):
        with contextlib.ExitStack() as stack:
            found = [stack.enter_context(stage(n)) for n in names]
            stack.callback(log.append, "callback")
            if len(names) > 1:
                stack.enter_context(torch.no_grad())
            y = x * len(found)
            if y.sum() > 100:
                raise ValueError("large")
        return y, "".join(found)

    return f, [(ramp(2, grad=True), ["a"]), (ramp(2, grad=True), ["a", "b"]), (ramp(2) + 99, ["c"]), (ramp(2), ["a"])], lambda: log


@program(tolerance=1e-6)
def modules_chosen_by_name():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 3)})
            self.scales = nn.ParameterDict({"a": nn.Parameter(torch.ones(1)), "b": nn.Parameter(torch.ones(1) * 2)})
            self.active = "a"

        def forward(self, x, task=None):
            task = task or self.active
            return self.heads[task](x) * self.scales[task], sorted(self.heads.keys()), task in self.heads

    net = filled(Net())
    return net, [
        (ramp(1, 2),), (ramp(1, 2), "b"), lambda: setattr(net, "active", "b"), (ramp(1, 2),), call(ramp(2, 2), task="a"),
    ], lambda: net  # fmt: skip


@program(tolerance=1e-6)
def hooks_that_collect_activations():
    net = filled(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)))
    seen = {}

    def hook(name, module, inputs, output):
        seen[name] = (type(module).__name__, output.detach().mean())

    for name, layer in net.named_children():
        layer.register_forward_hook(functools.partial(hook, name))
    net[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 0.5,))

    def f(x):
        return net(x).sum()

    return f, [(ramp(2, 2),), (ramp(2, 2) + 1,), (ramp(3, 2),)], lambda: seen


@program(tolerance=1e-6)
def tied_weights_and_a_copy():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(4, 3)
            self.out = nn.Linear(3, 4, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, ids):
            return F.log_softmax(self.out(self.embed(ids).tanh()), -1)

    net = filled(Tied())

    def f(ids):
        loss = F.nll_loss(net(ids), ids)
        loss.backward()
        return loss.detach(), net.embed.weight.grad.clone(), net.out.weight is net.embed.weight

    return f, [(torch.tensor([0, 1]),), (torch.tensor([2, 3]),), (torch.tensor([1, 1, 0]),)], lambda: net


@program()
def masks_by_where_and_boolean_index():
    def f(x, threshold):
        keep = x > threshold
        y = torch.where(keep, x, torch.tensor(0.0))
        y[~keep] = -1.0
        picked = x[keep]
        return y, picked.sum(), int(keep.sum()), picked.numel(), torch.where(keep)[0]

    return f, [(ramp(5), 0.0), (ramp(5), -0.5), (ramp(5), 10.0), (ramp(6), 0.0)]


@program()
def python_and_numpy_random_numbers():
    def f(x):
        if random.random() < 0.5:
            x = x + 1
        order = list(range(x.shape[0]))
        random.shuffle(order)
        noise = torch.from_numpy(np.random.rand(x.shape[0]).astype("float32"))
        return x[order] + noise, random.choice(["a", "b", "c"]), random.randint(0, 9)

    return f, [(ramp(3),)] * 5


@program()
def arrays_shared_with_numpy():
    table = np.arange(6, dtype=np.float32).reshape(2, 3)

    def f(x, i):
        shared = torch.from_numpy(table)
        y = shared[i] + x
        table[i] += 1
        a = y.numpy()
        a[0] = 7.0
        return y * 2, np.sqrt(np.abs(a)).sum(), torch.as_tensor(a.copy()).max()

    return f, [(ramp(3), 0), (ramp(3), 1), (ramp(3), 0)], lambda: table


@program()
def loops_with_try_finally_break_and_continue():
    log = []

    def f(x, limit):
        total = torch.zeros(())
        for i in range(6):
            try:
                if i == 1:
                    continue
                if total > limit:
                    break
                total = total + x[i % x.shape[0]]
            finally:
                log.append(i)
        else:
            log.append("whole")
        while True:
            try:
                total = total * 0.5
                if total < 1:
                    return total, len(log)
            finally:
                log.append("halved")

    return f, [(ramp(3) + 1, 2.0), (ramp(3) + 1, 100.0), (ramp(4) + 3, 2.0), (ramp(3) + 1, 2.0)], lambda: log


@program()
def generators_feed_one_another():
    def windows(x, size):
        for i in range(x.shape[0] - size + 1):
            yield x[i : i + size]

    def means(items):
        total = 0
        for item in items:
            total = total + item.mean()
            received = yield total
            if received:
                total = total * received

    def f(x, size):
        stream = means(windows(x, size))
        out = [next(stream)]
        with contextlib.suppress(StopIteration):
            out.append(stream.send(2))
            out.append(next(stream))
        return out, [w.sum() for w in itertools.islice(windows(x, 2), 2)]

    return f, [(ramp(4), 2), (ramp(5), 2), (ramp(4), 3), (ramp(4), 2)]


@program()
def decorators_that_count_and_cache():
    calls = Counter()

    def counted(name):
        def wrap(function):
            @functools.wraps(function)
            def inner(*args, **kwargs):
                calls[name] += 1
                return function(*args, **kwargs)

            inner.plain = function
            return inner

        return wrap

    @counted("scale")
    def scale(x, by=2):
        """Scale."""
        return x * by

    class Holder:
        @counted("method")
        def apply(self, x):
            return scale(x, by=3) + scale.plain(x)

    def f(x):
        return Holder().apply(x), scale.__doc__, calls["scale"]

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)], lambda: dict(calls)


@program()
def setters_that_check():
    class Scaled:
        def __init__(self, scale):
            self.scale = scale
            self.history = []

        @property
        def scale(self):
            return self._scale

        @scale.setter
        def scale(self, value):
            if value <= 0:
                raise ValueError(f"scale must be positive, got {value}")
            self._scale = float(value)

        @scale.deleter
        def scale(self):
            self._scale = 1.0

    model = Scaled(2)

    def f(x, new):
        try:
            model.scale = new
        except ValueError as error:
            model.history.append(str(error))
            del model.scale
        return x * model.scale

    return f, [(ramp(2), 3), (ramp(2), -1), (ramp(2), 3), (ramp(2), 0)], lambda: (model.history, model.scale)


@program()
def methods_bound_in_tables_and_partials():
    class Scaler:
        def __init__(self, k):
            self.k = k

        def apply(self, x):
            return x * self.k

    scaler = Scaler(2.0)
    table = {"scale": scaler.apply, "shift": functools.partial(lambda by, x: x + by, 1.5), "root": torch.sqrt}

    def f(x, name):
        return table[name](x)

    def change():
        scaler.k = 5.0
        table["shift"] = functools.partial(lambda by, x: x + by, 2.5)

    calls = [(ramp(2) + 2, n) for n in ("scale", "shift", "root")]
    return f, [*calls, *calls, change, *calls]


@program()
def default_and_counting_dictionaries():
    def f(xs):
        groups, sizes = defaultdict(list), Counter()
        for i, x in enumerate(xs):
            groups[x.shape[0]].append(x)
            sizes[x.shape[0]] += i
        merged = {n: torch.stack(g).sum(0) for n, g in sorted(groups.items())}
        return merged, sizes.most_common(1), groups[99], ChainMap({"a": 1}, dict(sizes))["a"]

    return f, [([ramp(2), ramp(3), ramp(2)],), ([ramp(2), ramp(2)],), ([ramp(2), ramp(3), ramp(2)],)]


@program()
def window_of_the_last_values():
    last = deque(maxlen=3)

    def f(x):
        last.append(x.mean())
        last.rotate(1)
        return sum(last) / len(last), last[0], list(reversed(last))

    return f, [(ramp(2) + i,) for i in range(5)], lambda: list(last)


@program()
def dictionary_of_a_user():
    class Bag(UserDict):
        def __missing__(self, key):
            return torch.zeros(2)

        def merge(self, other):
            return Bag({k: self[k] + other[k] for k in {**self.data, **other.data}})

    def f(x):
        a, b = Bag(x=x), Bag({"y": x * 2})
        merged = a.merge(b)
        return merged.data, len(merged), "z" in merged, merged["z"]

    return f, [(ramp(2),), (ramp(2) + 1,), (ramp(2),)]


@program()
def typed_and_structural_matching():
    class Circle(typing.NamedTuple):
        radius: object

    @dataclasses.dataclass
    class Box:
        width: object
        height: object

    def area(shape):
        match shape:
            case Circle(radius=r):
                return 3.0 * r * r
            case Box(width=w, height=h) if w is h:
                return w * w
            case Box(w, h):
                return w * h
            case {"kind": "line", **rest}:
                return torch.zeros(2) + len(rest)
            case [first, *others]:
                return area(first) + sum(area(o) for o in others)
            case _:
                raise TypeError(type(shape).__name__)

    def f(x, kind):
        shapes = [Circle(x), Box(x, x), Box(x, x + 1), {"kind": "line", "n": 1}, [Circle(x), Circle(x * 2)], 3]
        return area(shapes[kind])

    return f, [(ramp(2), k) for k in (0, 1, 2, 3, 4, 5, 0, 4)]


@program()
def assertions_with_values():
    def f(x):
        assert x.dim() == 1, f"needs 1 dimension, got {x.dim()}"
        assert torch.isfinite(x).all(), "not finite"
        y = x / x.sum()
        assert y.sum().item() < 1.5, y
        return y

    return f, [(ramp(3) + 2,), (ramp(2, 2),), (torch.tensor([1.0, float("nan")]),), (ramp(3) + 2,)]


@program()
def shapes_unpacked_and_compared():
    def f(x, heads):
        b, t, c = x.shape
        if c % heads:
            return x.view(b * t, c).sum(0)
        y = x.view(b, t, heads, c // heads).transpose(1, 2)
        return y.flatten(2), (*y.shape[:-1], -1), y.size(-1) * heads == c, f"{b}x{t}"

    return f, [(ramp(2, 3, 4), 2), (ramp(2, 3, 4), 3), (ramp(1, 5, 4), 2), (ramp(2, 7, 4), 2), (ramp(3, 2, 6), 3)]


@program()
def class_level_counters_and_registries():
    class Layer:
        registry = {}
        made = 0

        def __init_subclass__(cls, **options):
            super().__init_subclass__()
            Layer.registry[cls.__name__.lower()] = cls

        def __init__(self):
            type(self).made += 1
            self.number = Layer.made

    class Double(Layer):
        def __call__(self, x):
            return x * 2

    class Shift(Layer):
        def __call__(self, x):
            return x + self.number

    def f(x, names):
        for name in names.split():
            x = Layer.registry[name]()(x)
        return x, Double.made, Shift.made

    return f, [(ramp(2), "double shift"), (ramp(2), "double double"), (ramp(2), "shift")], lambda: Layer.made


@program()
def text_made_of_shapes_and_values():
    lines = []

    def f(x, step):
        y = x.softmax(0)
        lines.append(f"step {step:>3} | shape {tuple(x.shape)!s:>6} | max {y.max().item():.3f} | {y.dtype}")
        lines.append("%s %d" % (y.argmax().tolist(), len(lines)))
        return y

    return f, [(ramp(3), 1), (ramp(3), 2), (ramp(4), 30)], lambda: lines


@program()
def late_import_and_module_attribute():
    space = types.ModuleType("made_up_settings")
    space.FACTOR = 2.0

    def f(x):
        import math as m
        from collections import namedtuple

        Pair = namedtuple("Pair", "a b")
        pair = Pair(x * space.FACTOR, m.floor(2.5))
        return pair, pair._replace(b=m.pi).b

    return f, [(ramp(2),), lambda: setattr(space, "FACTOR", 3.0), (ramp(2),), (ramp(3),)]


@program(tolerance=1e-6)
def custom_functions_with_gradients():
    class Clamped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, low, high):
            ctx.save_for_backward(x)
            ctx.limits = low, high
            return x.clamp(low, high)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            low, high = ctx.limits
            return torch.where((x > low) & (x < high), g, g * 0.1), None, None

    weight = ramp(3, grad=True)

    def f(x, high):
        loss = (Clamped.apply(x * weight, -0.5, high) ** 2).sum()
        loss.backward()
        found, weight.grad = weight.grad, None
        return loss.detach(), found

    return f, [(ramp(3), 0.5), (ramp(3) + 1, 0.5), (ramp(3), 0.25), (ramp(3), 0.75)]


@program()
def gradients_collected_by_hooks():
    grads = {}

    def f(x):
        h = x * 3
        h.register_hook(lambda g: grads.__setitem__("h", g.clone()))
        y = (h * h).sum()
        y.backward()
        return y.detach(), grads["h"]

    return f, [(ramp(2, grad=True),), (ramp(2, grad=True) + 0,), (ramp(3, grad=True),)], lambda: grads
