"""From the columns of a table to coordinates: each value by itself, by the kind that the schema declares.

The type that a library gave to a column does not matter: `1`, `1.0` and `"1"` are the same level, a date is the same as
a text, in an object column or in Arrow's. So what becomes of a value never depends on other records. Errors name the
column and show no value. Proof: proofs/schema.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.core.kinds import REFUSE, Boolean, Category, Kind, Number, level_key
from dpkmeans.core.schema import Schema
from dpkmeans.core.times import MICROSECONDS, Date, Time
from dpkmeans.core.vectors import Vector
from dpkmeans.data.ids import ID_KINDS, PersonId, check_missing, ids_of_integers, ids_of_values, split_words
from dpkmeans.data.numbers import check_type as check_number_type
from dpkmeans.data.numbers import numbers, require_pyarrow
from dpkmeans.data.vectors import check_vector_type, vector_columns
from dpkmeans.errors import DataError, DataTypeError

MISSING_TEXTS = frozenset(
    [
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA"),
        *("NULL", "NaN", "n/a", "nan", "null"),
    ]
)
"""Texts that stand for a missing value, as in CSV files; a level of that name is a level."""

_SHORT_FLOATS = ("float", "halffloat", "float16", "float32", "Float32", "Float16")  # names of Arrow, NumPy, polars
_INT64 = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_FACTORS = {"D": MICROSECONDS["day"], "s": 10**6, "ms": 10**3, "us": 1}  # microseconds


_HINTS = {
    "date": "Dates are written like 2015-01-31 or 2015-01-31T14:30; if these are not, say how in the schema, such as "
    "format = '%d.%m.%Y'.",
    "time": "Times of day are written like 17:30. Of a date with a time take the time first; of 1730 make 17:30.",
    "boolean": "If other texts mean yes and no, name them in the schema, such as true = 'ja' and false = 'nein'.",
    "category": "A level is a text, a number or a boolean.",
    "id": ID_KINDS,
}


def encode_columns(schema: Schema, column_of: Callable[[str], Any], whole: str) -> list[FloatArray]:
    """The coordinates of the columns, one array (n,) each, NaN where a missing value is not filled in.

    `column_of` gives a column by its name; `whole` is what errors call the table.
    """
    return [
        values
        for column in schema.columns
        for values in encode(column_of(column.name), column.kind, f"column {column.name!r} of {whole}")
    ]


def places_of(schema: Schema, whole: str) -> list[str]:
    """What errors call each coordinate: its column."""
    return [f"column {column.name!r} of {whole}" for column in schema.columns for _ in column.coordinates]


def encode(column: Any, kind: Kind, place: str) -> list[FloatArray]:
    """One column as coordinates; `place` is what errors call it."""
    column = _unwrapped(column, kind, place)
    if isinstance(kind, Number):
        found = [_number(numbers(column, place), kind)]
    elif isinstance(kind, Category):
        found = _category(column, kind, place)
    elif isinstance(kind, PersonId):
        return split_words(check_missing(_ids(column, kind, place), kind, place))
    elif isinstance(kind, Vector):
        found = list(vector_columns(column, kind, place))
    else:
        assert isinstance(kind, Date | Time | Boolean)
        clock = None if isinstance(kind, Boolean) else _instants(column, kind)
        found = [_mapped(column, kind, _of_value(kind), place) if clock is None else clock]
    fill, missing = kind.fill(), np.isnan(found[0])
    if missing.any():
        if kind.missing == REFUSE:
            raise DataError(
                f"{place} has empty cells or NaN, which the schema refuses.",
                hint="Drop or fill those records first, or say with 'missing' in the schema what takes their place.",
            )
        if fill is not None:
            found = [np.where(missing, value, values) for values, value in zip(found, fill, strict=True)]
    return found


def _unwrapped(column: Any, kind: Kind, place: str) -> Any:
    """Arrow's own column, checked, where the values lie in one, or polars has to hand over times exactly."""
    library = type(column).__module__.partition(".")[0]
    if library == "pandas" and type(column.dtype).__name__ == "ArrowDtype":
        column, library = column.array.__arrow_array__(), "pyarrow"
    if library == "polars" and column.dtype.is_temporal():
        require_pyarrow()
        column, library = column.to_arrow(), "pyarrow"
    if library == "pyarrow" and not isinstance(kind, Number):
        from pyarrow import types

        check_type(column.type, kind, place)
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
    return column


