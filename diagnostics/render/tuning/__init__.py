"""The answer of a search for settings in each form in which it is shown."""
