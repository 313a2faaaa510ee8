"""REST routes of clusters, what they run and what is done to it, a module for each resource.

`schemas` holds every shape that they answer: the fields of an operator are `OperatorRow`.
"""
