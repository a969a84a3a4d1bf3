"""A claim is derived from the parts that are really there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpkmeans import DPKMeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim, claim_of
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import GuaranteeError
from dpkmeans.methods.gupt import Gupt, gupt
from dpkmeans.methods.lloyd import lloyd
from dpkmeans.methods.loop.budgets import EvenSplit
from dpkmeans.methods.loop.final_steps import AsIs, NoisyCountMean
from dpkmeans.methods.loop.initializers import SampledRows, UniformInBox
from dpkmeans.methods.loop.solver import IterativeMethod
from dpkmeans.methods.loop.stopping import AfterPlan, Repeats
from dpkmeans.methods.loop.updates import ExactMean, LocalNoisyMean, NoisyMean
from dpkmeans.methods.lu_shen.strategies import posterior
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling
from dpkmeans.methods.noisy_lloyd import blum, su
from dpkmeans.methods.privgene import privgene
from dpkmeans.methods.record_count import NotNeeded
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness, SecureNoise
from dpkmeans.synopsis.grid import Grid
from dpkmeans.synopsis.method import eugkm, synopsis

X = np.random.default_rng(0).random((200, 2))
SOUND = {
    "update": NoisyMean,
    "final": AsIs,
    "stop": AfterPlan,
    "schedule": EvenSplit,
    "init": UniformInBox,
    "record_count": NotNeeded,
}


@pytest.mark.parametrize(
    ("part", "value", "label"),
    [
        ("update", ExactMean(), "none"),
        ("update", LocalNoisyMean(), "paper"),
        ("update", ZoneSampling(Controller.POSTERIOR), "paper"),
        ("stop", Repeats(), "paper"),
        ("init", SampledRows(), "paper"),
        ("final", NoisyCountMean(Epsilon.of(0.1)), "paper"),
    ],
)
def test_whoever_swaps_a_part_gets_the_label_of_what_is_there(part, value, label):
    swapped = replace(blum(), **{part: value})
    assert blum().claim.label == "proved"
    assert swapped.claim.label == label
    assert swapped.claim.reasons == value.claim.reasons


def test_a_method_that_spends_nothing_is_not_proved_and_no_longer_fits_as_if_it_were():
    swapped = replace(blum(), update=ExactMean())
    with pytest.raises(GuaranteeError, match="adds no noise"):
        DPKMeans(3, epsilon=1.0, method=swapped, bounds=(0, 1)).fit(X)
    release = DPKMeans(3, epsilon=1.0, method=swapped, bounds=(0, 1), guarantee="none").fit(X).release_
    assert (release.guarantee.label, release.epsilon_spent) == ("none", 0)


@pytest.mark.parametrize("part", SOUND)
def test_a_part_that_says_nothing_supports_nothing(part):
    class Stranger:
        pass

    class Heir(SOUND[part]):  # type: ignore[misc, valid-type]
        """May do something else than its base; so it has to say it anew."""

    @dataclass(frozen=True)
    class Vague:
        claim = "proved"

    for value in (Stranger(), Heir(), Vague()):
        claim = replace(blum(), **{part: value}).claim
        assert (claim.label, claim.arithmetic) == ("none", "floating point")
        assert type(value).__name__ in claim.reasons[0]


@pytest.mark.parametrize("method", [su(), gupt(), privgene(), synopsis()], ids=lambda method: method.name)
def test_every_method_looks_at_where_its_number_of_records_comes_from(method):
    class ReadsIt:
        pass

    assert method.claim.label == "proved"
    assert replace(method, record_count=ReadsIt()).claim.label == "none"


def test_a_synopsis_looks_at_its_builder():
    class Leaks(Grid):
        pass

    assert eugkm().claim.label == "proved"
    assert replace(eugkm(), builder=Leaks()).claim.label == "none"


def test_a_method_that_inherits_its_claim_has_none():
    class Leaks(Gupt):
        def run(self, engine, n_clusters, *, ledger, rng):
            raise AssertionError("not to be run")

    with pytest.raises(GuaranteeError, match="Leaks has no claim of its own"):
        DPKMeans(3, epsilon=1.0, method=Leaks(NotNeeded()), bounds=(0, 1)).fit(X)


def test_parts_support_the_weakest_of_their_claims_and_only_its_reasons_are_told():
    paper, none = Claim("paper", ("a",)), Claim("none", ("b",), "floating point")
    assert claim_of(Claim.PROVED, paper, paper) == Claim("paper", ("a",))
    assert claim_of(none, paper, Claim("none", ("c",))) == Claim("none", ("b", "c"), "floating point")
    assert claim_of(lloyd()) == Claim.NONE
    assert claim_of(posterior()).label == "paper"


@pytest.mark.parametrize("make", [blum, gupt, privgene, synopsis], ids=lambda make: make.__name__)
def test_a_public_generator_with_a_seed_takes_the_label_away(make):
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), 2))
    seeded = Randomness(np.random.default_rng(1), SecureNoise())
    labels = [
        make().run(engine, 2, ledger=Ledger(5.0), rng=rng).guarantee.label for rng in (seeded, Randomness.secure())
    ]
    assert labels == ["none", "proved"]


def test_an_iterative_method_cannot_be_given_a_claim():
    with pytest.raises(TypeError):
        replace(blum(), claim=Claim.PROVED)  # type: ignore[call-arg]
    assert "claim" not in IterativeMethod.__dataclass_fields__
