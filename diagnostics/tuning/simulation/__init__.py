"""A discrete-event simulation of Triton's schedulers: what is simulated, how it runs, and what comes out."""
