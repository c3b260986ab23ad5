"""Kinds of inference servers, one module each, known by their metrics pages."""
