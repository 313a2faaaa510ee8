"""Who may do what: the table of routes and the requests that keep it true."""
