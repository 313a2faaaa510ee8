"""CatalogSources over gRPC: the messages of `api.Registry`, its calls, and FBC made of both."""
