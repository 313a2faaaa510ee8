"""Pages of the software catalog and of catalogs. They read only our own rows."""
