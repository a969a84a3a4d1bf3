"""What is kept of persons: a function of each person's rows as a multiset, for every key, order and kind of id."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.test_siphash import siphash

from dpkmeans.data.ids import MISSING
from dpkmeans.kernels import persons
from dpkmeans.kernels.persons import group, person_hashes
from dpkmeans.kernels.siphash import hash_words

KEY = bytes(range(16))
IDS = st.sampled_from([(0, 0), (0, 1), (0, 2**64 - 1), (2**63, 5), (2**63, 6), (2**64 - 1, 0)])
POINTS = st.tuples(st.integers(0, 2), st.integers(0, 2**20), st.integers(0, 1))
TABLES = st.lists(st.tuples(IDS, POINTS), max_size=40)


def arrays(table):
    ids = np.array([id_ for id_, _ in table], np.uint64).reshape(-1, 2)
    return ids, np.array([point for _, point in table], np.int32).reshape(-1, 3)


def kept(table, m, key=KEY):
    """The records of a table as a multiset: up to `m` rows of each person, or the means where `m` is None."""
    if not table:
        return Counter()
    ids, steps = arrays(table)
    found = group(ids, steps, key, MISSING)
    return Counter(map(tuple, (found.means() if m is None else found.at_most(m)).tolist()))


@given(words=st.lists(st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3), min_size=1, max_size=5))
def test_words_are_hashed_as_their_bytes(words):
    expected = [siphash(KEY, np.array(row, "<u8").tobytes()) for row in words]
    assert hash_words(np.array(words, np.uint64), KEY).tolist() == expected


@given(table=TABLES, gone=IDS, m=st.integers(1, 4), key=st.binary(min_size=16, max_size=16))
def test_without_a_person_exactly_that_persons_records_are_gone_and_they_are_at_most_m(table, gone, m, key):
    rest = [row for row in table if row[0] != gone]
    whole, without = kept(table, m, key), kept(rest, m, key)
    assert not without - whole
    assert (whole - without).total() == min(m, len(table) - len(rest))
    assert whole - without == kept([row for row in table if row[0] == gone], m, key)


@given(table=TABLES, gone=IDS)
def test_without_a_person_one_mean_is_gone(table, gone):
    rest = [row for row in table if row[0] != gone]
    whole, without = kept(table, None), kept(rest, None)
    assert not without - whole
    assert (whole - without).total() == (len(rest) < len(table))


@given(table=TABLES, m=st.integers(1, 4), data=st.data())
def test_the_order_of_the_rows_changes_nothing_not_even_the_order_of_the_records(table, m, data):
    if table:
        shuffled = data.draw(st.permutations(table))
        a, b = (group(ids, steps, KEY, MISSING) for ids, steps in map(arrays, (table, shuffled)))
        assert np.array_equal(a.at_most(m), b.at_most(m))
        assert np.array_equal(a.means(), b.means())


@given(table=TABLES, m=st.integers(1, 4), parts=st.integers(1, 5))
def test_partitions_by_the_hash_of_persons_give_the_same_records_in_the_same_order(table, m, parts):
    from dpkmeans.data.grouping import file_numbers

    if table:
        ids, steps = arrays(table)
        numbers = file_numbers(person_hashes(ids, steps, KEY, MISSING), parts)
        lots = [numbers == part for part in range(parts) if (numbers == part).any()]
        found = [group(ids[lot], steps[lot], KEY, MISSING).at_most(m) for lot in lots]
        assert np.array_equal(np.concatenate(found), group(ids, steps, KEY, MISSING).at_most(m))


@given(
    table=st.lists(st.tuples(st.one_of(IDS, st.just(MISSING)), POINTS), min_size=1), m=st.integers(1, 4), data=st.data()
)
def test_rows_of_a_person_in_parts_by_the_row_and_ranked_a_few_at_a_time_give_the_same_in_the_same_order(
    table, m, data
):
    """As the files of a person with many rows are read: equal rows in one part, each part some rows at a time."""
    ids, steps = arrays(table)
    whole = group(ids, steps, KEY, MISSING)
    n_parts = data.draw(st.integers(1, 4))
    numbers = persons.row_hashes(ids, steps, KEY) % np.uint64(n_parts)
    parts = []
    for number in range(n_parts):
        found = None
        for rows in np.array_split(np.flatnonzero(numbers == number), data.draw(st.integers(1, 3))):
            found = persons.more_of(found, ids[rows], steps[rows], KEY, MISSING)
        if len(found.ids):
            parts.append(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(persons, "AT_ONCE", data.draw(st.integers(1, 50)))
        assert np.array_equal(persons.at_most(parts, m), whole.at_most(m))
    sums = persons.Sums.joined(part.sums() for part in parts)
    assert np.array_equal(sums.means(), whole.means())
    sizes = Counter(id_ for id_, _ in table if id_ != MISSING)
    expected = Counter(min(size, 3) for size in sizes.values()) + Counter({1: sum(id_ == MISSING for id_, _ in table)})
    assert sums.histogram(3).tolist() == whole.sums().histogram(3).tolist() == [expected[i] for i in range(4)]


@given(table=TABLES, m=st.integers(1, 3), data=st.data())
def test_where_all_hashes_collide_nothing_changes_for_the_worse(table, m, data):
    weak = lambda words, key: np.zeros(len(words), np.uint64)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(persons, "hash_words", weak)
        shuffled = data.draw(st.permutations(table))
        assert kept(table, m) == kept(shuffled, m)
        gone = data.draw(IDS)
        rest = [row for row in table if row[0] != gone]
        assert not kept(rest, m) - kept(table, m)
        assert (kept(table, m) - kept(rest, m)).total() == min(m, len(table) - len(rest))


def test_means_are_exact_and_halves_are_rounded_up():
    points = [
        ((0, 1), (0, 1, 2**20)),
        ((0, 1), (1, 1, 2**20)),
        ((0, 2), (0, 0, 1)),
        ((0, 2), (0, 1, 0)),
        ((0, 2), (0, 0, 0)),
    ]
    assert kept(points, None) == Counter({(1, 1, 2**20): 1, (0, 0, 0): 1})


@given(table=st.lists(POINTS, max_size=20), m=st.integers(1, 3))
def test_rows_without_an_id_are_all_kept_as_persons_of_their_own(table, m):
    rows = [(MISSING, point) for point in table]
    assert kept(rows, m) == kept(rows, None) == Counter(table)


def test_every_row_of_a_person_is_kept_as_often_as_any_other():
    """20 000 keys, 2 of 5 rows, two of them equal: counts are binomial, and six deviations are passed below 1e-8."""
    table = [((0, 7), (i, 0, 0)) for i in (0, 1, 2, 3, 3)]
    n, rng = 20_000, np.random.default_rng(3)
    total = sum((kept(table, 2, rng.bytes(16)) for _ in range(n)), Counter())
    six = 6 * np.sqrt(n * 0.4 * 0.6)
    assert all(abs(total[(i, 0, 0)] - 0.4 * n) < six for i in (0, 1, 2))
    assert abs(total[(3, 0, 0)] - 0.8 * n) < 2 * six
    first_two = n  # what picking by position gives: found at once
    assert abs(first_two - 0.4 * n) > six


def test_ids_are_the_same_as_texts_numbers_and_uuids():
    import pandas as pd
    import pyarrow as pa

    from dpkmeans.data.encode import encode
    from dpkmeans.data.ids import PersonId

    kind, uuid = PersonId(KEY), UUID(int=77)
    one = [c.tolist() for c in encode(pd.Series([1, 2]), kind, "ids")]
    for column in (
        pd.Series(["1", " 2 "]),
        pd.Series([1.0, 2.0]),
        pd.Series(["1.0", 2], dtype=object),
        pd.Series([1, 2], dtype="Int64"),
        pa.array([1, 2], pa.int8()),
        pa.array(["1", "2"]),
        pa.array([1, 2], pa.uint64()),
        pa.chunked_array([["1"], ["2"]]),
        pa.array(["1", "2"]).dictionary_encode(),
        pa.array([1, 2]).cast(pa.decimal128(30, 2)),
    ):
        assert [c.tolist() for c in encode(column, kind, "ids")] == one, column
    named = [c.tolist() for c in encode(pd.Series([str(uuid)]), kind, "ids")]
    for column in (pd.Series([uuid]), pa.array([uuid.bytes], pa.binary(16)), pa.array([str(uuid)])):
        assert [c.tolist() for c in encode(column, kind, "ids")] == named
    assert [c.tolist() for c in encode(pd.Series([str(uuid).upper()]), kind, "ids")] == named
    assert np.array_equal(
        encode(pd.Series(["-0", "0", "-0.0"]), kind, "ids"), encode(pd.Series([-0.0] * 3), kind, "ids")
    )
    texts = [
        "007",
        "7",
        "7.5",
        "a",
        "A",
        "a\0",
        "0",
        "\uff17",
        "e\u0301",
        str(2**63),
        str(2**63 - 1),
        "1e3",
        "é",
        "1 000",
    ]
    words = np.stack(encode(pd.Series(texts), kind, "ids"), axis=1)
    assert len(np.unique(words, axis=0)) == len(texts)
    big = pd.Series([2**64, 2**63 - 1], dtype=object)
    assert np.array_equal(encode(big, kind, "ids"), encode(big.astype(str), kind, "ids"))


@pytest.mark.parametrize(
    "value", [1.5, 2.0**53, 2.0**60, float("inf"), Decimal("Infinity"), Decimal("sNaN"), True, b"abc", (1, 2), [1]]
)
def test_what_is_no_id_is_refused_without_showing_it(value):
    import pandas as pd

    from dpkmeans.data.encode import encode
    from dpkmeans.data.ids import PersonId
    from dpkmeans.errors import DataTypeError

    with pytest.raises(DataTypeError) as refused:
        encode(pd.Series([value], dtype=object), PersonId(KEY), "column 'who'")
    assert "column 'who'" in str(refused.value)
    assert repr(value) not in str(refused.value)


def test_columns_that_cannot_hold_ids_or_may_have_rounded_them_are_refused():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dpkmeans.data.encode import encode
    from dpkmeans.data.ids import PersonId
    from dpkmeans.errors import DataTypeError

    rounded = np.array([2**24, 2**24 + 1], np.float32)  # two persons, and one number
    columns = [pd.Series(rounded), pa.array(rounded), pl.Series(rounded), pd.Series(pd.to_datetime(["2020-01-01"]))]
    for column in (*columns, pa.array([b"abc"]), pa.array([b"abc"], pa.binary(3)), pa.array([[1]]), pa.array([True])):
        with pytest.raises(DataTypeError, match="Ids are texts, whole numbers or UUIDs"):
            encode(column, PersonId(KEY), "column 'who'")
