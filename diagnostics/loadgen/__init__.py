"""Controlled load on a server with `tritonclient`: needs the extra `bench`."""
