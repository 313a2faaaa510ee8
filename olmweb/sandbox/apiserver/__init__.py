"""A Kubernetes API server in one process, with the kinds that OLM Web reads.

tests/conformance compares it with a real kube-apiserver. Must not know controllers or scenarios.
"""
