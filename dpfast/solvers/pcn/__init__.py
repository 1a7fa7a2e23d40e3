"""Private clipped Newton (PCN): preconditioned, norm-clipped, averaged Newton steps."""
