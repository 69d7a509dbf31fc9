"""Lists, dictionaries, sets and others, made inside, given, or outside."""

import collections
import copy
import heapq

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


@program()
def outside_list_and_dict_mutated():
    seen, table = [], {}

    def f(x, n):
        y = x + n
        seen.append(y)
        table["last"] = y
        table[n] = table.get(n, 0) + 1
        return y * 2

    return f, [(ramp(2), n) for n in (1, 1, 2, 3, 4)], lambda: (seen, table)


@program()
def argument_list_mutated():
    def f(xs, x):
        xs.append(x * 2)
        xs[0] = xs[0] + 1
        xs.insert(1, "mark")
        return xs, xs.pop()

    return f, [([ramp(2)], ramp(2)), ([ramp(2), 5], ramp(2)), ([1.0], ramp(2)), ([ramp(2)], ramp(2))]


@program()
def argument_dict_mutated():
    def f(d):
        d["sum"] = sum(d.values())
        first = d.pop("a")
        d.setdefault("a", first * 2)
        d.update(b=first, c=None)
        d |= {"e": 1}
        return list(d), d

    return f, [({"a": ramp(2)},), ({"a": ramp(2), "b": 1.0},), ({"b": 2, "a": 3},), ({"a": ramp(2)},)]


@program()
def dict_keys_change_between_calls():
    def f(d):
        out = 0
        for k, v in d.items():
            out = out + v * len(k)
        return out, sorted(d.keys()), "a" in d

    x = ramp(2)
    return f, [({"a": x},), ({"a": x, "bb": x},), ({"bb": x},), ({"bb": x, "a": x},), ({"a": x},)]


@program()
def dict_of_tensors_rebuilt():
    def f(batch):
        return {k: (v * 2 if v.is_floating_point() else v + 1) for k, v in batch.items()}

    return f, [({"x": ramp(2), "n": torch.tensor([1, 2])},), ({"x": ramp(3)},), ({"x": ramp(2), "n": torch.tensor([1, 2])},)]


@program()
def list_made_inside_is_mutated():
    def f(x, n):
        rows = []
        for i in range(n):
            rows.append(x * i)
        rows.reverse()
        rows.extend([x, x])
        rows += (1,)
        rows[0:1] = []
        rows.pop()
        return rows, len(rows), rows.index(rows[0])

    return f, [(ramp(2), 2), (ramp(2), 3), (ramp(2), 2)]


@program()
def leaked_list_then_branch():
    box = {}

    def f(x):
        rows = [x + 1]
        box["rows"] = rows
        rows.append(x + 2)
        if x.sum() > 3:
            rows.append("big")
        rows.append(len(rows))
        return box["rows"] is rows, len(rows)

    return f, [(ramp(2),), (ramp(2) + 4,), (ramp(2) + 5,), (ramp(2),)], lambda: box


@program()
def sets():
    names = {"a"}

    def f(x, more):
        fresh = set(more) - names
        names.update(more)
        return x * len(names), sorted(fresh), names & {"a", "z"}, frozenset(more) <= names, {1, 2} ^ {2, 3}

    return f, [(ramp(2), "ab"), (ramp(2), "b"), (ramp(2), "cd"), (ramp(2), "ab")], lambda: names


@program()
def default_dict_and_counter():
    groups = collections.defaultdict(list)
    counts = collections.Counter()

    def f(x, key):
        groups[key].append(x * 2)
        counts[key] += 1
        return x * counts[key], counts.most_common(1)[0][0], len(groups)

    return f, [(ramp(2), k) for k in "aabac"], lambda: (dict(groups), counts)


@program()
def deque_as_window():
    window = collections.deque(maxlen=2)

    def f(x):
        window.append(x)
        return sum(window) / len(window)

    return f, [(ramp(2),), (ramp(2) + 1,), (ramp(2) + 2,), (ramp(2) + 3,)], lambda: window


