"""How objectives stand, in each form in which it is shown."""
