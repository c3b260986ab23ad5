"""What to change and what it would bring: configuration changes, patches of `config.pbtxt`, the scheduler model."""
