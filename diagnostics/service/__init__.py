"""The running service: collects, judges, remembers, tells and shows."""
