"""What is made of updates: means over two seconds, courses, rewards, rows. Pure."""
