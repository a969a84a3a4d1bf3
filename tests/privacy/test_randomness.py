from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpkmeans.errors import MethodError
from dpkmeans.privacy.randomness import Randomness, SecureNoise, SeededNoise, float_above, next_float

SOURCES = [SecureNoise(), SeededNoise(5)]
WIDE = Fraction(2**20)


def draws(rng: Randomness) -> list[int]:
    """Numbers of every kind. Two independent runs agree on one kind with odds below 2^-190."""
    noise = rng.noise
    return [
        *noise.laplace(np.zeros(10, dtype=np.int64), WIDE).tolist(),
        *noise.geometric(10, WIDE).tolist(),
        *noise.below_each(np.full(10, 2**40)).tolist(),
        *(noise.below(2**100) for _ in range(5)),
        *rng.generator.integers(2**40, size=5).tolist(),
    ]


def test_the_same_seed_gives_the_same_numbers_and_another_seed_does_not():
    assert draws(Randomness.with_seed(7)) == draws(Randomness.with_seed(7))
    assert draws(Randomness.with_seed(7)) != draws(Randomness.with_seed(8))


def test_numpys_global_seed_has_no_influence_on_the_secure_source():
    seen = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        seen.append(draws(Randomness.secure()))
    for kind in (slice(0, 10), slice(10, 20), slice(20, 30), slice(30, 35), slice(35, 40)):
        assert seen[0][kind] != seen[1][kind]


def test_the_secure_source_leaves_numpys_global_state_alone():
    before = np.random.get_state(legacy=False)["state"]["key"].tolist()  # noqa: NPY002
    draws(Randomness.secure())
    assert np.random.get_state(legacy=False)["state"]["key"].tolist() == before  # noqa: NPY002


def test_only_the_cryptographic_source_itself_counts_as_not_seeded():
    class Relabelled(SecureNoise):
        pass

    assert not Randomness.secure().seeded
    assert Randomness.with_seed(1).seeded
    assert Randomness(np.random.default_rng(1), SeededNoise(1)).seeded
    assert Randomness(np.random.default_rng(1), Relabelled()).seeded


def test_a_seeded_generator_of_either_kind_counts_as_seeded():
    """Nobody can tell by a NumPy generator where it comes from, so only what `secure` made counts as not seeded."""
    secure = Randomness.secure()
    assert Randomness(np.random.default_rng(1), SecureNoise()).seeded
    assert Randomness(np.random.default_rng(), SeededNoise(1)).seeded
    assert replace(secure, generator=np.random.default_rng(1)).seeded
    assert replace(secure, noise=SeededNoise(1)).seeded
    assert not secure.seeded
    with pytest.raises(TypeError):
        Randomness(np.random.default_rng(1), SeededNoise(1), _fresh=True)  # type: ignore[call-arg]


def test_random_state_means_what_scikit_learn_means_by_it():
    assert not Randomness.of(None).seeded
    assert draws(Randomness.of(3)) == draws(Randomness.with_seed(3)) == draws(Randomness.of(np.int64(3)))
    for make in (np.random.default_rng, np.random.RandomState):
        assert draws(Randomness.of(make(3))) == draws(Randomness.of(make(3)))
        assert draws(Randomness.of(make(3))) != draws(Randomness.of(make(4)))
        shared = make(3)
        assert draws(Randomness.of(shared)) != draws(Randomness.of(shared))


@pytest.mark.parametrize("wrong", [-1, 1.5, "7", True, [1]], ids=str)
def test_another_random_state_is_refused(wrong):
    with pytest.raises(MethodError, match="random_state"):
        Randomness.of(wrong)


@pytest.mark.parametrize("source", SOURCES, ids=["secure", "seeded"])
def test_noise_keeps_the_shape_and_comes_as_int64(source):
    values = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    noisy = source.laplace(values, Fraction(1, 1024))
    assert noisy.dtype == np.int64
    np.testing.assert_array_equal(noisy, values)  # a scale this small is no noise at all, but for exp(-1024)
    geometric = source.geometric(1000, Fraction(5))
    assert geometric.dtype == np.int64
    assert geometric.shape == (1000,)
    assert geometric.min() >= 0


