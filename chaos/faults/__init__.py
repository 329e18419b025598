"""Faults: what is done to a stack. One a file.

A fault is declared together with the proof that it took and with its undo, and it has no verdict: it only says what it did
and what an independent probe saw. `chaos.faults.inject` runs every fault through the same steps.
"""
