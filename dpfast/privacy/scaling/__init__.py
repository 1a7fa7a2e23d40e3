"""What it costs to buy the locations and scales of columns: constants and their proofs."""
