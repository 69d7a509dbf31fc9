"""torch.fx.passes.shape_prop: the shapes and types of what the nodes of a graph give."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.core.dtypes import dtype
from flambeau.core.shape import Size
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate
from flambeau.tensor.tensor_class import Tensor

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]


def _described(value: Any) -> Any:
    return TensorMetadata(value.shape, value.dtype, value.requires_grad, value.stride()) if isinstance(value, Tensor) else value


class ShapeProp(Interpreter):
    """Runs a graph and writes `TensorMetadata` of each result to ``node.meta["tensor_meta"]``."""

    def run_node(self, n: Node) -> Any:
        """The result of a node, described on the way."""
        result = super().run_node(n)
        n.meta["tensor_meta"], n.meta["type"] = map_aggregate(result, _described), type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these arguments."""
        return self.run(*args)
