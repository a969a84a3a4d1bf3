"""Builds the wheel, installs it into empty environments, and runs what a newcomer would: tables of times and sizes.

Run with `python -m tools.try_wheel` (minutes; needs an index to install from). It fails if a command fails that
should not, or if a plain installation asks for anything but `dpkmeans[all]`. `--put docs/install.md` writes the tables
into that page.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools.markdown import as_table, put

ROOT = Path(__file__).resolve().parents[1]
FIT = "fit visits.csv --k 3 --epsilon 1 --bounds east=0:100,north=0:100"
ESTIMATOR = (
    "import numpy as np; from dpkmeans import DPKMeans; X = np.random.default_rng(0).random((2000, 2)); "
    "print(DPKMeans(3, epsilon=1, bounds=(0, 1)).fit(X).release_.summary())"
)
COMMANDS = (
    "--version",
    "--help",
    "methods",
    "plan --records 50000 --features 2 --k 3",
    "demo",
    "schema visits.csv --header --out schema.toml",
    "ledger create ledger.db --dataset visits --cap 5",
    f"{FIT} --ledger ledger.db --dataset visits --out model.json",
    "show model.json --verify",
    "show model.json --registry",
    "predict model.json visits.csv --out clusters.csv",
    "quality model.json visits.csv --epsilon 0.1",
    "profile model.json visits.csv --columns east --epsilon 0.1",
    "report model.json --out report.html --page explore.html",
    "synopsis visits.csv --epsilon 1 --bounds east=0:100,north=0:100 --out synopsis.json",
    "explore synopsis.json --k 2:4",
    "ledger show ledger.db",
    "ledger verify ledger.db",
    "ledger head ledger.db",
    "ledger recover ledger.db",
    "ledger export ledger.db",
    "ledger cap ledger.db --dataset visits --cap 6",
    "key create curator.key",
    "ledger sign ledger.db --sign curator.key",
    "bench visits.csv --k 3 --epsilon 1 --methods synopsis,su --runs 2 --bounds 0:100 --header --plot costs.png",
    "audit laplace --runs 64 --jobs 1",
    "audit dwork --replay --pairs 3",
    "reproduce --help",
)
FILES = {"schema", "fit", "predict", "report", "synopsis", "bench", "key"}
"""Commands that read files, draw or sign: a plain installation asks once for `dpkmeans[all]`."""
MADE_BY_FIT = ("show", "explore", "predict", "quality", "profile", "ledger sign")
MEGABYTE = 1e6


def main() -> int:
    """Try a plain installation and one with everything but clusters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="one that is built already")
    parser.add_argument("--extras", default=",all", help="what to install, with commas; nothing is the plain one")
    parser.add_argument("--put", help="a page with the marks")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="try-wheel-") as folder:
        wheel = options.wheel or _built(Path(folder))
        for extra in options.extras.split(","):
            rows, sizes, wrong = tried(wheel, extra, Path(folder) / (extra or "plain"))
            failed |= bool(wrong)
            name = f"dpkmeans[{extra}]" if extra else "dpkmeans"
            text = (
                f"{as_table([name, 'seconds', 'CPU seconds', 'outcome'], rows)}\n{as_table(['largest', 'MB'], sizes)}"
            )
            print(text)
            print("\n".join(wrong), file=sys.stderr)
            if options.put:
                put(options.put, f"try {extra or 'plain'}", text)
    return int(failed)


def tried(wheel: Path, extra: str, folder: Path) -> tuple[list[list[str]], list[list[str]], list[str]]:
    """Rows of what was run, of the largest packages, and what went wrong."""
    folder.mkdir()
    rows: list[list[str]] = []
    wrong: list[str] = []
    asked: list[str] = []

    def step(name: str, command: Sequence[str], *, may_ask: bool = False) -> None:
        wall, cpu, done = _timed(command, folder)
        outcome = "done" if done.returncode == 0 else "asks for dpkmeans[all]"
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            if may_ask and "pip install 'dpkmeans[all]'" in "".join(last):
                asked.extend(last)
            else:
                outcome = f"failed ({done.returncode})"
                wrong.append(f"{name}: {done.stderr[-500:]}")
        rows.append([f"`{name}`", f"{wall:.1f}", f"{cpu:.1f}", outcome])

    step("python -m venv", [sys.executable, "-m", "venv", str(folder / "venv")])
    python, command = str(folder / "venv/bin/python"), str(folder / "venv/bin/dpkmeans")
    empty = _packages(folder)
    step("pip install", [python, "-m", "pip", "--quiet", "install", f"{wheel}[{extra}]" if extra else str(wheel)])
    step("import dpkmeans", [python, "-c", "import dpkmeans; dpkmeans.DPKMeans"])
    step("first fit of an estimator", [python, "-c", ESTIMATOR])
    step("second fit, another process", [python, "-c", ESTIMATOR])
    (folder / "visits.csv").write_text(_visits(), "utf-8")
    for words in COMMANDS:
        asks = extra != "all" and words.split()[0] in FILES
        if extra != "all" and words.startswith(MADE_BY_FIT):
            continue  # there is no file to show where none could be made
        step(f"dpkmeans {words}", [command, *words.split()], may_ask=asks)
    sizes = {name: size - empty.get(name, 0) for name, size in _packages(folder).items()}
    shown = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    listed = [[name, f"{size / MEGABYTE:.0f}"] for name, size in shown]
    return rows, [*listed, ["all", f"{sum(sizes.values()) / MEGABYTE:.0f}"]], wrong


def _built(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def _timed(command: Sequence[str], folder: Path) -> tuple[float, float, subprocess.CompletedProcess[str]]:
    """Wall and CPU seconds of a command in `folder`, with this environment but for what points at another package."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["NUMBA_CACHE_DIR"] = environment["XDG_CACHE_HOME"] = str(folder / "cache")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done


def _packages(folder: Path) -> dict[str, float]:
    """Bytes of each package, with the shared libraries that belong to it."""
    sizes: dict[str, float] = {}
    for file in folder.glob("venv/lib/python*/site-packages/**/*"):
        if file.is_file() and not file.is_symlink():
            name = file.relative_to(next(folder.glob("venv/lib/python*/site-packages"))).parts[0].removesuffix(".libs")
            sizes[name] = sizes.get(name, 0) + file.stat().st_size
    return sizes


def _visits() -> str:
    from dpkmeans.demo.towns import visits

    return "east,north\n" + "".join(f"{east:.3f},{north:.3f}\n" for east, north in visits(3000))


if __name__ == "__main__":
    sys.exit(main())
