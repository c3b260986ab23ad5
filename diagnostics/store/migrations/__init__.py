"""The schema, step by step: each step takes a database of one release to the next. Forward only."""
