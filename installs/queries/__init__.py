"""Every read of the pages about installed operators. Knows models, never requests or templates."""
