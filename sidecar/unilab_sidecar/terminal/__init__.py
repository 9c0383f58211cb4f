"""The terminal: keys in, few bytes out, colours, and who has it."""
