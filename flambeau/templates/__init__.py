"""Kernels that are written by hand with holes for fused code: products of matrices, scans, sorts, random numbers."""
