"""Request and approve: who may not install asks, who may decides.

`rules` is the allow-list, `asking` records requests, `deciding` ends them. Sends nothing: an
approved request becomes an Action of whoever approved it, by installs.actions.record.
"""
