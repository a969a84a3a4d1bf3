"""How CSV files are written: delimiter, decimal mark, encoding, quotes. Declared, never inferred from records."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.errors import FileError, MethodError

COMPRESSED = (".gz", ".zst", ".bz2", ".lz4")
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_SPELLED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}
_MAGIC = {
    rb"\x1f\x8b": "gzip",
    rb"\x28\xb5\x2f\xfd": "zstd",
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": "bz2",
    rb"\x04\x22\x4d\x18": "lz4",
}
# Each character is decoded by itself. In others, such as ISO-2022-JP and UTF-7, one record can change how all after it
# are read.
_STATELESS = r"ascii|utf-(8|16|32)|utf-8-sig|utf-(16|32)-[bl]e|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|big5(hkscs)?"
_STATELESS += r"|shift_jis\w*|euc_\w+|gb2312|gbk|gb18030|tis-620|johab"


@dataclass(frozen=True)
class Dialect:
    r"""A way to write CSV. `delimiter` separates cells, `decimal` stands before a fraction, `quote` around a cell.

    `quote` is None, or "none", where there are no quotes. A quote within quotes is written twice.

    >>> Dialect("tab", ",", "latin-1", "none")
    Dialect(delimiter='\t', decimal=',', encoding='iso8859-1', quote=None)
    """

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    quote: str | None = '"'

    def __post_init__(self) -> None:
        delimiter = _SPELLED.get(self.delimiter, self.delimiter)
        quote = None if self.quote == "none" else self.quote
        if not _is_mark(delimiter) or delimiter in '.+-"':
            raise MethodError(
                f"must be one character such as , ; or |, or the word tab; got {self.delimiter!r}.",
                parameter="delimiter",
            )
        if quote is not None and (not _is_mark(quote) or quote in ".+- \t"):
            raise MethodError(
                f"must be one character such as \" or ', or the word none; got {self.quote!r}.", parameter="quote"
            )
        if self.decimal not in (".", ","):
            raise MethodError(f"must be a point or a comma; got {self.decimal!r}.", parameter="decimal")
        for name, mark in (("decimal", self.decimal), ("quote", quote)):
            if mark == delimiter:
                raise MethodError(
                    f"and the delimiter are both {mark!r}; they must differ.",
                    parameter=name,
                    hint="Files with decimal commas are mostly written with {delimiter=';'}." * (name == "decimal"),
                )
        object.__setattr__(self, "delimiter", delimiter)
        object.__setattr__(self, "quote", quote)
        object.__setattr__(self, "encoding", _known_encoding(self.encoding))

    @property
    def separator(self) -> str:
        """The delimiter in words, in the plural."""
        name = _DELIMITERS.get(self.delimiter)
        return repr(self.delimiter) if name is None else f"{name}s"

    def other_separators(self, header: Sequence[str]) -> str:
        """A hint where a header, which holds no record, seems to be separated otherwise; else an empty text."""
        text = "".join(header)
        counts = {mark: text.count(mark) for mark in _DELIMITERS if mark != self.delimiter}
        mark = max(counts, key=lambda mark: counts[mark])
        if not counts[mark]:
            return ""
        cells = "1 column" if len(header) == 1 else f"{len(header)} columns"
        marks = f"1 {_DELIMITERS[mark]}" if counts[mark] == 1 else f"{counts[mark]} {_DELIMITERS[mark]}s"
        value = "tab" if mark == "\t" else mark
        return f"The first row has {cells} and {marks}: if these separate the cells, write {{delimiter={value!r}}}."

    def open(self, path: Path) -> Any:
        """The file as a stream of UTF-8, decompressed. Bytes that are not of the encoding raise `UnicodeError`."""
        pa = require_pyarrow()
        stream = pa.input_stream(str(path), compression=compression_of(path))
        return stream if self.encoding == "utf-8" else pa.transcoding_input_stream(stream, self.encoding, "utf-8")

    def not_text(self, path: Path) -> FileError:
        """The error for bytes that are not of the encoding."""
        return FileError(
            f"{path} is not text in {self.encoding}.",
            hint="Give the encoding in which it was written, such as {encoding='cp1252'} or {encoding='utf-16'}; if it "
            "is no CSV file, convert it first.",
        )


def _is_mark(text: Any) -> bool:
    """Whether it is one ASCII character that no number and no line end holds."""
    return isinstance(text, str) and len(text) == 1 and (text == "\t" or " " <= text <= "~") and not text.isalnum()


def _known_encoding(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError):
        raise MethodError(
            f"is not known; got {encoding!r}.",
            parameter="encoding",
            hint="Write, for example, {encoding='latin-1'}, {encoding='cp1252'} or {encoding='utf-16'}.",
        ) from None
    if not re.fullmatch(_STATELESS, name):
        raise MethodError(
            f"cannot be {encoding!r}: in it, one record could change how others are read.",
            parameter="encoding",
            hint="Convert the file to UTF-8 first.",
        )
    return name


def compression_of(path: Path) -> str | None:
    """By its first bytes."""
    with path.open("rb") as file:
        start = file.read(16)
    return next((name for magic, name in _MAGIC.items() if re.match(magic, start)), None)
