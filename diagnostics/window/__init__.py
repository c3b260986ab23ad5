"""Records between two instants, cut into epochs: every difference of a counter lives inside one."""
