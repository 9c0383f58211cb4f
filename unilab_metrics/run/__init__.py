"""Runs: directories, ranks, helper processes, and the launcher that owns the terminal."""
