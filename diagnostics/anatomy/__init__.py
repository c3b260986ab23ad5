"""Where one request's time goes: cells of (ensemble, stage, phase) in seconds, and who claims them."""
