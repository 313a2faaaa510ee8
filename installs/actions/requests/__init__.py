"""Request and approve: a person who may not install requests, a person who may decides.

`submit` holds the allow-list and records requests, `decide` ends them. Sends nothing: an approved
request becomes an Action of the person who approved it, by installs.actions.record.
"""
