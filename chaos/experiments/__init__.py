"""The experiments: each reads like the claim that it shows, and runs alone, in any order, repeatedly."""
