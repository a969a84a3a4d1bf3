"""Every error and warning of this library: what is wrong, what was given, what to do.

Errors carry the name of the parameter and a hint apart from the message, so that Python shows `n_clusters` and the
command shows `--k`. No message holds a value, a count or a row of private data.
"""

from __future__ import annotations

import sys
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterable
from enum import Enum
from string import Formatter

Notation = Callable[..., str]
"""Writes a parameter, and its value where one is given, as the reader would write them."""


class _Unset(Enum):  # one value that stays itself when an error travels between processes
    UNSET = 0


UNSET = _Unset.UNSET


def in_python(parameter: str, value: object = UNSET) -> str:
    """A parameter as an argument in Python.

    >>> in_python("guarantee"), in_python("guarantee", "none")
    ('guarantee', "guarantee='none'")
    """
    return parameter if value is UNSET else f"{parameter}={value!r}"


class Explained(Exception):
    """What errors and warnings share: a message, the parameter that it is about, and a hint.

    The text is `parameter` (with `value`, if there is one), `message`, `hint`. In the hint, `{epsilon}` stands for a
    parameter and `{epsilon=1.0}` for a parameter with a value, a Python literal.

    >>> print(MethodError("must be at least 1; got 0.", parameter="n_clusters"))
    n_clusters must be at least 1; got 0.
    >>> print(BudgetError("No total was given.", hint="Write, say, {epsilon=1.0}."))
    No total was given. Write, say, epsilon=1.0.
    """

    def __init__(self, message: str, *, parameter: str | None = None, value: object = UNSET, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.parameter, self.value, self.hint = message, parameter, value, hint

    def in_words(self, notation: Notation = in_python) -> str:
        """The whole text, with every parameter written in `notation`."""
        subject = [] if self.parameter is None else [notation(self.parameter, self.value)]
        hint = ""
        for text, field, _, _ in Formatter().parse(self.hint):
            name, _, literal = (field or "").partition("=")
            hint += text + (notation(name, literal_eval(literal) if literal else UNSET) if name else "")
        return " ".join([*subject, self.message, *([hint] if hint else [])])

    def __str__(self) -> str:
        return self.in_words()


class DPKMeansError(Explained):
    """Base of all errors of this library."""


class BoundsError(DPKMeansError, ValueError):
    """The public bounds are missing, reversed, not finite, or of the wrong shape."""


class NoBoundsFoundError(BoundsError):
    """A private estimate found no bounds, or no width. Nothing was paid for after it."""


class SchemaError(DPKMeansError, ValueError):
    """A schema that cannot be used: an unknown kind, missing bounds, a level listed twice."""


class DataError(DPKMeansError, ValueError):
    """The records cannot be used: wrong shape, NaN, text, or too few where their number is not private."""


class TooFewRecordsError(DataError):
    """There are more clusters than records, by a public or a noisy count. Nothing was paid for after that count."""


class DataTypeError(DataError, TypeError):
    """The records are of a kind that is not supported at all (sparse, complex, text)."""


class BudgetError(DPKMeansError, ValueError):
    """An unusable epsilon, or a spend that would exceed the promised total."""


class GuaranteeError(DPKMeansError, ValueError):
    """The result would carry a weaker label than the caller accepts."""


class MethodError(DPKMeansError, ValueError):
    """An unknown method, or parameters that a method does not take."""


class UnsupportedError(MethodError, TypeError):
    """An argument of scikit-learn's `KMeans` that means nothing here, or would break the guarantee."""


class FileError(DPKMeansError, OSError):
    """A file that cannot be read or written, or whose content is damaged, foreign or too new."""


class MissingFileError(FileError):
    """A file that is not where it was when the records were opened, or that a worker cannot see."""

    @classmethod
    def at(cls, path: object) -> MissingFileError:
        """A file that was there when the records were opened."""
        return cls(f"{path} was not found.", hint="It was there when the records were opened. Put it back.")

    def on(self, worker: str) -> MissingFileError:
        """The same, for a worker on another machine perhaps."""
        return MissingFileError(
            f"{self.message.removesuffix('.')} on {worker}.",
            hint="Workers need shared storage: the same path on every machine.",
        )


class ChangedFileError(FileError):
    """A file that is not what it was when the records were opened: it was changed or replaced between two passes."""

    @classmethod
    def at(cls, path: object, differs: Iterable[str]) -> ChangedFileError:
        """A file of which these differ."""
        return cls(
            f"{path} changed after the records were opened: {', '.join(differs)} differs.",
            hint="What was spent before stays spent. Run it again when nothing writes to the file.",
        )


class OutOfMemoryError(DPKMeansError, MemoryError):
    """There is too little memory, by a limit that it names."""

    def __new__(cls, *args: object, **_: object) -> OutOfMemoryError:  # MemoryError's own refuses a class of two bases
        return Exception.__new__(cls, *args)


class EngineError(DPKMeansError, RuntimeError):
    """A cluster that cannot be reached or started, or that was lost: no scheduler answers, or no worker is left."""


_SAME_CODE = "Install the same build of dpkmeans on the driver, the scheduler and every worker. Nothing was added up."


class WorkerVersionError(EngineError):
    """A worker runs another version of dpkmeans, or none. It computed nothing that was used."""

    @classmethod
    def at(cls, worker: str, version: str, digest: str) -> WorkerVersionError:
        """For a worker whose code is known."""
        return cls(f"{worker} runs dpkmeans {version} with code {digest}, which is not the code here.", hint=_SAME_CODE)

    @classmethod
    def unreadable(cls, where: str) -> WorkerVersionError:
        """For workers or a scheduler that cannot even load the work."""
        return cls(f"{where} cannot load the work: dpkmeans is missing there, or of another version.", hint=_SAME_CODE)


class WorkerMemoryError(EngineError):
    """A worker that was lost again and again for lack of memory."""


class LedgerError(FileError):
    """A durable ledger that cannot be used: missing, read-only, full, damaged, in use, or from a newer version."""


class DPKMeansWarning(Explained, UserWarning):
    """Base of all warnings of this library."""


class NotConvergedWarning(DPKMeansWarning):
    """`max_iter` ended a run before it converged."""


class WeakSignalWarning(DPKMeansWarning):
    """From public quantities alone: too few records for this epsilon, or bounds that are far too wide."""


class LooseBoundsWarning(DPKMeansWarning):
    """From the noisy histogram of an estimate of the bounds: a feature that collapsed, or bounds that are too wide."""


class LargeDeltaWarning(DPKMeansWarning):
    """A delta that is not small beside one over the number of records, where that is public, or at all."""


class UnsettledWarning(DPKMeansWarning):
    """A finished fit could not return what it had reserved in a durable ledger: all of it stays spent."""


class LeftBehindWarning(DPKMeansWarning):
    """Packed records may be left on the disk of a Spark executor until its application ends."""


class MisfitWarning(DPKMeansWarning):
    """No record lies within the bounds of a column, or has any of its levels: a wrong unit, or another spelling.

    For the data holder only: it depends on the records. It is never raised as an error, whatever the filters say.
    """


class TightBoundsWarning(DPKMeansWarning):
    """The bounds equal the extremes of the records, as if they had been computed from them.

    For the data holder only: it depends on the records. It is never raised as an error, whatever the filters say, so
    that whether a fit succeeds does not depend on them.
    """


def warn(warning: DPKMeansWarning) -> None:
    """Issue `warning` at the line outside this package that led to it."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).split(".")[0] == "dpkmeans":
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
