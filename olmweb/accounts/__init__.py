"""Accounts: roles and permissions, sign-in with a password or OpenID Connect, API tokens."""
