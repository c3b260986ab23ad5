"""The command `diag`: arguments in, text and an exit code out."""
