"""What runs or records operators: the eager call, the trace of a body, the numpy reference, layouts of views."""
