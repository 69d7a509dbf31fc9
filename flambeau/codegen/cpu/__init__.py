"""From kernels as data to LLVM IR for the CPU, with explicit vectors."""
