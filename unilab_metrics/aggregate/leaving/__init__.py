"""Sources that come unannounced or are gone, and what they left on this node."""
