"""An explanation as text, JSON or Markdown. Computes nothing."""
