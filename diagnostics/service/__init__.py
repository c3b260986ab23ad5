"""The running service: collects, evaluates, remembers, notifies and shows."""
