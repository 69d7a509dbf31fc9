"""Native code that runs under Python objects: types, memory, operator calls. Written in a small language inside Python."""
