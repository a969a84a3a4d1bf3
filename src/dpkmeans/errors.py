"""Every error that the library raises on purpose. Messages say what is wrong, what was got, what to do.

No message holds a value, a count or a row of private data.
"""


class DPKMeansError(Exception):
    """Base of all errors of this library."""


class BoundsError(DPKMeansError, ValueError):
    """The public box is missing, reversed, not finite, or of the wrong shape."""


class DataError(DPKMeansError, ValueError):
    """The records cannot be used: wrong shape, NaN, text, or too few where their number is not private."""


class DataTypeError(DataError, TypeError):
    """The records are of a kind that is not supported at all (sparse, complex, text)."""


class BudgetError(DPKMeansError, ValueError):
    """An epsilon that is not usable, or a spend that would pass the promised total."""


class GuaranteeError(DPKMeansError, ValueError):
    """The result would carry a weaker label than the caller accepts."""


class MethodError(DPKMeansError, ValueError):
    """An unknown method, or parameters that a method does not take."""


class FileError(DPKMeansError, OSError):
    """A file that cannot be read or written, or whose content is damaged, foreign or too new."""


class LedgerError(FileError):
    """A durable ledger that cannot be used: missing, read-only, full, damaged, in use, or from a newer version."""


class NotConvergedWarning(UserWarning):
    """`max_iter` ended a run that would otherwise have stopped by itself."""


class WeakSignalWarning(UserWarning):
    """From public quantities alone: too few records for this epsilon, or a box that says too little."""


class UnsettledWarning(UserWarning):
    """A finished fit could not give back what it reserved in a durable ledger: all of it stays spent."""