@program()
def ordered_dict_and_chain_map():
    def f(x):
        d = collections.OrderedDict(a=x, b=x + 1)
        d.move_to_end("a")
        c = collections.ChainMap({"a": 1}, {"b": 2})
        return list(d), d.popitem(last=False), c["a"] + c["b"]

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def nested_structures():
    def f(tree):
        def walk(node):
            if isinstance(node, dict):
                return {k: walk(v) for k, v in node.items()}
            if isinstance(node, (list, tuple)):
                return type(node)(walk(v) for v in node)
            return node * 2

        return walk(tree)

    x = ramp(2)
    return f, [({"a": [x, (x, 1)], "b": {"c": x}},), ([x, {"k": 2.0}],), ({"a": [x, (x, 1)], "b": {"c": x}},)]


@program()
def same_list_twice():
    def f(a, b):
        a.append(1)
        return a is b, len(b)

    shared = []
    return f, [([], []), (shared, shared), ([], []), (shared, shared)], lambda: shared


@program()
def container_holds_itself():
    def f(x):
        rows = [x * 2]
        rows.append(rows)
        return rows[1][1][0] + 1, rows[1] is rows

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def copies():
    def f(x, d):
        a, b = copy.copy(d), copy.deepcopy(d)
        a["k"].append(x)
        b["k"].append(x + 1)
        y = copy.deepcopy(x.detach())
        y.add_(1)
        return a, b, d, y

    return f, [(ramp(2), {"k": []}), (ramp(2), {"k": [1]}), (ramp(2), {"k": []})]


@program()
def configuration_list_read_whole():
    config = list(range(20))
    counts = {"n": 0}

    def f(x):
        counts["n"] += 1
        config[3] = counts["n"]
        return x * sum(config)

    return f, [(ramp(2),)] * 5, lambda: (config, counts)


@program()
def list_comparison_and_contains():
    def f(x, items):
        return x * (3 in items), items == [1, 2], items < [2], items.count(1), [1] * 2 + items

    return f, [(ramp(2), [1, 2]), (ramp(2), [3]), (ramp(2), [1, 2])]


@program()
def heap_queue():
    def f(x, items):
        heap = list(items)
        heapq.heapify(heap)
        heapq.heappush(heap, 2.5)
        return x * heapq.heappop(heap), heap, heapq.nlargest(2, items)

    return f, [(ramp(2), (3.0, 1.0, 2.0)), (ramp(2), (9.0,)), (ramp(2), (3.0, 1.0, 2.0))]


@program()
def dict_changed_while_iterating():
    def f(x, d):
        try:
            for k in d:
                d[k + "x"] = x
        except RuntimeError as error:
            return str(error), len(d)
        return x

    return f, [(ramp(2), {"a": 1}), (ramp(2), {}), (ramp(2), {"a": 1})]


@program()
def results_cached_in_dict():
    cache = {}

    def f(x):
        key = tuple(x.shape)
        if key not in cache:
            cache[key] = torch.arange(x.shape[-1]) * 2.0
        return x + cache[key]

    return f, [(ramp(3),), (ramp(3),), (ramp(2, 3),), (ramp(4),), (ramp(3),)], lambda: list(cache)


@program()
def key_value_cache_grows():
    cache = {"k": None}

    def f(x):
        old = cache["k"]
        cache["k"] = x if old is None else torch.cat([old, x])
        return cache["k"].sum(0) / cache["k"].shape[0]

    return f, [(ramp(1, 2),)] * 5, lambda: cache


@program()
def items_read_behind_what_was_put_there():
    kept, box = [], {"n": 0}

    def f(x):
        kept.append(x.sum())
        box["n"] = box["n"] + 1
        other = {"n": 5}
        other["n"] = 6
        return kept[-1], kept[0], kept[-1] * box["n"], len(kept)

    def cleared():
        kept.clear()
        box["n"] = 0

    return f, [(ramp(3),), (ramp(3) + 1,), cleared, (ramp(3),), (ramp(4),), cleared, (ramp(4),)], lambda: (list(kept), dict(box))
