"""Judges model repositories by their files alone: no server, no GPU. One file per rule below `rules/`."""
