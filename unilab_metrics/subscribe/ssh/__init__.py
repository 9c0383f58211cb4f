"""Following a run of another machine through the system's OpenSSH."""
