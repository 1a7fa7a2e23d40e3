"""Records in the units that were estimated privately for their columns."""
