"""Private centres and spreads of columns, estimated with part of the budget."""
