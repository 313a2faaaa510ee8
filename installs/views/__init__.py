"""Pages about what is installed. Thin: read the query string, ask installs.queries, render."""
