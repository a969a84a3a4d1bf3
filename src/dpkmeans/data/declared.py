"""What files declare of their columns, names and types, for a first schema. No value is looked at."""

from __future__ import annotations

from typing import Any

from dpkmeans.data.csv import csv_files
from dpkmeans.data.files import find_files, is_parquet
from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.data.parquet import parquet_layout
from dpkmeans.data.source import Files
from dpkmeans.errors import DataError

_PANDAS_INDEX = "__index_level_0__"  # the row numbers of a frame, which pandas writes as a column


def declared_columns(files: Files) -> list[tuple[str, str]]:
    """Name and kind of each column of the first file: by its type in Parquet; in CSV, which declares none, a number."""
    require_pyarrow()
    paths = find_files(files.path)
    if is_parquet(paths[0]):
        layout = parquet_layout(paths[0])
        columns = zip(layout.names, layout.types, strict=True)
        return [(name, _kind(kind)) for name, kind in columns if name != _PANDAS_INDEX]
    file = csv_files(paths[:1], files)[0]
    names = [str(j) for j in file.chosen] if file.names is None else file.names
    if len(names) == 1 and file.hint:
        raise DataError(f"{paths[0]} has one column.", hint=file.hint)
    return [(name, "number") for name in names]


def _kind(kind: Any) -> str:
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    kinds = {
        "boolean": (types.is_boolean,),
        "date": (types.is_date, types.is_timestamp),
        "time": (types.is_time,),
        "vector": (types.is_fixed_size_list, types.is_list, types.is_large_list),
        "category": (types.is_string, types.is_large_string, types.is_string_view),
    }
    return next((name for name, tests in kinds.items() if any(test(kind) for test in tests)), "number")
