"""Sockets and how processes find each other."""
