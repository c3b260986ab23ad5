"""An explanation in each form in which it is shown."""
