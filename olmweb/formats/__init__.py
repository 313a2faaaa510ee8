"""Formats of dates that the admin pages share with the other pages."""
