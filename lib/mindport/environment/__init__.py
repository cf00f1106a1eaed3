"""Step 00: is this machine ready? Standard library only; the probes run in processes of their own."""
