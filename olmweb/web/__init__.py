"""The frame of every page: shell, rendering, polling, forms, pagination, base of the admin."""
