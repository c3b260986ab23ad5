"""The documentation: pages that people write, and pages that are written from the code."""
