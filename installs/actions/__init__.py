"""Actions on clusters: install, upgrade, approval, retry, removal.

`plan` (install), `upgrade` (upgrade, approval, removal) and `retry` make plans; each install method
sets the fields that its `upgrade` applies. `record` tries a plan with a dry run and
stores it as an Action, `execute` sends its objects, `follow` runs it to its outcome or timeout.
`bulk` installs many packages, `requests` holds install requests, `buttons` decides which actions a
page offers and words why a button is disabled, `warnings` has the doubts about an install.
"""
