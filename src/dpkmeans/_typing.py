"""Names for the array types that travel through the library."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
Float32Array: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]
LabelArray: TypeAlias = npt.NDArray[np.int32]
AnyArray: TypeAlias = npt.NDArray[Any]
