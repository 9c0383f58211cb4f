"""Where a run stands, and who says so. Pure."""
