"""Hugging Face's Text Generation Inference.

Sources: text-generation-inference, `docs/source/reference/metrics.md`.
"""

from __future__ import annotations

from diagnostics.wire.servers.kind import ServerKind

KIND = ServerKind(
    name="Text Generation Inference",
    prefixes=("tgi_",),
    stored=("tgi_queue_size",),
    instead="look at tgi_queue_size and tgi_request_queue_duration until its pages are read",
)
