"""From a graph to an ordered list of kernels over numbered buffers."""
