"""What stands beside a record's response: its own weight and its offset, private as it is."""
