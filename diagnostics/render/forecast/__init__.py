"""A forecast, or a sweep of them, in each form in which it is shown."""
