"""Files: the one record format, segments, leases, and where files may lie."""
