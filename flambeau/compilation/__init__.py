"""From a graph to loaded kernels: the pipeline, the LLVM and Triton drivers, and the caches of what they make."""
