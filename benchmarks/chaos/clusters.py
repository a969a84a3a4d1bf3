"""Real clusters for faults: a Dask scheduler and its workers, a Spark master and its workers, and the command."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import dpkmeans
from benchmarks.chaos.fault import Tally
from dpkmeans import DPKMeans, DurableLedger
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.release import Release

SOURCE = Path(dpkmeans.__file__).parents[1]
LIMIT = 240.0  # seconds after which a fit hangs
OPTIONS = {"epsilon": 1.0, "bounds": (0, 1), "method": "su", "random_state": 3, "guarantee": "none"}


COST = Epsilon.of(1.0).nano


def why_no_dask() -> str | None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        return "Dask is not installed"
    return None


def why_no_spark() -> str | None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "Spark is not installed"
    return None if shutil.which("java") or "JAVA_HOME" in os.environ else "there is no Java"


@dataclass
class Case:
    """Records in files, a ledger, and the answer that a right fit gives.

    Fits take turns: one has a seed, so that its result can be compared to the bit; the next spends from the ledger,
    which refuses seeds.
    """

    folder: Path
    expected: np.ndarray = field(init=False)
    store: DurableLedger = field(init=False)
    fits: int = 0
    changed: bool = False  # the records are no longer those of the expected answer: no result is right

    def __post_init__(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        X = np.random.default_rng(0).random((6000, 3))
        self.records.mkdir()
        for i, part in enumerate(np.split(X, 6)):
            table = pa.table({f"x{j}": part[:, j] for j in range(3)})
            parquet.write_table(table, self.records / f"part-{i}.parquet", row_group_size=500, write_page_checksum=True)
        self.expected = DPKMeans(4, **OPTIONS).fit(X).cluster_centers_
        self.store = DurableLedger.create(self.folder / "ledger.db")
        self.store.add("visits", 1000.0)

    @property
    def records(self) -> Path:
        return self.folder / "visits"

    def command(self, *options: str) -> list[str]:
        """A fit that writes a model."""
        command = [sys.executable, "-m", "dpkmeans", "fit", str(self.records), "--k", "4", "--bounds", "0:1"]
        command += ["--epsilon", "1", "--method", "su", "--force", "--out", str(self.folder / "model.json"), *options]
        if self.seeded:
            return [*command, "--seed", "3", "--guarantee", "none"]
        return [*command, "--ledger", str(self.store.path), "--dataset", "visits"]

    def spent(self) -> int:
        """What the ledger says, in nano."""
        return self.store.dataset("visits").spent.nano

    @property
    def seeded(self) -> bool:
        return self.fits % 2 == 1

    def fit(self, tally: Tally, *options: str, during: Callable[[subprocess.Popen[str]], None] | None = None) -> str:
        """Run a fit to its end, check what must never happen, and say how it ended."""
        self.fits += 1
        before, model = self.spent(), self.folder / "model.json"
        model.unlink(missing_ok=True)
        with open(self.folder / "stderr", "w+") as stderr:
            process = subprocess.Popen(self.command(*options), env=environment(), stdout=subprocess.DEVNULL,
                                       stderr=stderr, text=True)  # fmt: skip
            try:
                if during is not None:
                    during(process)
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                tally.must_not("hangs", happened=True, why=f"after {LIMIT:.0f} s")
            finally:
                process.kill()
                process.wait()
            stderr.seek(0)
            said = stderr.read()
        spent = self.spent() - before
        self._judge(tally, process.returncode, said, spent, model)
        return how_it_ended(process.returncode, said)

    def _judge(self, tally: Tally, code: int, said: str, spent: int, model: Path) -> None:
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        faulty = "Traceback" in said or "bug in dpkmeans" in said or (code > 0 and len(errors) != 1)
        tally.must_not("untyped", happened=faulty, why=said[-300:].replace("\n", " "))
        tally.must_not("lost_releases", happened=code == 0 and not model.exists())
        tally.must_not("lost_spends", happened=code == 0 and spent != (0 if self.seeded else COST))
        tally.must_not("lost_spends", happened=not self.store.verify().intact, why="chain broken")
        if code == 0 and self.seeded and model.exists():
            tally.must_not("wrong", happened=self.changed, why="of damaged records")
            centroids = Release.load(model).centroids
            tally.must_not("wrong", happened=not self.changed and not np.array_equal(centroids, self.expected))


def how_it_ended(code: int, said: str) -> str:
    if code == 0:
        return "right result"
    error = next((line for line in said.splitlines() if line.startswith("error: ")), "no error line")
    plain = re.sub(r"[0-9a-f]{16}|(tcp|spark)://[0-9.:]+|/\S*/(?=\S)", "…", error.removeprefix("error: "))
    return f"exit {code}: {plain.split('. ')[0]}"


@contextmanager
def case() -> Iterator[Case]:
    with TemporaryDirectory(prefix="chaos-") as folder:
        yield Case(Path(folder))


def environment(code: Path = SOURCE) -> dict[str, str]:
    return {**os.environ, **_spark_environment(), "PYTHONPATH": os.fspath(code)}


@cache
def _spark_environment() -> dict[str, str]:
    """What the scripts of Spark would set."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return {}
    home = Path(found.origin).parent
    scala = next((home / "jars").glob("spark-core_*.jar")).name.split("_")[1].split("-")[0]
    return {
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": scala,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def running(command: Sequence[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process with all that it starts, in a group of its own, ended at the end."""
    process = subprocess.Popen(
        command, env=env or environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group without a warning."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(true: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("a component of the cluster did not start")
        time.sleep(0.05)


# --- Dask -------------------------------------------------------------------------------------------


@dataclass
class Scheduler:
    """A Dask scheduler in a process of its own."""

    process: subprocess.Popen[bytes]
    address: str

    def n_workers(self) -> int:
        from distributed import Client

        with Client(self.address, set_as_default=False, timeout=60) as client:
            return len(client.nthreads())

    def until_workers(self, n: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False, timeout=60) as client:
            wait_until(lambda: len(client.nthreads()) == n)


@contextmanager
def dask_scheduler(folder: Path, *options: str, code: Path = SOURCE) -> Iterator[Scheduler]:
    file = folder / f"scheduler-{time.monotonic_ns()}.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    command += ["--no-dashboard", "--scheduler-file", str(file), *options]
    with running(command, environment(code)) as process:
        wait_until(lambda: file.exists() and file.stat().st_size)
        yield Scheduler(process, json.loads(file.read_text())["address"])


@contextmanager
def dask_worker(scheduler: Scheduler, *options: str, code: Path = SOURCE) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler.address, "--no-dashboard"]
    command += ["--nthreads", "1", "--host", "127.0.0.1", *options]
    with running(command, environment(code)) as process:
        yield process


# --- Spark ------------------------------------------------------------------------------------------


@contextmanager
def spark_master(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A standalone master; its address."""
    port = free_port()
    command = _spark("org.apache.spark.deploy.master.Master", folder, "--host", "127.0.0.1", "--port", str(port))
    with running([*command, "--webui-port", "0"]) as process:
        wait_until(lambda: listens(port))
        yield process, f"spark://127.0.0.1:{port}"


@contextmanager
def spark_worker(folder: Path, master: str, code: Path = SOURCE, cores: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """A standalone worker: the executors that it starts run `code`."""
    own = folder / f"worker-{time.monotonic_ns()}"
    own.mkdir()
    command = _spark("org.apache.spark.deploy.worker.Worker", own, "--host", "127.0.0.1", "--work-dir", str(own))
    command += ["--cores", str(cores), "--memory", "1g", "--webui-port", "0", master]
    with running(command, environment(code)) as process:
        yield process


def _spark(main: str, folder: Path, *options: str) -> list[str]:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars" / "*"
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    return [str(java), "-Xmx256m", "-cp", str(jars), f"-Djava.io.tmpdir={folder}", *_OPENS, main, *options]


_PACKAGES = ["lang", "lang.invoke", "net", "nio", "util", "util.concurrent"]
_OPENS = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _PACKAGES]
_OPENS += ["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED"]


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
