"""torch.fx: the steps of a module as a graph that can be read, changed and turned into Python code again."""

from flambeau.fx import experimental as experimental
from flambeau.fx import graph as graph
from flambeau.fx import graph_module as graph_module
from flambeau.fx import interpreter as interpreter
from flambeau.fx import node as node
from flambeau.fx import passes as passes
from flambeau.fx import proxy as proxy
from flambeau.fx._symbolic_trace import Tracer as Tracer
from flambeau.fx._symbolic_trace import symbolic_trace as symbolic_trace
from flambeau.fx._symbolic_trace import wrap as wrap
from flambeau.fx.graph import Graph as Graph
from flambeau.fx.graph_module import GraphModule as GraphModule
from flambeau.fx.interpreter import Interpreter as Interpreter
from flambeau.fx.interpreter import Transformer as Transformer
from flambeau.fx.node import Node as Node
from flambeau.fx.node import map_arg as map_arg
from flambeau.fx.proxy import Attribute as Attribute
from flambeau.fx.proxy import GraphAppendingTracer as GraphAppendingTracer
from flambeau.fx.proxy import Proxy as Proxy
from flambeau.fx.proxy import TracerBase as TracerBase

__all__ = [
    "Attribute", "Graph", "GraphAppendingTracer", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "TracerBase", "Transformer",
    "map_arg", "symbolic_trace", "wrap",
]  # fmt: skip
