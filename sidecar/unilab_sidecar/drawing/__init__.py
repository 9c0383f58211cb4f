"""Lines of styled text, measured in cells. Pure."""
