"""Verdicts on whether a bundle can be installed, by install method, before the install.

`rules` (data in `rule_data/`), the checks, `facts` and `evaluate` are pure. `store` writes the
verdicts on all bundles of a catalog, `read` reads them, `catalog_health` checks the catalogs.
"""
