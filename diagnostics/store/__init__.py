"""What is remembered: recorded bodies, incidents, findings, signals."""
