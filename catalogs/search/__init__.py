"""Search over every package of every catalog, merged by name, filtered and counted.

`index` is the index in memory, `query` parses a search, `matching` scores packages, `find` filters,
counts and orders them.
"""
