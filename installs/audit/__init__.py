"""The audit: stored verdicts on all packages of a catalog, compared with a cluster's operators.

`audit` collects it, `report` formats it, `namespaces` checks the namespaces of Subscriptions.
"""
