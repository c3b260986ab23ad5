"""The verification of a change in each form in which it is shown."""
