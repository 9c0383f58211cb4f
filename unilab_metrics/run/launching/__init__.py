"""Who owns the terminal of a training: it starts it, shows it, ends it and reports."""
