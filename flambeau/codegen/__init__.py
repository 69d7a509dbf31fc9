"""From kernels as data to the text of machine code."""
