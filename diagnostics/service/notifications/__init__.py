"""Notifies Alertmanagers and webhooks of incidents, and forgets nothing that was not delivered."""
