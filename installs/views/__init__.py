"""Pages about installed operators, clusters and actions.

A view reads its form, calls installs.queries and renders.
"""
