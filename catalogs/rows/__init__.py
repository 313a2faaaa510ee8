"""What the database gets of a package, made from its blobs: here or by processes beside this."""
