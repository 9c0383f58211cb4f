"""Textual widgets. They draw lines that ``layout`` has made and decide nothing."""
