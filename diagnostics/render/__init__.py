"""What was found, as text, JSON, Markdown or HTML: explanations, differences, forecasts, objectives. Computes nothing."""
