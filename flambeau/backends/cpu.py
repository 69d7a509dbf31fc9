"""torch.backends.cpu: what the CPU can do."""

from flambeau.core.cpu import vector_bits


def get_cpu_capability() -> str:
    """The widest vectors that kernels use: "AVX512", "AVX2" or "DEFAULT"."""
    width = vector_bits()
    return "AVX512" if width >= 512 else "AVX2" if width >= 256 else "DEFAULT"
