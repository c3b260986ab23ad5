"""The service over HTTP: its page, its API, its metrics and what it receives."""
