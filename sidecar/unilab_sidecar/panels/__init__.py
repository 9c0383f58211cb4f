"""One part of the overview per module: a picture and a width in, lines of text out. Pure."""
