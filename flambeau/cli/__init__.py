"""The command line: running programs with flambeau as torch, explaining what was compiled, looking after the cache."""
