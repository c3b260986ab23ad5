"""A load test in each form in which it is shown."""
