"""The expectation tables: what a version is known to do about a claim."""
