"""Where results go, one module per system."""
