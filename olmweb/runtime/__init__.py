"""The process: environment, logs, leases, Celery's worker and beat, the container probe."""
