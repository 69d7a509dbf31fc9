"""The derivative of a graph, and its split into a forward and a backward part."""
