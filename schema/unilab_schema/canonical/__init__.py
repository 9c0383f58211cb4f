"""The canonical table: 68 tags, open families, what the bus says of itself, and what only a
terminal shows.

Names, units, reductions and nullability are frozen within a major schema version.
"""
