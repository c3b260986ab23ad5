"""What to change and what it would bring: config changes, `config.pbtxt` patches, the scheduler model."""
