"""What a node says of itself, beside any training: processors, memory, GPUs."""
