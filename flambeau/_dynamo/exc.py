"""torch._dynamo.exc: the errors of compiling."""

from flambeau.compiler.backends import BackendCompilerFailed

__all__ = ["BackendCompilerFailed", "InternalTorchDynamoError", "TorchDynamoException", "Unsupported", "UserError"]

# What compile(fullgraph=True) raises is a RuntimeError; more special ones do not occur.
TorchDynamoException = Unsupported = RuntimeError


class UserError(RuntimeError):
    """A wrong use of the compiler."""


class InternalTorchDynamoError(RuntimeError):
    """A fault of the compiler."""
