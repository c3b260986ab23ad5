"""The settings of the running service: one tree, its sources, and where each value came from."""
