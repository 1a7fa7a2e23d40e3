"""What comes in: the arguments of every private call, checked, and the charge before the work."""
