from __future__ import annotations

from pathlib import Path

import pytest
from tools.audit_table import BEGIN, END, KIND, VERSION, main

from dpkmeans.audit import audit, registered_target, targets_of
from dpkmeans.audit.neighbours import duplicate
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


def test_the_page_says_that_finding_nothing_proves_nothing():
    text = PAGE.read_text("utf-8")
    assert "Finding no violation proves nothing" in text
    assert BEGIN in text
    assert END in text
