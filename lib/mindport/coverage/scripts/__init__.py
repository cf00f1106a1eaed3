"""What runs in processes of its own, and may import frameworks there; each is started with `python -m`."""
