"""Newton's method that decides on released answers how much to spend on the way."""
