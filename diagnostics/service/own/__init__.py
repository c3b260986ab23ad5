"""What the service tells of itself: its metrics and traces, and where the `OTEL_*` variables send them."""
