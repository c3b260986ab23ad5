"""What a change would do: a deployment's model fitted from evidence, its forecast, searches over changes, and tests."""
