"""What is asked of a fit afterwards: post-processing of released numbers (claim C8)."""
