"""What a logistic regression of raw columns asks for beside its weighted rows."""
