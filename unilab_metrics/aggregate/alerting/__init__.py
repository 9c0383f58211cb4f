"""Alerts that need a clock, and who is told of all of them."""
