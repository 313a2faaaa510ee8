"""The audit: stored verdicts on all packages of a catalog, compared with a cluster's operators.

`audit` collects it and checks the namespaces of Subscriptions, `report` formats it.
"""
