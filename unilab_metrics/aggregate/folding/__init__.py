"""The pure core: wal entries in, history entries out. No clock, no socket, no file."""
