"""A workload of one's own: a RayCluster or a RayJob of the user's takes the place of ours, changed as far as the stack demands.

`file` reads it and names what is wrong with it, `fit` says what must be changed and why, `edit` keeps the list of that.
"""
