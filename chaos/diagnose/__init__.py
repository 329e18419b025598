"""What is wrong with a Ray cluster, and where a RayJob stands, from a snapshot: a live cluster's, or a saved bundle's.

A *cause* is named only on evidence of its symptom: a set-up that is open to a trouble, without the trouble, is the
checklist's matter (`chaos.audit`) and not named here. A healthy cluster has no cause.
"""
