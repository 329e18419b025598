"""Chaos tests for Ray on Kubernetes with KubeRay, against real kind clusters.

The model in one breath: a *stack* is stood up (kind, KubeRay, highly available Redis), a *workload* runs on it,
everything that happens is *recorded* as one history, one *fault* is injected, proved and undone, and pure *checks*
judge the history. The words are used with these meanings throughout; docs/design.md defines them.
"""

__version__ = "0.1.0"
