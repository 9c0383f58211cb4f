"""What subscribers get: heads, history, snapshots."""
