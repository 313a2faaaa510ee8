"""Every read of the pages about what is installed. Knows models, never requests or templates."""
