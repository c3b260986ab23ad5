"""The outside world: `sources` bring bytes in, `sinks` carry results out; one module per system."""
