"""What is really in a bundle: its full ClusterServiceVersion and objects.

A catalog with olm.bundle.object carries them; of others the bundle's image is pulled when somebody
asks (`inspect`), and what it holds is stored by its digest (`stored`). `objects` reads them,
`report` says what they would bring to a cluster, `difference` how two differ. Must not know pages,
nor what a cluster has.
"""
