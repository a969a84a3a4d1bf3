"""Options that several commands share."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token

from dpkmeans.cli import output
from dpkmeans.errors import MethodError

if TYPE_CHECKING:
    from dpkmeans.core.unit import Unit
    from dpkmeans.data.source import Files
    from dpkmeans.engines.open import EngineSpec
    from dpkmeans.privacy.durable.ledger import DurableLedger
    from dpkmeans.storage.keys import SigningKey

DATA_HELP = "CSV (also .gz, .zst) or Parquet: a file, a folder, or a pattern in quotes such as 'visits/*.parquet'."
BOUNDS_HELP = (
    "Public bounds, known without looking at the data: by name, as in age=0:120,income=0:2e5, which also chooses the "
    'columns; LOW:HIGH for all features, as in 0:1; or one pair per feature, as in 0:10,-5:5. Write "from data" to '
    "read them from the records, which makes the result not private."
)
SCHEMA_HELP = (
    "Instead of --bounds: a TOML file with the columns to use, their kinds (number, date, time, boolean, category, "
    "vector) and bounds. A first one is written by: dpkmeans schema DATA."
)
SCALE_HELP = (
    "box: every feature has the same weight, whatever its width. none: keep the units. Or weights by name on top of "
    "box, as in age=2. By default units are kept, and widths that differ more than tenfold are refused."
)
MAX_NORM_HELP = "Instead of --bounds: the largest norm that a record can have; longer ones are shortened to it."
NORMALIZE_HELP = "Instead of --bounds: scale every record to norm 1, so only its direction counts."

DELTA_HELP = (
    "Allow Gaussian noise, for (epsilon, delta)-differential privacy. Choose it well below one over the number of "
    "records, such as 1e-6. Methods without Gaussian noise do not use it."
)
RHO_HELP = "Instead of --epsilon: a budget for zero-concentrated differential privacy (zCDP)."


def _whole(_: object, tokens: Sequence[Token]) -> int:
    """A whole number as it is written; by itself the parser would round a fraction."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"it must be a whole number; got {tokens[0].value!r}.") from None


WHOLE = Parameter(converter=_whole)
SchemaFile = Annotated[Path | None, Parameter(help=SCHEMA_HELP)]
ScaleText = Annotated[str | None, Parameter(help=SCALE_HELP)]
BoundsText = Annotated[str | None, Parameter(allow_leading_hyphen=True, help=BOUNDS_HELP)]
Delta = Annotated[float | None, Parameter(help=DELTA_HELP)]
RhoBudget = Annotated[float | None, Parameter(help=RHO_HELP)]
Clusters = Annotated[int, WHOLE, Parameter(name=["--k", "-k"])]
Data = Annotated[Path, Parameter(help=DATA_HELP)]
MaxNorm = Annotated[float | None, Parameter(help=MAX_NORM_HELP)]
Normalize = Annotated[bool, Parameter(show_default=False, negative="", help=NORMALIZE_HELP)]
Flag = Annotated[bool, Parameter(show_default=False)]
Force = Annotated[bool, Parameter(show_default=False, help="Replace files that exist already.")]
GuaranteeName = Annotated[Literal["proved", "paper", "none"], Parameter(help="The weakest guarantee to accept.")]
Header = Annotated[bool | None, Parameter(name="--header", negative="--no-header")]
Jobs = Annotated[int | None, WHOLE, Parameter(help="Number of processes; one per core by default.")]
Json = Annotated[bool, Parameter(show_default=False, help="Print the result as JSON.")]
PublicCount = Annotated[int | None, WHOLE, Parameter(help="Number of records, if it is public.")]
Seed = Annotated[int | None, WHOLE, Parameter(help="Make the run repeatable and not private; needs --guarantee none.")]
Whole = Annotated[int, WHOLE]
WholeOrNone = Annotated[int | None, WHOLE]

NullsName = Literal["refuse", "midpoint"]
KeepName = Literal["rows", "mean", "one"]
MissingIdsName = Literal["refuse", "own"]
EngineName = Literal["memory", "stream", "dask", "spark"]


