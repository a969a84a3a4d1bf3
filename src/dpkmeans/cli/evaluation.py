"""The commands that ask about a model and records, each for a share of epsilon: `quality` and `profile`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dpkmeans.cli import output
from dpkmeans.cli.inputs import engine_for
from dpkmeans.cli.model import ModelFile
from dpkmeans.cli.options import (
    ANY,
    LOCAL,
    OWN,
    Data,
    EngineOptions,
    GuaranteeName,
    Json,
    Reading,
    SchemaFile,
    Seed,
    Spending,
    split_columns,
)
from dpkmeans.engines.limits import check_memory
from dpkmeans.errors import MethodError, SchemaError

if TYPE_CHECKING:
    from dpkmeans.evaluation.answers import Profile, Quality
    from dpkmeans.evaluation.asking import Asking

Bins = Annotated[str, Parameter(help="How many ranges, or edges by name, as in age=0:18:65:120,income=20.")]


def quality(
    model: ModelFile,
    data: Data,
    /,
    *,
    epsilon: float | None = None,
    guarantee: GuaranteeName = "proved",
    seed: Seed = None,
    reading: Reading = ANY,
    spending: Spending = OWN,
    place: EngineOptions = LOCAL,
    json: Json = False,
) -> None:
    """Measure how well the centroids of a model fit records: a private cost and simplified silhouette.

    The unit, the bounds and the columns are those of the model.

    Example: dpkmeans quality model.json visits.csv --epsilon 0.1 --ledger ledger.db --dataset visits

    Parameters
    ----------
    epsilon:
        Privacy budget of the answer, in addition to that of the model.
    """
    from dpkmeans.core.release import Release

    how = _how(data, guarantee, seed, spending, place)
    release, share = Release.load(model), _given(epsilon)
    with output.status(f"Comparing {model} with {data}", line=False):
        found = release.quality(reading.files(data), share, **how)
    _print(found, json)
    if not json:
        output.print_table(["", "with 95 % confidence"], found.rows())


def profile(
    model: ModelFile,
    data: Data,
    /,
    *,
    epsilon: float | None = None,
    schema: SchemaFile = None,
    bins: Bins = "10",
    guarantee: GuaranteeName = "proved",
    seed: Seed = None,
    reading: Reading = ANY,
    spending: Spending = OWN,
    place: EngineOptions = LOCAL,
    json: Json = False,
) -> None:
    """Count records by cluster and by other columns: private histograms of the columns named with --columns.

    Kinds, levels and bounds of columns that the model does not have come from --schema. The unit is that of the model.

    Example: dpkmeans profile model.json visits.csv --columns region,age --schema other.toml --epsilon 0.2

    Parameters
    ----------
    epsilon:
        Privacy budget of the answer, in addition to that of the model; all columns share it.
    """
    from dpkmeans.core.release import Release

    how = _how(data, guarantee, seed, spending, place)
    files = replace(reading.files(data), columns=None)
    names = None if reading.columns is None else split_columns(reading.columns)
    release = Release.load(model)
    asked = _columns(names, schema, () if release.schema is None else release.schema.names)
    share, edges = _given(epsilon), _bins(bins)
    with output.status(f"Counting the records of {data}", line=False):
        found = release.profile(files, asked, share, bins=edges, **how)
    _print(found, json)
    if json:
        return
    for name, column in found.columns.items():
        output.print_lines([f"{name}: noisy numbers of records, each ± {column.margin:,} with 95 % confidence"])
        rows = ([str(i), *(f"{count:,}" for count in row)] for i, row in enumerate(column.counts.tolist()))
        output.print_table(["cluster", *column.bins], list(rows))


def _how(data: Path, guarantee: GuaranteeName, seed: int | None, spending: Spending, place: EngineOptions) -> Asking:
    if spending.sign is not None and spending.ledger is None:
        raise MethodError("--sign signs the entries of a ledger here. Write --ledger too, or leave it out.")
    spec = place.to_spec()
    check_memory()
    return {
        "ledger": spending.store(),
        "dataset": spending.dataset,
        "guarantee": guarantee,
        "engine": engine_for(data) if spec is None else spec,
        "random_state": seed,
    }


def _given(epsilon: float | None) -> Any:
    if epsilon is None:
        raise MethodError("--epsilon is missing. Write, say, --epsilon 0.1.")
    return epsilon


def _columns(names: list[str] | None, schema: Path | None, features: tuple[str, ...]) -> Any:
    """The columns that are asked for: names of the model's own, or those with their kinds in the schema."""
    if schema is None:
        if names is None:
            raise MethodError("nothing says which columns to count. Write, say, --columns region.")
        return names
    from dpkmeans.storage.schema_files import read_schema

    kinds = {column.name: column.kind for column in read_schema(schema).columns}
    chosen = [name for name in kinds if name not in features] if names is None else names
    unknown = next((name for name in chosen if name not in kinds), None)
    if unknown is not None:
        raise SchemaError(f"{schema} has no column {unknown!r}. Add it with its kind.")
    return {name: kinds[name] for name in chosen}


def _bins(text: str) -> Any:
    """A number of ranges, or edges by name.

    >>> _bins("10"), _bins("age=0:18:65,income=20")
    (10, {'age': [0.0, 18.0, 65.0], 'income': 20})
    """
    try:
        if "=" not in text:
            return int(text)
        named = (part.split("=", 1) for part in split_columns(text))
        return {
            name.strip(): [float(edge) for edge in edges.split(":")] if ":" in edges else int(edges)
            for name, edges in named
        }
    except ValueError:
        raise MethodError(
            f"--bins must be a whole number, or edges by name such as age=0:18:65:120; got {text!r}."
        ) from None


def _print(found: Quality | Profile, json: bool) -> None:
    if json:
        output.print_json(found.to_dict())
        return
    output.print_guarantee(found)
