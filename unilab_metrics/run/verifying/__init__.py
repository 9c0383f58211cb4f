"""``verify``: the proof that a run lost and changed nothing."""
