"""Grafana dashboards: each is a module that states its panels; `python -m dashboards` writes the JSON beside them."""
