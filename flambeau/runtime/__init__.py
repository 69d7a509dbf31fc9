"""Memory, threads, machine code and the disk cache: what runs compiled programs. Sees only `flambeau.core`."""
