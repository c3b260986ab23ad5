"""The difference of two windows in each form in which it is shown."""
