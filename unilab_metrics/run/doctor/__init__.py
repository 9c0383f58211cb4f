"""``doctor``: what is wrong with a run, and how to put it right. Reads only.

One file per subject; each one gives findings and never raises for what it looks at.
"""