@Parameter(name="*")
@dataclass(frozen=True)
class BoxOptions:
    """The public box in which records lie, and how its sides are scaled."""

    bounds: BoundsText = None
    max_norm: MaxNorm = None
    normalize: Normalize = False
    schema: SchemaFile = None
    scale: ScaleText = None


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How files are read."""

    columns: str | None = None
    """Columns to use, in this order, separated by commas: names, or numbers from 0 if there is no header."""

    header: Header = None
    """Whether the first row of a CSV file holds names. Never guessed; names in --columns imply that it does."""

    nulls: NullsName = "refuse"
    """Missing values: refuse them, or replace them with the middle of the bounds."""

    delimiter: str = ","
    """Separator of cells in a CSV file: one character, or tab."""

    decimal: str = "."
    """Decimal mark of numbers in a CSV file: a point or a comma."""

    encoding: str = "utf-8"
    """Character encoding of a CSV file, such as latin-1, cp1252 or utf-16."""

    quote: str = '"'
    """Quote character of a CSV file: one character, or none."""

    def files(self, path: Path, columns: Sequence[str] | None = None) -> Files:
        """The files of `path`, read in this way, in the columns of --columns, or else in `columns`."""
        from dpkmeans.data.source import Files

        chosen = columns if self.columns is None else split_columns(self.columns)
        how = {"delimiter": self.delimiter, "decimal": self.decimal, "encoding": self.encoding, "quote": self.quote}
        return Files(path, None if chosen is None else tuple(chosen), self.nulls, self.header, **how)

    def arguments(self) -> list[str]:
        """The options that say how a CSV file is written, as they would be typed, but for defaults."""
        usual = Reading()
        given = [(name, getattr(self, name)) for name in ("delimiter", "decimal", "encoding", "quote")]
        return [word for name, value in given if value != getattr(usual, name) for word in (f"--{name}", value)]


@Parameter(name="*")
@dataclass(frozen=True)
class UnitOptions:
    """What is protected: a row, or all rows of a person."""

    person: str | None = None
    """Column with the ids of persons: protect all rows of a person, not a single row."""

    at_most: str | None = None
    """How many rows of a person count, or auto (spends 2 % of epsilon). Without --person: the most that anybody has."""

    per_person: KeepName | None = None
    """What to keep of a person: up to --at-most rows, the mean of all rows, or one row."""

    missing_ids: MissingIdsName = "refuse"
    """Rows without an id: refuse them, or count each as a separate person."""

    def unit(self) -> Unit:
        """The privacy unit that the options describe."""
        from dpkmeans.core.unit import Person, Row, Rows

        at_most: Any = self.at_most
        if at_most is not None and at_most != "auto":
            try:
                at_most = int(at_most)
            except ValueError:
                raise MethodError(f"--at-most must be a whole number or auto; got {at_most!r}.") from None
        if self.person is not None:
            return Person(self.person, at_most, self.per_person or "rows", self.missing_ids)
        if self.per_person is not None or self.missing_ids != "refuse" or at_most == "auto":
            raise MethodError("--per-person, --missing-ids and --at-most auto need ids. Write --person ID too.")
        return Row() if at_most is None else Rows(at_most)


@Parameter(name="*")
@dataclass(frozen=True)
class Spending:
    """The budget to spend from."""

    ledger: Path | None = None
    """Durable ledger from: dpkmeans ledger create. Spends are written to it before any noise is drawn."""

    dataset: str | None = None
    """Name of these records in the ledger."""

    analyst: str | None = None
    """Name to record with the spends; by default your user name."""

    sign: Path | None = None
    """Private key from: dpkmeans key create. Signs what is released, and the entries of a ledger signed by it."""

    def files(self) -> tuple[Path, ...]:
        """The files of the ledger and the key, where there are some: no output may replace them."""
        return tuple(file for file in (self.ledger, self.sign) if file is not None)

    def key(self) -> SigningKey | None:
        """The private key, if there is one; read before anything is spent."""
        from dpkmeans.storage.keys import SigningKey

        return None if self.sign is None else SigningKey.read(self.sign)

    def store(self) -> DurableLedger | None:
        """The durable ledger, if there is one."""
        if self.ledger is None:
            return None
        from dpkmeans.privacy.durable.ledger import DurableLedger

        return DurableLedger(self.ledger, analyst=self.analyst, key=self.key())


@Parameter(name="*")
@dataclass(frozen=True)
class EngineOptions:
    """Where the work is done."""

    engine: EngineName | None = None
    """Where the work is done. By default one small file is held in memory, and all else is streamed."""

    scheduler: str | None = None
    """Address of a Dask scheduler (tcp://...) or a Spark master. By default, workers are started on this machine."""

    workers: WholeOrNone = None
    """Number of worker processes to start on this machine (dask, spark)."""

    memory: str | None = None
    """Memory limit of each of these workers, such as 500MB."""

    worker_timeout: float | None = None
    """Seconds to wait when there is no worker (dask, spark); 60 by default."""

    def to_spec(self) -> EngineSpec:
        """The engine that the options describe; None where it is left to the size of the files."""
        from dpkmeans.engines.config import Dask, Spark, Stream

        options = {name: value for name, value in vars(self).items() if name != "engine" and value is not None}
        if self.engine not in ("dask", "spark") and options:
            given = ", ".join(f"--{name.replace('_', '-')}" for name in options)
            raise MethodError(
                f"only --engine dask and --engine spark take {given}. Write one of them too, or leave it out."
            )
        if self.workers is not None and self.workers < 1:
            raise MethodError(f"--workers must be at least 1; got {self.workers}.")
        if self.memory is not None and not re.fullmatch(r"\d+(\.\d+)?\s*([kKmMgGtT][iI]?)?[bB]?", self.memory):
            raise MethodError(f"--memory must be a size such as 500MB or 2GB; got {self.memory!r}.")
        if self.worker_timeout is not None and not self.worker_timeout >= 0:
            raise MethodError(f"--worker-timeout must be a number of seconds; got {self.worker_timeout:g}.")
        if self.engine == "dask":
            return Dask(**options, watch=output.show_pass)
        if self.engine == "spark":
            master = options.pop("scheduler", None)
            return Spark(master=master, **options, watch=output.show_pass)
        return Stream(watch=output.show_pass) if self.engine == "stream" else self.engine


ANY, OWN, LOCAL, ROW, UNSAID = Reading(), Spending(), EngineOptions(), UnitOptions(), BoxOptions()


def split_columns(columns: str) -> list[str]:
    """Names between commas; a name that holds a comma stands in double quotes."""
    try:
        return [name.strip() for name in next(csv.reader([columns], skipinitialspace=True), [])]
    except csv.Error:
        raise MethodError(
            f"names between commas cannot be read from {columns!r:.80}. Write, say, age,income; a name with a comma or "
            "a line break stands in double quotes."
        ) from None


def all_cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0))
