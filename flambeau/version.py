"""torch.version: which flambeau this is, and what it is built for."""

__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]

__version__ = "0.1.0"
debug = False
# GPUs are reached through the driver alone; there is no version of a toolkit that this was built with.
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"
