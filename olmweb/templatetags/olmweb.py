"""Template tags that every page uses."""

from django import template

register = template.Library()
