from __future__ import annotations

from pathlib import Path

import pytest
from tools import audit_page, replay_table
from tools.audit_page import Piece
from tools.audit_table import BEGIN, END, KIND, VERSION, main

from dpkmeans.audit import audit, registered_target, targets_of
from dpkmeans.audit.neighbours import duplicate
from dpkmeans.audit.replay_summary import summary_of, tightest
from dpkmeans.audit.replay_targets import names, replays_of
from dpkmeans.engines.same_code import Code
from dpkmeans.errors import FileError
from dpkmeans.methods.registry import registry
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.storage.json_files import write_json

PAGE = Path(__file__).resolve().parents[1] / "docs" / "audit.md"


def test_the_table_goes_between_its_marks_and_leaves_the_rest_of_the_page_alone(tmp_path):
    targets = (*targets_of("laplace", 1.0), registered_target(registry()["posterior"], 1.0, [duplicate()]))
    report = audit(targets, runs=200, rng=Randomness.with_seed(1))
    file, page = tmp_path / "audit.json", tmp_path / "page.md"
    write_json(file, KIND, VERSION, report.to_dict())
    page.write_text(f"before\n{BEGIN}\nan earlier one\n{END}\nafter\n", "utf-8")
    main(str(file), str(page))
    text = page.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "an earlier one" not in text
    assert "| posterior (1) | paper | duplicate | ray of a centroid |" in text
    page.write_text("no marks", "utf-8")
    with pytest.raises(FileError, match="must hold the lines"):
        main(str(file), str(page))


def test_replays_become_a_line_for_each_method_and_one_for_each_question(tmp_path):
    row = summary_of(tightest("su", list(replays_of("su", 2, 1.0))))
    file, page = tmp_path / "replay.json", tmp_path / "page.md"
    write_json(file, replay_table.KIND, replay_table.VERSION, {"methods": [row, {**row, "method": "other"}]})
    marks = [f"<!-- {mark}: {end} -->" for mark in ("replay", "questions") for end in ("begin", "end")]
    page.write_text("\n".join(marks), "utf-8")
    replay_table.main(str(page), str(file))
    text = page.read_text("utf-8")
    assert f"| `su` | 2 | {row['calls']} | 0 | " in text
    assert "| `su`, `other` | `Laplace` | step: counts | " in text
    assert [replay_table.share(value) for value in (1.0, 0.99999999, 0.63)] == ["1.000: tight", "0.999999", "0.630"]


def test_the_page_shows_a_thousand_pairs_of_every_proved_method_and_none_above_its_budget():
    page = PAGE.read_text("utf-8")
    text = page.split("<!-- replay: begin -->")[1].split("<!-- replay: end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert {row[0].strip("`") for row in rows} == set(names())
    assert all(int(row[1]) >= 1000 and row[3] == "0" for row in rows)


def test_an_audit_that_was_stopped_goes_on_with_what_is_missing_and_names_what_is_of_earlier_code(
    tmp_path, monkeypatch
):
    ran = []

    def piece(name: str) -> Piece:
        def run():
            ran.append(name)
            if len(ran) == 2:
                raise KeyboardInterrupt
            return {"name": name, "cases": 3, "share": 0.5}

        return Piece("climb", name, run)

    monkeypatch.setattr(audit_page, "pieces", lambda pairs: [piece("first"), piece("second one")])
    page = tmp_path / "page.md"
    marks = [f"<!-- {mark}: {end} -->" for mark in ("versions", "climb") for end in ("begin", "end")]
    page.write_text("\n".join(marks), "utf-8")
    options = {"pairs": 1, "minutes": 10.0, "only": []}
    with pytest.raises(KeyboardInterrupt):
        audit_page.run(str(page), tmp_path / "kept", **options)
    assert "| `first` |" not in page.read_text("utf-8")
    assert [p.name for p in audit_page.run(str(page), tmp_path / "kept", **{**options, "minutes": 0.0})] == [
        "second one"
    ]
    assert "the whole table of the search" in page.read_text("utf-8")
    monkeypatch.setattr(audit_page, "code_here", lambda: Code("1", "other"))
    assert audit_page.run(str(page), tmp_path / "kept", **options) == []
    assert ran == ["first", "second one", "second one"]
    text = page.read_text("utf-8")
    assert "| `first` | 3 | 0.500 |\n| `second one` | 3 | 0.500 |" in text
    assert "earlier versions of the code: in the search: `first`.\n" in text


def test_a_part_of_an_audit_takes_its_bounds_at_the_level_of_the_whole():
    (target,) = targets_of("laplace", 1.0)
    alone, part = (audit([target], runs=2000, rng=Randomness.with_seed(1), events=n) for n in (None, 10_000))
    assert alone.findings[0].p == part.findings[0].p
    assert alone.findings[0].bound > part.findings[0].bound > 0


def test_the_page_says_that_finding_nothing_proves_nothing():
    text = PAGE.read_text("utf-8")
    assert "Finding no violation proves nothing" in text
    assert BEGIN in text
    assert END in text
