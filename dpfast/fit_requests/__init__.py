"""Arguments of private calls: checked, charged for, and turned into results."""
