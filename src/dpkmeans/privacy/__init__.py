"""Mechanisms, the ledger and budget schedules: all that decides what a result may be called."""
