"""Records in the units that were bought for their columns."""
