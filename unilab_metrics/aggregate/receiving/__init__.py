"""What comes from sources: who is admitted, which records are new, who must be answered."""
