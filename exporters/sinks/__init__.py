"""Where answers are sent: exposition, Alertmanager, webhooks."""
