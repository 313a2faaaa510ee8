"""What a catalog was from revision to revision: outlines of packages, and what differs."""
