"""File-based catalogs: splitting into blobs, facts of packages, bundles and CSVs, opm's faults.

Everything here is pure: no Django, no network.
"""
