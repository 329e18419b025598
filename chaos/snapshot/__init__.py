"""What a cluster looks like at one moment: objects, logs, Ray's own record. Taken read-only, and kept in a file as a bundle."""
