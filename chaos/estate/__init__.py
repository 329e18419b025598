"""Kubernetes objects as they are found, in manifests or on a cluster, and what can be read from them without touching them."""
