"""Triton source text for kernels on NVIDIA GPUs."""
