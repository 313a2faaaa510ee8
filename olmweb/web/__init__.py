"""The frame of every page: shell context, rendering, polling, forms, base of the admin."""
