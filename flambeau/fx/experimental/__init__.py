"""torch.fx.experimental: what libraries ask of PyTorch's other tracers."""
