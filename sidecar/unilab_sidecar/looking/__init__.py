"""What somebody looks at: keys in, what is shown and asked out."""
