"""The intermediate representation: nodes, graphs of primitives, and kernels as loop nests."""
