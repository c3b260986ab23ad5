"""The door of the service: its page, its API, its metrics and what it receives, over HTTP."""
