"""The contract of unilab-metrics: what crosses the wire and what lies in the files.

Imports msgspec and the standard library only, so that any reader of a run can
depend on it alone. ``schema/README.md`` is the prose form of this package.
"""
