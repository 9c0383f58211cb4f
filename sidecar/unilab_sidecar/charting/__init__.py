"""Charts: the courses of tags, and their drawing. Pure."""
