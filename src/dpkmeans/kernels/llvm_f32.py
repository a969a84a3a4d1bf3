"""The innermost loop: the nearest centroid of each point of a tile, on whole vector registers.

A tile holds `LANES` points feature by feature, so that one load gives one feature of all of them. Centroids come in
groups of `GROUP`, negated and interleaved, so that each load of points serves a whole group. The score of a centroid
is ½|c|² - x·c, built up feature by feature with fused multiply-add in float32: every implementation that follows
this order gives the same bits, as the plain one in `tile_reference` does. Compilers vectorise innermost loops only, and
here the innermost loop (over features) is the wrong one; hence the few lines of LLVM below, at the rate of a good
matrix product.

A register of AVX-512 holds a whole tile. One group then is four sums, too few to keep two units busy that each take
four cycles for a sum; so there two groups are searched at once. Labels do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dpkmeans.kernels.simd_f32 import GROUP, LANES

UNROLLED = (1, 2, 3, 4)  # numbers of features whose loop is written out
AT_ONCE = 2 if binding.get_host_cpu_features().get("avx512f", False) else 1  # groups, with more features than that

INT32, INT64, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
POINTS, INDICES = ir.VectorType(FLOAT, LANES), ir.VectorType(INT32, LANES)


class Code:
    """Writes LLVM on rows: vectors with one number for each of the `LANES` points of a tile."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder = builder
        self.arrays = {
            i: context.make_array(kind)(context, builder, args[i])
            for i, kind in enumerate(signature.args)
            if isinstance(kind, types.Array)
        }

    def number(self, value: int) -> Any:
        """A constant."""
        return ir.Constant(INT64, value)

    def entry(self, pointer: Any, *factors: Any) -> Any:
        """The address `pointer` moved by the product of `factors`."""
        offset = factors[0]
        for factor in factors[1:]:
            offset = self.builder.mul(offset, factor)
        return self.builder.gep(pointer, [offset])

    def row(self, pointer: Any, row: Any) -> Any:
        """The address of the row of this number among those at `pointer`."""
        place = self.entry(pointer, row, self.number(LANES))
        return self.builder.bitcast(place, ir.VectorType(pointer.type.pointee, LANES).as_pointer())

    def load(self, pointer: Any, row: Any) -> Any:
        """A row of floats or doubles."""
        return self.builder.load(self.row(pointer, row), align=4 if pointer.type.pointee == FLOAT else 8)

    def store(self, value: Any, pointer: Any, row: Any) -> None:
        """Put a row in its place."""
        self.builder.store(value, self.row(pointer, row), align=4 if pointer.type.pointee == FLOAT else 8)

    def everywhere(self, number: Any) -> Any:
        """A row with `number` in each lane."""
        empty = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
        first = self.builder.insert_element(empty, number, ir.Constant(INT32, 0))
        return self.builder.shuffle_vector(first, empty, _index_everywhere(0))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, rounded once."""
        name = f"llvm.fma.v{LANES}f{32 if a.type == POINTS else 64}"
        kind = ir.FunctionType(a.type, [a.type] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)  # type: ignore[no-untyped-call]
        return self.builder.call(function, [a, b, c])

    def fold(self, stop: Any, values: list[Any], step: Callable[..., list[Any]]) -> list[Any]:
        """`values = step(i, *values)` for i from 0 to `stop`."""
        builder, before = self.builder, self.builder.block
        test, body, done = (builder.append_basic_block(name) for name in ("test", "body", "done"))
        builder.branch(test)
        builder.position_at_end(test)
        phis = [builder.phi(INT64), *(builder.phi(value.type) for value in values)]
        for phi, value in zip(phis, [self.number(0), *values], strict=True):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", phis[0], stop), body, done)
        builder.position_at_end(body)
        following = [builder.add(phis[0], self.number(1)), *step(*phis)]
        for phi, value in zip(phis, following, strict=True):
            phi.add_incoming(value, builder.block)  # a step may end in another block than it began in
        builder.branch(test)
        builder.position_at_end(done)
        return phis[1:]


def _index_everywhere(index: int) -> Any:
    return ir.Constant(INDICES, [index] * LANES)


def _nearest_in_tile(
    typing_context: Any, tiles: Any, t: Any, centroids: Any, half_norms: Any, before: Any, labels: Any, row: Any
) -> Any:
    """Write the nearest centroid of the points of tile `t`, ties to the first, into `labels[row]`.

    `tiles` has shape (tiles, d, LANES), float32; `centroids` and `half_norms` come from `assign.interleave_centroids`;
    `before` and `labels` have shape (rows, LANES) and one integer type. Returns the lanes in which `before[row]`
    differs, as bits.
    """
    signature = types.uint32(tiles, types.intp, centroids, half_norms, before, labels, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Search(context, builder, signature, args)
        return code.write_labels(code.by_features(args[1]), before=4, labels=5, row=args[6])

    return signature, generate


def _two_nearest_in_tile(
    typing_context: Any, tiles: Any, t: Any, centroids: Any, half_norms: Any, labels: Any, scores: Any
) -> Any:
    """`nearest_in_tile` into `labels` (1, LANES) that also writes the two lowest scores to `scores` (2, LANES)."""
    signature = types.uint32(tiles, types.intp, centroids, half_norms, labels, scores)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Search(context, builder, signature, args)
        label, lowest, second = code.search(code.tile(args[1]), with_second=True)
        for i, score in enumerate((lowest, second)):
            code.store(score, code.arrays[5].data, code.number(i))
        return code.write_labels(label, before=4, labels=4, row=code.number(0))

    return signature, generate


nearest_in_tile: Any = intrinsic(_nearest_in_tile)
two_nearest_in_tile: Any = intrinsic(_two_nearest_in_tile)


class _Search(Code):
    """The search through the groups of centroids. Arguments 0, 2, 3: tiles, centroids, half norms."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        super().__init__(context, builder, signature, args)
        self.n_features = builder.extract_value(self.arrays[0].shape, 1)
        self.n_groups = builder.extract_value(self.arrays[2].shape, 0)

    def tile(self, t: Any) -> Any:
        """The address of a tile."""
        return self.entry(self.arrays[0].data, t, self.n_features, self.number(LANES))

    def group(self, pointer: Any) -> list[Any]:
        """`GROUP` rows; each holds one of the numbers at `pointer` in every lane."""
        return [self.everywhere(self.builder.load(self.entry(pointer, self.number(i)))) for i in range(GROUP)]

    def write_labels(self, found: Any, *, before: int, labels: int, row: Any) -> Any:
        """Store labels in their narrower type; returns the lanes that differ from `before`, as bits."""
        builder = self.builder
        old, new = (self.row(self.arrays[i].data, row) for i in (before, labels))
        kind = new.type.pointee
        found = found if kind == INDICES else builder.trunc(found, kind)
        differs = builder.icmp_unsigned("!=", builder.load(old, align=1), found)
        builder.store(found, new, align=1)
        return builder.zext(builder.bitcast(differs, ir.IntType(LANES)), INT32)

    def by_features(self, t: Any) -> Any:
        """The nearest centroid of each lane, the loop over features written out where there are few."""
        builder, tile = self.builder, self.tile(t)
        chosen, general = builder.append_basic_block("chosen"), builder.append_basic_block("general")
        cases = builder.switch(self.n_features, general)
        ends = []
        for fixed in (*UNROLLED, None):
            block = general if fixed is None else builder.append_basic_block(f"features{fixed}")
            if fixed is not None:
                cases.add_case(self.number(fixed), block)
            builder.position_at_end(block)
            ends.append((self.search(tile, fixed)[0], builder.block))
            builder.branch(chosen)
        builder.position_at_end(chosen)
        nearest = builder.phi(INDICES)
        for value, block in ends:
            nearest.add_incoming(value, block)
        return nearest

    def add_feature(self, tile: Any, groups: list[Any], feature: Any, scores: list[Any]) -> list[Any]:
        """The scores of groups of centroids with one more feature."""
        x = self.load(tile, feature)
        column = [c for group in groups for c in self.group(self.entry(group, feature, self.number(GROUP)))]
        return [self.fma(x, c, score) for c, score in zip(column, scores, strict=True)]

    def scores(self, tile: Any, groups: list[Any], starts: list[Any], fixed: int | None) -> list[Any]:
        """All features added to `starts`: written out where their number is `fixed`, else in a loop."""
        if fixed is None:
            return self.fold(
                self.n_features, starts, lambda j, *scores: self.add_feature(tile, groups, j, list(scores))
            )
        for j in range(fixed):
            starts = self.add_feature(tile, groups, self.number(j), starts)
        return starts

    def lower(self, first: list[Any], other: list[Any]) -> list[Any]:
        """Per lane the lower of two (score, index, second lowest score); the first where scores are equal.

        Without second scores, the list ends after the index.
        """
        select = self.builder.select
        closer = self.builder.fcmp_ordered("<", other[0], first[0])
        merged = [select(closer, b, a) for a, b in zip(first[:2], other[:2], strict=True)]
        if len(first) == 3:
            loser = select(closer, first[0], other[0])
            seconds = select(closer, other[2], first[2])
            merged.append(select(self.builder.fcmp_ordered("<", loser, seconds), loser, seconds))
        return merged

    def search(self, tile: Any, fixed: int | None = None, *, with_second: bool = False) -> list[Any]:
        """Per lane the index of the first centroid with the lowest score, that score, and the second lowest."""
        builder = self.builder
        infinite = ir.Constant(POINTS, [float("inf")] * LANES)
        seconds = [infinite] if with_second else []
        half_norms = self.arrays[3].data
        indices = builder.gep(half_norms, [builder.extract_value(self.arrays[3].shape, 1)])
        indices = builder.bitcast(indices, INT32.as_pointer())

        def lowest_of(first: Any, width: int, best: list[Any]) -> list[Any]:
            """`best` against the `width` groups from number `first` on."""
            places = [builder.mul(builder.add(first, self.number(i)), self.number(GROUP)) for i in range(width)]
            starts = [start for place in places for start in self.group(self.entry(half_norms, place))]
            groups = [self.entry(self.arrays[2].data, place, self.n_features) for place in places]
            totals = self.scores(tile, groups, starts, fixed)
            names = [name for place in places for name in self.group(self.entry(indices, place))]
            candidates = [[score, name, *seconds] for score, name in zip(totals, names, strict=True)]
            while len(candidates) > 1:  # pairs, not a chain: comparisons within a group need not wait for each other
                candidates = [self.lower(*pair) for pair in zip(candidates[::2], candidates[1::2], strict=True)]
            return self.lower(best, candidates[0])

        best, done = [infinite, _index_everywhere(0), *seconds], self.number(0)
        for width in [AT_ONCE, 1] if AT_ONCE > 1 and fixed is None else [1]:
            times = builder.sdiv(builder.sub(self.n_groups, done), self.number(width))

            def step(i: Any, *best: Any, width: int = width, done: Any = done) -> list[Any]:
                return lowest_of(builder.add(done, builder.mul(i, self.number(width))), width, list(best))

            best = self.fold(times, best, step)
            done = builder.add(done, builder.mul(times, self.number(width)))
        lowest, index, *second = best
        return [index, lowest, *second]
