"""Rewrites of graphs that keep every bit of their results."""
