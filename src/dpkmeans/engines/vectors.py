"""Three operations on one tile of points, in double precision, on whole vector registers.

A row holds one number for each of the `LANES` points of a tile. Compilers do not see that rows of one array are
different rows, and fall back to single numbers; hence the few lines of LLVM below, four times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dpkmeans.engines.tiles import LANES

INT32, INT64, DOUBLE = ir.IntType(32), ir.IntType(64), ir.DoubleType()
ROW = ir.VectorType(DOUBLE, LANES)
GRID_STEPS = 1048576.0  # in one


def _square_distances(typing_context: Any, x: Any, points: Any, p: Any, out: Any) -> Any:
    """out[p] = Σ_j (x[j] - points[p, j])², from x of shape (d, LANES) and points of shape (u, d)."""
    return types.void(x, points, types.intp, out), _write_square_distances


def _shifted_distances(typing_context: Any, x: Any, j: Any, out: Any, q: Any, p: Any, back: Any, both: Any) -> Any:
    """out[p] = out[q] + (q_j - p_j)(2x[j] - p_j - q_j): the distances to p, which differs from q in feature j alone.

    `back` is q_j - p_j and `both` is p_j + q_j. Exact where all of them lie on the grid.
    """
    number = types.float64
    return types.void(x, types.intp, out, types.intp, types.intp, number, number), _write_shifted_distances


def _rounded_nearest(typing_context: Any, out: Any, sets: Any, i: Any) -> Any:
    """Sum over the lanes of the smallest out[p], p in sets[i], each rounded to whole grid steps."""
    return types.float64(out, sets, types.intp), _write_rounded_nearest


square_distances: Any = intrinsic(_square_distances)
shifted_distances: Any = intrinsic(_shifted_distances)
rounded_nearest: Any = intrinsic(_rounded_nearest)


def _write_square_distances(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    code = _Code(context, builder, signature, args)
    x, points, out = code.array(0), code.array(1), code.array(3)
    n_features = builder.extract_value(points.shape, 1)
    first = builder.gep(points.data, [builder.mul(args[2], n_features)])

    def add(j: Any, total: Any) -> Any:
        apart = builder.fsub(code.load(x, j), code.everywhere(builder.load(builder.gep(first, [j]))))
        return builder.fadd(total, builder.fmul(apart, apart))

    code.store(code.fold(0, n_features, ir.Constant(ROW, [0.0] * LANES), add), out, args[2])
    return context.get_dummy_value()


def _write_shifted_distances(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    code = _Code(context, builder, signature, args)
    _, j, _, q, p, back, both = args
    x, out = code.load(code.array(0), j), code.array(2)
    rest = builder.fsub(builder.fadd(x, x), code.everywhere(both))
    code.store(builder.fadd(code.load(out, q), builder.fmul(code.everywhere(back), rest)), out, p)
    return context.get_dummy_value()


def _write_rounded_nearest(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    code = _Code(context, builder, signature, args)
    out, sets = code.array(0), code.array(1)
    k = builder.extract_value(sets.shape, 1)
    first = builder.gep(sets.data, [builder.mul(args[2], k)])

    def row(c: Any) -> Any:
        return code.load(out, builder.load(builder.gep(first, [c])))

    def lower(c: Any, best: Any) -> Any:
        other = row(c)
        return builder.select(builder.fcmp_ordered("<", other, best), other, best)

    best = code.fold(1, k, row(ir.Constant(INT64, 0)), lower)
    steps = builder.fmul(best, ir.Constant(ROW, [GRID_STEPS] * LANES))
    kind = ir.FunctionType(ROW, [ROW])
    rint = cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.v{LANES}f64")  # type: ignore[no-untyped-call]
    return code.sum(builder.call(rint, [steps]))


class _Code:
    """Writes LLVM for rows."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def array(self, i: int) -> Any:
        """Argument i, an array."""
        return self.context.make_array(self.signature.args[i])(self.context, self.builder, self.args[i])

    def _place(self, array: Any, row: Any) -> Any:
        place = self.builder.gep(array.data, [self.builder.mul(row, ir.Constant(INT64, LANES))])
        return self.builder.bitcast(place, ROW.as_pointer())

    def load(self, array: Any, row: Any) -> Any:
        """A row of an array of doubles."""
        return self.builder.load(self._place(array, row), align=8)

    def store(self, value: Any, array: Any, row: Any) -> None:
        """Put a row in its place."""
        self.builder.store(value, self._place(array, row), align=8)

    def everywhere(self, number: Any) -> Any:
        """A row with `number` in each lane."""
        empty = ir.Constant(ROW, ir.Undefined)
        first = self.builder.insert_element(empty, number, ir.Constant(INT32, 0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES))

    def fold(self, start: int, stop: Any, value: Any, step: Callable[[Any, Any], Any]) -> Any:
        """`value = step(i, value)` for i from `start` to `stop`."""
        builder, before = self.builder, self.builder.block
        test, body, done = (builder.append_basic_block(name) for name in ("test", "body", "done"))
        builder.branch(test)
        builder.position_at_end(test)
        i, total = builder.phi(INT64), builder.phi(ROW)
        i.add_incoming(ir.Constant(INT64, start), before)
        total.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", i, stop), body, done)
        builder.position_at_end(body)
        following = step(i, total)
        i.add_incoming(builder.add(i, ir.Constant(INT64, 1)), body)
        total.add_incoming(following, body)
        builder.branch(test)
        builder.position_at_end(done)
        return total

    def sum(self, row: Any) -> Any:
        """All lanes together, halves first."""
        size = LANES
        while size > 1:
            size //= 2
            lanes = [ir.Constant(ir.VectorType(INT32, size), list(range(i, i + size))) for i in (0, size)]
            halves = [self.builder.shuffle_vector(row, ir.Constant(row.type, ir.Undefined), half) for half in lanes]
            row = self.builder.fadd(*halves)
        return self.builder.extract_element(row, ir.Constant(INT32, 0))
