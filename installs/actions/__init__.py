"""Actions on clusters: install, upgrade, configuration, approval, retry, removal.

`plan` (install), `plan_changes` (upgrade, approval), `configuration`, `removal` and `retry` make
plans; `upgrade` of each install method (installs.methods) sets the fields that an upgrade applies.
`record` tries a plan with a dry run and stores it as an Action, `execute` sends its objects,
`follow` runs it to its outcome or timeout. `bulk` installs many packages, `requests` holds install
requests, `buttons` decides which actions a page offers and words why a button is disabled,
`warnings` has the doubts about an install, `install_rows` the rows that its plan and its form are
made from.
"""
