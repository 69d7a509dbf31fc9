"""torch.autograd: derivatives of what tensors have recorded, and functions with derivatives of their own."""
