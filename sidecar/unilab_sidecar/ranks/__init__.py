"""Every rank's state and values. Pure."""
