"""Products of sparse matrices, given by the places of their elements, with dense ones."""

from __future__ import annotations

import numpy as np

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Size, Value, op
from flambeau.ops.indexing import insertion_points
from flambeau.ops.view import cut


def _product_samples(m: SampleMaker) -> Calls:
    rows, columns = np.array([0, 2, 2, 1, 0]), np.array([1, 0, 3, 3, 1])
    return [case(rows, columns, m.float(5), m.float(4, 6), 3), case(rows[:0], columns[:0], m.float(0), m.float(4, 2), 3)]


@op(promote="same", promoted=("values", "dense"), samples=_product_samples)
def sparse_product(rows: Value, columns: Value, values: Value, dense: Value, size: Size) -> Node:
    """A [size, k] times dense [k, m], where A has ``values`` at the places (rows, columns); what is at one place counts together."""
    taken = p.take(dense, columns)
    weighed = p.mul(p.expand(p.reshape(values, shape=(*values.shape, 1)), shape=taken.shape), taken)
    return p.scatter(p.constant(0, (size, dense.shape[1]), dense.dtype), weighed, rows, mode="add")


@op(samples=lambda m: [case(np.array([0, 2, 2, 3, 5]), 5), case(np.array([0, 0]), 0)])
def compressed_rows(pointers: Value, count: Size) -> Node:
    """The row of each of ``count`` elements that lie row by row, row i from ``pointers[i]`` up to ``pointers[i + 1]``."""
    ends = cut(p.converted(pointers, dtypes.int64), 0, 1, pointers.shape[0] - 1)
    return insertion_points(ends, p.iota(shape=(count,), axis=0, dtype=dtypes.int64), right=True)
