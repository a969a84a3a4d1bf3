"""A ledger on the disk: one SQLite file, a chain of hashes."""
