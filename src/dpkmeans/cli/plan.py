"""The command `plan`: what to expect, before anything is spent and without any record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dpkmeans.cli import output
from dpkmeans.cli.options import Clusters, Json, Whole, WholeOrNone
from dpkmeans.core.epsilon import format_epsilon

if TYPE_CHECKING:
    from dpkmeans.planning.advice import Needed


def plan(
    *,
    records: Whole,
    features: Whole,
    k: Clusters = 8,
    epsilon: Annotated[tuple[float, ...], Parameter(consume_multiple=True)] = (0.1, 0.5, 1.0, 2.0),
    bounds: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    spread: float | None = None,
    rows_per_person: WholeOrNone = None,
    delta: float | None = None,
    loss_at_most: str | None = None,
    json: Json = False,
) -> None:
    """Predict the loss of each method before anything is spent. Reads no data.

    Example: dpkmeans plan --records 50000 --features 4 --k 8 --epsilon 0.1 0.5 1 2

    Parameters
    ----------
    records:
        Approximate number of records: a public number or a guess, not an exact count of private records.
    features:
        Number of features.
    k:
        Number of clusters.
    epsilon:
        One or more budgets to compare.
    bounds:
        The public box, as in fit; shows the noise in the units of the data.
    spread:
        A guess of how far records lie from the centre of their cluster in one feature, as a share of the box's side,
        such as 0.05. It must not come from the records. Narrows the prediction.
    rows_per_person:
        Also show the loss when persons with this many rows each are protected, for each way to reduce their rows.
    delta:
        Also show how many clusters can be told from Gaussian noise under (epsilon, delta), as in fit --delta with many
        features.
    loss_at_most:
        The reverse: show which epsilon is needed for this loss, such as 2%, and how certain that is.
    """
    from dpkmeans.cli.inputs import parse_bounds, sides
    from dpkmeans.core.bounds import Bounds
    from dpkmeans.errors import BoundsError
    from dpkmeans.planning.advice import epsilon_for, gaussian_signals, person_costs, recommend_gaussian
    from dpkmeans.planning.advice import plan as make_plan
    from dpkmeans.planning.loss_model import MAX_FEATURES
    from dpkmeans.wide.choice import are_many

    pairs = None
    if bounds is not None:
        parsed = parse_bounds(bounds)
        if isinstance(parsed, str):
            raise BoundsError("plan reads no data; give --bounds as numbers, such as 0:1.")
        pairs = list(parsed.values()) if isinstance(parsed, dict) else parsed
        Bounds.check(sides(pairs), features)
        pairs = pairs * features if len(pairs) == 1 else pairs
    advice = make_plan(records, features, k, epsilon, pairs, spread=spread)
    if rows_per_person is not None:
        advice = replace(advice, persons=person_costs(records, features, k, epsilon, rows_per_person))
    if delta is not None:
        advice = replace(advice, signals=gaussian_signals(records, features, k, epsilon, delta))
        if are_many(features):
            advice = replace(advice, recommendation=recommend_gaussian(advice.signals, k))
    if loss_at_most is not None:
        wanted = _share(loss_at_most)
        advice = replace(advice, needed=epsilon_for(records, features, k, wanted, spread=spread))
        advice = replace(advice, recommendation=_answer(advice.needed, wanted))
    if json:
        output.print_json(asdict(advice))
        return
    body = [
        [format_epsilon(e.epsilon), e.method, _percent(e.loss), f"{_percent(e.low)} to {_percent(e.high)}"]
        for e in advice.expectations
    ]
    output.print_table(["epsilon", "method", "expected loss", "eight of ten within"], body)
    if advice.noise:
        rows = [[format_epsilon(n.epsilon), str(n.feature), f"{n.deviation:.3g}"] for n in advice.noise]
        output.print_table(["epsilon", "feature", "noise on a mean (units of the data)"], rows)
    if advice.persons:
        costs = [
            [format_epsilon(c.epsilon), c.keep, str(c.records), format_epsilon(c.epsilon_per_record), _percent(c.loss)]
            for c in advice.persons
        ]
        output.print_table(["epsilon", "per person", "records", "epsilon per record", "expected loss"], costs)
        output.note("The table above is per person, the first one per row. See docs/persons.md for which to choose.")
    if advice.signals:
        told = [
            [format_epsilon(s.epsilon), f"{s.signal:.2g}", f"{s.clusters} of {k}", str(s.records)]
            for s in advice.signals
        ]
        output.print_table(["epsilon", "signal with delta", "clusters that can be told apart", "records for all"], told)
        output.note("Signal: records / (k * noise * sqrt(features)). A fit warns below 2. More records, a larger")
        output.note("epsilon, fewer clusters or fewer features help. The first table is for pure epsilon.")
    if advice.needed:
        answers = [[f"{n.sure:.0%}", _or_none(n.epsilon)] for n in advice.needed]
        output.print_table(["certainty", f"epsilon for a loss of at most {loss_at_most}"], answers)
    output.print_lines([advice.recommendation])
    output.note("Loss: cost over the best non-private cost, minus 1. From a model of synthetic sets; yours may differ.")
    if features > MAX_FEATURES:
        output.note(f"The model knows up to {MAX_FEATURES} features; for {features} the first table is a guess.")
    if spread is None:
        output.note("The ranges are narrower if you can guess how wide the clusters are: --spread 0.05, for example.")


def _share(text: str) -> float:
    """A loss that was written as a share or with a percent sign."""
    from dpkmeans.errors import MethodError

    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        return float(number) / (100 if percent else 1)
    except ValueError:
        raise MethodError(f"--loss-at-most must be a share such as 2% or 0.02; got {text!r:.40}.") from None


def _or_none(epsilon: float | None) -> str:
    return "none up to 5" if epsilon is None else format_epsilon(epsilon)


def _answer(needed: Sequence[Needed], loss: float) -> str:
    """The answer in one sentence: the epsilon that does in eight of ten cases, or why there is none."""
    even, likely, goal = needed[0].epsilon, needed[1].epsilon, f"a loss of at most {100 * loss:.3g} %"
    if even is None:
        return f"No epsilon up to 5 leads to {goal}. Use fewer clusters, or more records."
    odds = f"{format_epsilon(even)} does in half of all cases"
    if likely is None:
        return f"No epsilon up to 5 leads to {goal} in eight of ten cases; {odds}."
    return f"Use epsilon {format_epsilon(likely)}: it leads to {goal} in eight of ten cases; {odds}."


def _percent(loss: float) -> str:
    from dpkmeans.planning.loss_model import MIN_LOSS

    if loss < 1.05 * MIN_LOSS:
        return f"below {MIN_LOSS:.1%}".replace("%", " %")
    return f"{100 * loss:.2g} %" if loss < 1 else f"{1 + loss:.2g} times" if loss < 100 else "useless"
