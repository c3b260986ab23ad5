"""Signals become readings here, and the ledger remembers which were read and compared."""
