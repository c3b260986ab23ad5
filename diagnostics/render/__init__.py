"""What was found, as text, JSON, Markdown or HTML: answers, differences, forecasts, objectives. Computes nothing."""
