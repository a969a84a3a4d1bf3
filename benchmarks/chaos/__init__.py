"""Faults caused on purpose, on real components: nothing may hang, be lost, or be wrong and called right.

    python -m benchmarks.chaos            # all faults, as often as each says: a table for docs/reliability.md
    python -m benchmarks.chaos --short    # the short form, which runs in `make test`
    python -m benchmarks.chaos --resume build/chaos.jsonl --minutes 15 signals Spark    # some of them, in pieces

A module here is a group of faults. It lists them as `FAULTS`; `registry.py` finds them there.
"""
