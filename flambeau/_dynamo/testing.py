"""torch._dynamo.testing: back ends that count."""

from flambeau._dynamo.utils import CompileProfiler

__all__ = ["CompileCounter", "CompileCounterWithBackend"]


class CompileCounter(CompileProfiler):
    """Counts graphs (``frame_count``) and their operations (``op_count``)."""

    def clear(self) -> None:
        """Begin again at 0."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same; the name of the back end changes nothing. ``graphs`` keeps what came."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend, self.graphs = backend, []

    def __call__(self, graph: object, example_inputs: object, **options: object) -> object:
        self.graphs.append(graph)
        return super().__call__(graph, example_inputs, **options)
