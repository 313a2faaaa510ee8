"""Opening a source of catalog content into a spool file of decoded bytes. No Django."""
