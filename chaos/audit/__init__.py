"""The adoption checklist: is this set-up fit to survive the loss of a Ray head?

An *item* looks at one Ray cluster among all objects that were read, and says `holds`, `broken` or `unknown`, with the
places that show it and what to do. Nothing is changed: a cluster is asked with get and list alone, and Redis only where
that was asked for. What can't be seen is `unknown`, never fine.
"""
