"""Real components for tests: an API server with etcd, OLM v0, opm, catalogd with a registry.

build.py makes the binaries, servers.py and controllers.py run them, client.py talks to the API
server as a test does, fixtures.py hands them to tests. Nothing here imports the product.
"""
