"""Contents of bundles: their full ClusterServiceVersion and objects.

They come from the catalog (olm.bundle.object) or from the bundle's image, pulled on request
(`inspection`) and stored by digest (`stored`). `report` summarizes the objects, `permissions` rates
RBAC rules, `difference` compares two bundles. Knows neither pages nor clusters.
"""
