"""gunicorn: threads, because pages wait for the database and nothing else."""

import os

bind = "0.0.0.0:8000"
worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
threads = 8
timeout = 30
graceful_timeout = 20
keepalive = 65  # longer than the proxy's, so that the proxy closes first
limit_request_line = 8190  # bytes: the address of a bulk install names each package
max_requests = 10_000
max_requests_jitter = 1_000
worker_tmp_dir = "/dev/shm"  # noqa: S108 - gunicorn's heartbeat file must not touch the disk
control_socket_disable = True
