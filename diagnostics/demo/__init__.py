"""The demonstration: a real Triton on this machine, the reference deployment, its faults, and load."""
