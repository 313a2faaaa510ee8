"""A cluster for the demo and the tests: a Kubernetes API server, OLM's controllers, a scenario.

Start it with `cluster.Sandbox`; product code never imports it.
"""
