"""Where bytes come from. Every source hands out scrapes: one body, or one reason for its absence."""