def check_type(kind: Any, declared: Kind, place: str) -> None:
    """Refuse an Arrow type that cannot hold values of the declared kind."""
    if isinstance(declared, Number):
        check_number_type(kind, place)
        return
    if isinstance(declared, Vector):
        check_vector_type(kind, declared, place)
        return
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    texts = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    accepted: tuple[Callable[[Any], bool], ...] = (*texts, *numbers)
    if isinstance(declared, PersonId):
        accepted = (*texts, *numbers, types.is_fixed_size_binary, _is_uuid)
    if isinstance(declared, Date | Time):
        accepted = (*texts, *((types.is_date, types.is_timestamp) if isinstance(declared, Date) else (types.is_time,)))
    if not any(is_kind(kind) for is_kind in accepted):
        raise DataTypeError(f"{place} cannot hold a {declared.name}: its type is {kind}.", hint=_HINTS[declared.name])


def _is_uuid(kind: Any) -> bool:
    return getattr(kind, "extension_name", "") == "arrow.uuid"


def _ids(column: Any, kind: PersonId, place: str) -> AnyArray:
    """Ids, shape (n, 2): a column of whole numbers is taken as it stands, without a look at each value."""
    library = type(column).__module__.partition(".")[0]
    if library == "pyarrow" and str(column.type) in _INT64:
        missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        return ids_of_integers(column.fill_null(0).to_numpy(zero_copy_only=False), missing)
    if isinstance(getattr(column, "dtype", None), np.dtype) and str(column.dtype) in _INT64:
        return ids_of_integers(np.asarray(column))
    if library == "pyarrow" and _is_uuid(column.type):
        column = column.storage if hasattr(column, "storage") else column.cast(column.type.storage_type)
    if str(getattr(column, "type" if library == "pyarrow" else "dtype", "")) in _SHORT_FLOATS:
        raise DataTypeError(f"{place} holds floats of less than 64 bits, which may have rounded ids.", hint=ID_KINDS)
    try:
        codes, values = _distinct(column)
    except (TypeError, ValueError, NotImplementedError):  # of other libraries too
        raise DataTypeError(f"{place} holds values that cannot be ids.", hint=ID_KINDS) from None
    missing = [_is_missing(value) or _is_missing_text(value) for value in values]
    return ids_of_values(codes, values, missing, kind.key, place)


def _number(values: FloatArray, kind: Number) -> FloatArray:
    if kind.infinite == "clip" and kind.lower is not None:
        infinite = np.isinf(values)
        if infinite.any():
            values = np.where(infinite, np.clip(values, kind.lower, kind.upper), values)
    return values


def _category(column: Any, kind: Category, place: str) -> list[FloatArray]:
    """A level, as 1 in its coordinate; another value, as 1 in that of "other" where there is one."""
    keys = {key: float(i) for i, key in enumerate(kind.keys)}
    other = keys.get("other", float(len(keys)))

    def index(value: Any) -> float:
        key = _key(value)
        return keys[key] if key in keys else np.nan if _is_missing_text(value) else other

    found = _mapped(column, kind, index, place)
    missing = np.isnan(found)
    return [np.where(missing, np.nan, (found == i).astype(np.float64)) for i in range(len(keys))]


def _key(value: Any) -> str:
    if isinstance(value, str | bool | int | float | Decimal | np.integer | np.floating | np.bool_):
        return level_key(value.item() if isinstance(value, np.generic) else value)
    raise TypeError


def _is_missing_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() in MISSING_TEXTS


def _of_value(kind: Date | Time | Boolean) -> Callable[[Any], float]:
    if isinstance(kind, Boolean):
        means = {"1": 1.0, "0": 0.0}
        means |= dict.fromkeys(map(level_key, kind.true), 1.0) | dict.fromkeys(map(level_key, kind.false), 0.0)

        def truth(value: Any) -> float:
            key = _key(value.lower() if isinstance(value, str) else value)
            return np.nan if key not in means and _is_missing_text(value) else means[key]

        return truth
    own = date if isinstance(kind, Date) else time

    def number(value: Any) -> float:
        if _is_missing_text(value):
            return np.nan
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").item()
        if not isinstance(value, str | own):
            raise TypeError
        return kind.number(value)  # type: ignore[arg-type]

    return number


def _mapped(column: Any, kind: Kind, of_value: Callable[[Any], float], place: str) -> FloatArray:
    """`of_value` of each value, shape (n,); NaN where there is none. Each different value is looked at once."""
    try:
        codes, values = _distinct(column)
        table = np.full(len(values) + 1, np.nan)  # the last one is for the code -1
        for i, value in enumerate(values):
            if not _is_missing(value):
                table[i] = of_value(value)
    except (TypeError, ValueError, KeyError, ArithmeticError, NotImplementedError):  # of other libraries too
        raise DataTypeError(
            f"{place} is a {kind.name} in the schema, but holds other values.", hint=_HINTS[kind.name]
        ) from None
    found: FloatArray = table[codes]
    return found


