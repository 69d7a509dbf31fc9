"""torch._subclasses: kinds of tensors that PyTorch's tracers use."""
