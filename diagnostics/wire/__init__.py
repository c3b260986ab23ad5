"""Bytes in, records out: one parser per kind of body, and the capture format. Knows no meaning of a number."""
