"""What the service exports about itself: its metrics and traces, and where the `OTEL_*` variables send them."""
