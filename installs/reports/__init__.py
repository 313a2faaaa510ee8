"""Reports that read a cluster on request and are stored: the cost of copied CSVs."""
