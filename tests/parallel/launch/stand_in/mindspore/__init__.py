"""A stand-in for MindSpore: its msrun starts the same processes the same way, in no time."""
