"""NVIDIA GPUs: the driver through ctypes, devices with their memory, and launches."""
