"""Makes what Prometheus and people need of the checks: alerts, their tests, runbooks. Text in, text out, no I/O."""
