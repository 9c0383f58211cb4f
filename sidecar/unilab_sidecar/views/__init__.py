"""One screen per module: what is known and the view's state in, lines of text out. Pure."""
