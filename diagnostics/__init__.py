"""Finds why an NVIDIA Triton + TensorRT-LLM endpoint is slow, and which line to change."""

__version__ = "0.2.0"
