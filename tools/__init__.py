"""Checks of the repository that run beside its tests."""
