"""Print the table of small worlds for docs/audit.md: python -m tools.small_worlds."""

from __future__ import annotations

from fractions import Fraction

from dpkmeans.audit.small_worlds import enumerated

if __name__ == "__main__":
    print("| mechanism | pairs of data sets | outputs | largest loss at 1 |")
    print("| --- | --- | --- | --- |")
    for row in enumerated(Fraction(1)):
        print(f"| `{row.mechanism}` | {row.worlds} | {row.outputs} | {row.largest:.30f} |")
