"""The modules that hold contestants; each is imported in a process of its own."""

OURS = "mindport.tuning.ours"
NAIVE = "mindport.tuning.naive"
TORCH = "mindport.tuning.torch_peer"
