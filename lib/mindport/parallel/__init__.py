"""Several devices: the planner of layouts."""
