"""Coverage-guided fuzzing of one target with atheris.

    python fuzz/run.py model -max_total_time=60

The corpus lies in tests/safety/corpus; what is found is kept in fuzz/found, which is not in the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(
    include=["dpkmeans.storage.json_files", "dpkmeans.storage.codec", "dpkmeans.core.release", "dpkmeans.cli.inputs"]
):
    from fuzz.targets import TARGETS


def main() -> None:
    """Fuzz the target named first; the other arguments are libFuzzer's."""
    name = sys.argv[1]
    found = ROOT / "fuzz" / "found" / name
    found.mkdir(parents=True, exist_ok=True)

    def one_input(data: bytes) -> None:
        TARGETS[name](data)

    corpus = ROOT / "tests" / "safety" / "corpus" / name
    prefix = f"-artifact_prefix={found}/crash-"
    atheris.Setup([sys.argv[0], str(found), str(corpus), prefix, *sys.argv[2:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
