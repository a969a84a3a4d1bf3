"""The commands `dpkmeans synopsis` and `dpkmeans explore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs, engine_for, given_box, refuse_existing
from dpkmeans.cli.options import (
    ANY,
    OWN,
    ROW,
    UNSAID,
    BoxOptions,
    Clusters,
    Data,
    Delta,
    Flag,
    Force,
    GuaranteeName,
    Json,
    PublicCount,
    Reading,
    RhoBudget,
    Seed,
    Spending,
    UnitOptions,
)
from dpkmeans.cli.places import reserved, save
from dpkmeans.core.readable import identity_rows
from dpkmeans.core.rounding import number
from dpkmeans.engines.limits import check_memory
from dpkmeans.errors import MethodError
from dpkmeans.storage.outputs import is_stdout

if TYPE_CHECKING:
    from dpkmeans.synopsis.kmeans import Explored
    from dpkmeans.synopsis.synopsis import Synopsis

MAX_VALUES_OF_K = 1000


def synopsis(
    data: Data,
    /,
    *,
    out: Path,
    epsilon: float | None = None,
    delta: Delta = None,
    rho: RhoBudget = None,
    box: BoxOptions = UNSAID,
    k: Clusters = 8,
    guarantee: GuaranteeName = "proved",
    n_records: PublicCount = None,
    seed: Seed = None,
    unit: UnitOptions = ROW,
    reading: Reading = ANY,
    spending: Spending = OWN,
    force: Force = False,
    json: Flag = False,
) -> None:
    """Spend epsilon once on weighted points that summarise the records. Analysing them costs no further budget.

    Example: dpkmeans synopsis visits.csv --header --epsilon 1 --bounds 0:100 --k 8 --out visits.synopsis.json

    Parameters
    ----------
    epsilon:
        Privacy budget to spend.
    out:
        Write the synopsis to this file (JSON); - for standard output.
    k:
        The largest number of clusters that you expect to need.
    json:
        Print a description as JSON; the points are in the file.
    """
    given = given_box(box)
    check_outputs(out, inputs=(data, *spending.files()))
    refuse_existing(out, force=force)
    check_memory()
    from dpkmeans.session import FitRequest, run_synopsis
    from dpkmeans.storage.identity import signed

    request = FitRequest(
        n_clusters=k,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        **given,
        n_records=n_records,
        guarantee=guarantee,
        unit=unit.unit(),
        random_state=seed,
        ledger=spending.store(),
        dataset=spending.dataset,
        engine=engine_for(data),
    )
    key = spending.key()
    with reserved(out) as (place,):
        assert place is not None
        with output.status(f"Making a synopsis of {data}"):
            made = run_synopsis(request, reading.files(data))
        if key is not None:
            made = signed(made, key)
        saved = save(made.save, place, "synopsis", printed=False)
    if saved.error is not None:
        raise saved.error
    if saved.on_stdout:
        output.note("The synopsis is on standard output.")
        return
    print_synopsis(made, out, json=json)
    if json:
        return
    output.note(f"The synopsis is in {out}. Try: dpkmeans explore {out}")


def print_synopsis(made: Synopsis, file: Path | None = None, *, identity: bool = False, json: bool = False) -> None:
    """What a synopsis promises and holds, and on request which it is; its points are in the `file`."""
    if not json:
        output.print_lines([made.cost.statement(made.guarantee)])
        rows = [("points", f"{len(made.weights)} by a {made.kind}"), ("epsilon spent", made.cost.spent_in_words())]
        output.print_rows(rows + identity_rows(made.identity, made.guarantee) * identity)
        return
    from dpkmeans.storage.codec import encode_guarantee, encode_promise, encode_spends
    from dpkmeans.storage.identity import encode_identity

    output.print_json(
        {
            "synopsis": str(file),
            "identity": encode_identity(made.identity),
            "kind": made.kind,
            "points": len(made.weights),
            "guarantee": encode_guarantee(made.guarantee, made.cost),
            **encode_promise(made.epsilon_promised, made.delta, made.rho_promised),
            "epsilon_spent": made.epsilon_spent,
            "rho_spent": made.rho_spent,
            "spends": encode_spends(made.spends),
        }
    )


def explore(
    file: Path,
    /,
    *,
    k: Annotated[str, Parameter(name=["--k", "-k"])] = "2:20",
    out: Path | None = None,
    page: Path | None = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare numbers of clusters on a synopsis. Costs no privacy budget.

    A small cost and a silhouette near 1 are good. Both are computed on the synopsis, not on the records.

    Example: dpkmeans explore visits.synopsis.json --k 2:20 --page explore.html

    Parameters
    ----------
    file:
        Synopsis file from: dpkmeans synopsis --out.
    k:
        Numbers of clusters: 2:20 for 2 to 20, or separated by commas, as in 3,5,8.
    out:
        For a single k: write a model with that many clusters to this file (JSON).
    page:
        Write a page (HTML) on which anyone can choose k from 2 to 20 and watch the clusters form, offline.
    """
    from dpkmeans.synopsis.synopsis import Synopsis

    wanted = _numbers(k)
    if out is not None and len(wanted) != 1:
        raise MethodError("--out writes one model, so --k must be one number, as in --k 5.")
    check_outputs(out, page, inputs=(file,))
    refuse_existing(out, force=force)
    if page is not None:
        from dpkmeans.report import require

        require()
    loaded = Synopsis.load(file)
    found = _explored(loaded, wanted) if page is None else _with_page(loaded, page, wanted)
    if out is not None:
        loaded.fit(wanted[0]).save(out)
        if is_stdout(out):
            return
        output.note(f"The model is in {out}. Try: dpkmeans show {out} --verify")
    if json:
        listed = [{"k": f.k, "cost": f.cost, "silhouette": f.silhouette, "sizes": list(f.sizes)} for f in found]
        output.print_json(listed)
        return
    body = [
        [str(f.k), number(f.cost), f"{f.silhouette:.3f}", f"{f.sizes[0]:,.0f}", f"{f.sizes[-1]:,.0f}"] for f in found
    ]
    output.print_table(["k", "cost", "silhouette", "largest", "smallest"], body)


def _explored(loaded: Synopsis, wanted: list[int]) -> list[Explored]:
    """The numbers for each k, with a bar: large synopses and many clusters take minutes."""
    found: list[Explored] = []
    with output.progress("values of k") as report:
        for done, k in enumerate(wanted):
            report(done, len(wanted))
            found += loaded.explore([k])
    return found


def _with_page(loaded: Synopsis, page: Path, wanted: list[int]) -> list[Explored]:
    """Write the page; its numbers are those that the command prints, also for k that are not on it."""
    from dpkmeans.report.explorer import write_explorer

    with output.status(f"Computing the page {page}"):
        rows = {row.k: row for row in write_explorer(loaded, page, wanted[0] if len(wanted) == 1 else 5)}
    output.note(f"The page is in {page}")
    more = _explored(loaded, [k for k in wanted if k not in rows])
    return [rows[k] for k in wanted if k in rows] + more


def _numbers(text: str) -> list[int]:
    """The numbers of `2:20` (both ends included) or `3,5,8`."""
    try:
        if ":" in text:
            low, high = map(int, text.split(":"))
            numbers = list(range(low, min(high, low + MAX_VALUES_OF_K) + 1))
        else:
            numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= MAX_VALUES_OF_K:
        raise MethodError(f"--k cannot be read; got {text!r}. Write 2:20 for 2 to 20, or 3,5,8.")
    return numbers
