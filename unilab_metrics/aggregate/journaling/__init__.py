"""The wal and the history on the disk: writing, syncing, recovering, folding again."""
