"""torch._dynamo.eval_frame: the class of compiled Modules, by which programs recognize them."""

from flambeau.compiler.stance import set_stance
from flambeau.nn.compiled_module import OptimizedModule

__all__ = ["OptimizedModule", "set_stance"]
