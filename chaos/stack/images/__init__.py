"""Where images and programs come from.

One interface, three sources (see `chaos.stack.images.source`): `registry` takes the official ones, `build` makes them from
Debian packages, PyPI wheels and Go modules, `archive` reads one file made earlier. Whatever the source, `bake` then puts
every image into the node image, so that they are on the nodes before a pod needs them.
"""