def _distinct(column: Any) -> tuple[IntArray, list[Any]]:
    """The different values, and the number of each record's value among them, -1 where it is missing."""
    library = type(column).__module__.partition(".")[0]
    if library == "pyarrow":
        return _distinct_of_arrow(column)
    if library == "pandas":
        kind = type(column.dtype).__name__
        if kind == "CategoricalDtype":
            return column.cat.codes.to_numpy().astype(np.int64), list(column.cat.categories)
        if kind == "StringDtype" and column.dtype.storage == "pyarrow":
            return _distinct_of_arrow(column.array.__arrow_array__())
        column = column.to_numpy()
    elif library == "polars":
        column = column.to_list()
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        raise TypeError("times, where there should be none")  # as a list they would be numbers
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        values, codes = np.unique(column, return_inverse=True)
        return codes.reshape(-1).astype(np.int64), values.tolist()
    return _distinct_objects(column if isinstance(column, list) else column.tolist())


def _distinct_of_arrow(column: Any) -> tuple[IntArray, list[Any]]:
    from pyarrow import types

    if types.is_null(column.type):
        return np.full(len(column), -1), []
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if hasattr(column, "chunks"):  # a chunked array without chunks
        return np.empty(0, np.int64), []
    encoded = column.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def _distinct_objects(values: Iterable[Any]) -> tuple[IntArray, list[Any]]:
    """Equal values need not mean the same, so they are looked up with their type, and times as text.

    `True`, `1` and `1.0` are equal in Python; so are two times of one hour that the clocks show twice.
    """
    found: dict[tuple[type, Any], int] = {}
    codes: list[int] = []
    distinct: list[Any] = []
    for value in values:
        key = (type(value), value.isoformat() if isinstance(value, date | time) else value)
        code = found.setdefault(key, len(found))
        if code == len(distinct):
            distinct.append(value)
        codes.append(code)
    return np.array(codes, dtype=np.int64), distinct


def _is_missing(value: Any) -> bool:
    """None, NaN, and the missing values of pandas, which are of types of their own."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value)


def _instants(column: Any, kind: Date | Time) -> FloatArray | None:
    """The column as numbers of units where its type is one of times; None where it has to be read value by value."""
    library = type(column).__module__.partition(".")[0]
    if library == "polars":
        return None
    if library == "pyarrow":
        found = _arrow_times(column, kind)
    else:
        if library == "pandas":
            if getattr(column.dtype, "tz", None) is not None:
                column = column.dt.tz_convert("UTC").dt.tz_localize(None)
            column = column.to_numpy() if isinstance(column.dtype, np.dtype) else np.empty(0, object)
        found = _numpy_times(column) if isinstance(kind, Date) else None
    if found is None:
        return None
    microseconds, missing = found
    whole, rest = np.divmod(microseconds, MICROSECONDS[kind.unit])
    return np.where(missing, np.nan, whole.astype(np.float64) + rest / MICROSECONDS[kind.unit])


def _numpy_times(array: AnyArray) -> tuple[IntArray, AnyArray] | None:
    if not isinstance(array, np.ndarray) or array.dtype.kind != "M":
        return None
    unit, count = np.datetime_data(array.dtype)
    if unit not in ("D", "s", "ms", "us", "ns") or count != 1:
        raise DataError(f"dates must not be counted in {array.dtype}. Convert them to datetime64[us].")
    return _in_microseconds(array.astype(np.int64), unit), np.isnat(array)


def _arrow_times(column: Any, kind: Date | Time) -> tuple[IntArray, AnyArray] | None:
    from pyarrow import types

    kinds: dict[Callable[[Any], bool], str]
    if isinstance(kind, Date):
        kinds = {types.is_date32: "D", types.is_date64: "ms", types.is_timestamp: getattr(column.type, "unit", "us")}
    else:
        kinds = {types.is_time: getattr(column.type, "unit", "us")}
    unit = next((unit for is_kind, unit in kinds.items() if is_kind(column.type)), None)
    if unit is None:
        return None
    width = "int32" if types.is_date32(column.type) or types.is_time32(column.type) else "int64"
    whole = column.cast(width).cast("int64")
    missing = whole.is_null().to_numpy(zero_copy_only=False)
    return _in_microseconds(whole.fill_null(0).to_numpy(zero_copy_only=False), unit), missing


def _in_microseconds(values: IntArray, unit: str) -> IntArray:
    """Whole microseconds, rounded down; what lies beyond their range is clipped, value by value."""
    if unit == "ns":
        return values // 1000
    limit = np.iinfo(np.int64).max // _FACTORS[unit]
    return np.clip(values, -limit, limit) * _FACTORS[unit]