@pytest.mark.parametrize("source", SOURCES, ids=["secure", "seeded"])
@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 2**64 + 1])
def test_below_stays_below(source, n):
    assert all(0 <= source.below(n) < n for _ in range(50))


@pytest.mark.parametrize("source", SOURCES, ids=["secure", "seeded"])
def test_below_each_stays_below_each_bound(source):
    bounds = np.array([[1, 2, 3], [10**6, 2**62, 2**63 - 1]] * 50)
    drawn = source.below_each(bounds)
    assert drawn.dtype == np.int64
    assert (drawn >= 0).all()
    assert (drawn < bounds).all()
    large = np.array([[1, 2**200], [2**63, 3]], dtype=object)
    assert all(0 <= d < b for d, b in zip(source.below_each(large).flat, large.flat, strict=True))
    assert source.below_each(large).shape == large.shape


def test_a_word_from_the_incomplete_last_run_is_drawn_again(monkeypatch):
    n = 2**63 - 1  # 2^64 = 2n + 2: the two largest words belong to no complete run
    words = iter([[2**64 - 1, 5, 2**64 - 2], [2**64 - 1, n + 7], [n - 1]])

    def give(size: int) -> np.ndarray:
        given = np.array(next(words), dtype=np.uint64)
        assert given.size == size
        return given

    monkeypatch.setattr("dpkmeans.privacy.randomness._words", give)
    assert SecureNoise().below_each(np.full(3, n)).tolist() == [n - 1, 5, 7]


def test_the_secure_source_saturates_and_never_wraps_round():
    top = np.full(200, 2**63 - 1)
    assert SecureNoise().laplace(top, Fraction(4)).min() > 2**62
    assert SecureNoise().laplace(-top, Fraction(4)).max() < -(2**62)
    far = SecureNoise().laplace(np.array([2**63 - 1, -(2**63), 0]).repeat(100), Fraction(2**55))
    assert far[:100].max() == 2**63 - 1
    assert far[100:200].min() == -(2**63)
    assert far.reshape(3, 100)[:2].min(axis=1)[0] > 0 > far[100:200].max()


def test_the_secure_sources_loss_is_opendps_map_and_never_below_the_exact_loss():
    for scale in (Fraction(2**20 * 10), float_above(Fraction(2**20 * 10, 3)), Fraction(1, 4)):
        loss = SecureNoise().loss(2**20, scale)
        assert Fraction(2**20) / scale <= loss <= Fraction(2**20) / scale * Fraction(1 + 2**-50)


def test_a_scale_that_is_no_float_is_refused_rather_than_rounded():
    with pytest.raises(ValueError, match="float_above"):
        SecureNoise().geometric(3, Fraction(1, 3))
    for wrong in (Fraction(0), Fraction(-1), Fraction(2**56)):
        with pytest.raises(ValueError, match="noise scale"):
            SecureNoise().laplace(np.zeros(3, dtype=np.int64), wrong)


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(2, 3), Fraction(10**20 + 1), Fraction(5)], ids=str)
def test_float_above_is_the_least_float_that_is_not_below(value):
    above = float_above(value)
    assert above >= value
    assert Fraction(float(above)) == above
    assert Fraction(np.nextafter(float(above), 0)) < value
    assert next_float(above) > above


@pytest.mark.parametrize("already_on", [False, True])
def test_opendps_switch_is_left_as_it_was(already_on):
    code = f"""
import sys
import numpy as np
from dataclasses import replace
from fractions import Fraction
from dpkmeans.privacy import mechanisms
from dpkmeans.privacy.randomness import SecureNoise
assert "opendp" not in sys.modules
if {already_on}:
    import opendp.mod
    opendp.mod.enable_features("contrib")
SecureNoise().loss(3, Fraction(8))
import opendp.mod
assert ("contrib" in opendp.mod.GLOBAL_FEATURES) is {already_on}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
