from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import dpkmeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.guarantee import LABELS, Claim, Guarantee, as_label, check_accepted, guarantee_of, weakest
from dpkmeans.errors import GuaranteeError
from dpkmeans.privacy.randomness import Randomness

BOX = Bounds.of((0, 1), 1)
READ = Bounds((0.0,), (1.0,), from_data=True)


def test_labels_run_from_weak_to_strong():
    assert LABELS == ("none", "paper", "proved")


@pytest.mark.parametrize(("a", "b"), list(itertools.product(LABELS, LABELS)))
def test_the_weakest_of_two_labels_comes_first_in_the_list(a, b):
    assert weakest(a, b) == LABELS[min(LABELS.index(a), LABELS.index(b))]


@pytest.mark.parametrize("label", ["Proved", "", "strong", None, 1])
def test_an_unknown_label_is_refused(label):
    with pytest.raises(GuaranteeError, match="'proved', 'paper', 'none'"):
        as_label(label)


@pytest.mark.parametrize(("offered", "accepted"), list(itertools.product(LABELS, LABELS)))
def test_a_result_is_refused_only_if_it_is_weaker_than_accepted(offered, accepted):
    guarantee = Guarantee(offered, reasons=("Because.",))
    if LABELS.index(offered) >= LABELS.index(accepted):
        check_accepted(guarantee, accepted)
    else:
        with pytest.raises(GuaranteeError) as caught:
            check_accepted(guarantee, accepted)
        assert f"guarantee={offered!r}" in str(caught.value)
        assert repr(accepted) in str(caught.value)
        assert "Because." in str(caught.value)


@pytest.mark.parametrize("claim", [Claim.PROVED, Claim.PAPER, Claim.NONE])
def test_a_claim_holds_with_given_bounds_and_secure_noise(claim):
    found = guarantee_of(claim, BOX, Randomness.secure())
    assert (found.label, found.bounds, found.seeded) == (claim.label, "given", False)
    assert found.reasons == claim.reasons


@pytest.mark.parametrize("claim", [Claim.PROVED, Claim.PAPER, Claim.NONE])
def test_a_seed_makes_any_claim_none_and_says_so(claim):
    found = guarantee_of(claim, BOX, Randomness.with_seed(0))
    assert (found.label, found.seeded) == ("none", True)
    assert any("random_state" in reason for reason in found.reasons)


@pytest.mark.parametrize("claim", [Claim.PROVED, Claim.PAPER, Claim.NONE])
def test_bounds_from_the_data_make_any_claim_none_and_say_so(claim):
    found = guarantee_of(claim, READ, Randomness.secure())
    assert (found.label, found.bounds) == ("none", "from data")
    assert any("bounds" in reason for reason in found.reasons)


def test_words_say_what_holds():
    assert Guarantee("proved").in_words(0.5).startswith("Proved: 0.5-differential privacy")
    assert "(1 for one replaced)" in Guarantee("proved").in_words(0.5)
    assert Guarantee("paper").in_words(0.5).startswith("Not proved")
    assert Guarantee("none", reasons=("Why.",)).in_words(0.5) == "Not private. Why."


def test_the_sentence_never_names_a_smaller_epsilon_than_was_spent():
    assert "1.0000049-differential privacy" in Guarantee("proved").in_words(1.0000049)
    assert "(2.0000098 for one replaced)" in Guarantee("proved").in_words(1.0000049)
    assert "claims epsilon = 0.123456789," in Guarantee("paper").in_words(0.123456789)


def test_no_line_of_the_package_prints_an_epsilon_rounded():
    rounds = re.compile(r"(epsilon|claimed)[\w.\]\[()\"']*(:[.\d]*[gf]\}| \| short)")
    for path in (p for end in ("*.py", "*.jinja") for p in Path(dpkmeans.__file__).parent.rglob(end)):
        assert not rounds.search(path.read_text("utf-8")), path.name
