"""The innermost loop: the nearest centroid of each point of a tile, on whole vector registers.

A tile holds `LANES` points feature by feature, so that one load gives one feature of all of them. Centroids come in
groups of `GROUP`, negated and interleaved, so that each load of points serves a whole group. The score of a centroid
is ½|c|² - x·c, built up feature by feature with fused multiply-add in float32: every implementation that follows
this order gives the same bits. Compilers vectorise innermost loops only, and here the innermost loop (over features)
is the wrong one; hence the few lines of LLVM below. They run at the rate of a good matrix product.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16
GROUP = 4
UNROLLED = (1, 2, 3, 4)  # numbers of features whose loop is written out

INT32, INT64, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
POINTS, INDICES = ir.VectorType(FLOAT, LANES), ir.VectorType(INT32, LANES)


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
        code = _Code(context, builder, signature, args)
        return code.write_labels(code.by_features(args[1]), before=4, labels=5, row=args[6])

    return signature, generate


def _two_nearest_in_tile(
    typing_context: Any,
    tiles: Any,
    t: Any,
    centroids: Any,
    half_norms: Any,
    before: Any,
    labels: Any,
    row: Any,
    scores: Any,
) -> Any:
    """`nearest_in_tile` that also writes the lowest and the second lowest score into `scores` (2, LANES), float32."""
    signature = types.uint32(tiles, types.intp, centroids, half_norms, before, labels, types.intp, scores)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(context, builder, signature, args)
        label, lowest, second = code.search(code.tile(args[1]), with_second=True)
        for i, score in enumerate((lowest, second)):
            place = code.entry(code.arrays[7].data, code.number(i * LANES))
            builder.store(score, builder.bitcast(place, POINTS.as_pointer()), align=4)
        return code.write_labels(label, before=4, labels=5, row=args[6])

    return signature, generate


nearest_in_tile: Any = intrinsic(_nearest_in_tile)
two_nearest_in_tile: Any = intrinsic(_two_nearest_in_tile)


def _everywhere(index: int) -> Any:
    return ir.Constant(INDICES, [index] * LANES)


class _Code:
    """Writes LLVM for the search through the groups of centroids. Arguments 0, 2, 3: tiles, centroids, half norms."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder = builder
        self.types = signature.args
        self.arrays = {
            i: context.make_array(kind)(context, builder, args[i])
            for i, kind in enumerate(signature.args)
            if isinstance(kind, types.Array)
        }
        self.n_features = builder.extract_value(self.arrays[0].shape, 1)
        self.n_groups = builder.extract_value(self.arrays[2].shape, 0)
        kind = ir.FunctionType(POINTS, [POINTS] * 3)
        name = f"llvm.fma.v{LANES}f32"
        self.fma = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]

    def number(self, value: int) -> Any:
        return ir.Constant(INT64, value)

    def entry(self, pointer: Any, *factors: Any) -> Any:
        """The address `pointer` moved by the product of `factors`."""
        offset = factors[0]
        for factor in factors[1:]:
            offset = self.builder.mul(offset, factor)
        return self.builder.gep(pointer, [offset])

    def tile(self, t: Any) -> Any:
        """The address of a tile."""
        return self.entry(self.arrays[0].data, t, self.n_features, self.number(LANES))

    def everywhere(self, pointer: Any, kind: Any) -> list[Any]:
        """`GROUP` vectors; each holds one of the numbers at `pointer` in every lane."""
        builder, empty, vectors = self.builder, ir.Constant(kind, ir.Undefined), []
        for i in range(GROUP):
            scalar = builder.load(self.entry(pointer, self.number(i)))
            first = builder.insert_element(empty, scalar, ir.Constant(INT32, 0))
            vectors.append(builder.shuffle_vector(first, empty, _everywhere(0)))
        return vectors

    def write_labels(self, found: Any, *, before: int, labels: int, row: Any) -> Any:
        """Store labels in their narrower type; returns the lanes that differ from `before`, as bits."""
        builder = self.builder
        kind = ir.VectorType(ir.IntType(self.types[labels].dtype.bitwidth), LANES)
        found = found if kind == INDICES else builder.trunc(found, kind)
        old, new = (
            builder.bitcast(self.entry(self.arrays[i].data, row, self.number(LANES)), kind.as_pointer())
            for i in (before, labels)
        )
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

    def add_feature(self, tile: Any, group: Any, feature: Any, scores: list[Any]) -> list[Any]:
        """The scores of a group of centroids with one more feature."""
        place = self.entry(tile, feature, self.number(LANES))
        x = self.builder.load(self.builder.bitcast(place, POINTS.as_pointer()), align=4)
        column = self.everywhere(self.entry(group, feature, self.number(GROUP)), POINTS)
        return [self.builder.call(self.fma, [x, c, score]) for c, score in zip(column, scores, strict=True)]

    def scores(self, tile: Any, group: Any, starts: list[Any], fixed: int | None) -> list[Any]:
        """All features added to `starts`: written out where their number is `fixed`, else in a loop."""
        if fixed is not None:
            for j in range(fixed):
                starts = self.add_feature(tile, group, self.number(j), starts)
            return starts
        builder, before = self.builder, self.builder.block
        loop, after = builder.append_basic_block("each_feature"), builder.append_basic_block("compare")
        builder.branch(loop)
        builder.position_at_end(loop)
        feature, partial = builder.phi(INT64), [builder.phi(POINTS) for _ in starts]
        totals = self.add_feature(tile, group, feature, partial)
        following = builder.add(feature, self.number(1))
        feature.add_incoming(self.number(0), before)
        feature.add_incoming(following, loop)
        for phi, start, total in zip(partial, starts, totals, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(total, loop)
        builder.cbranch(builder.icmp_signed("<", following, self.n_features), loop, after)
        builder.position_at_end(after)
        return totals

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
        builder, before = self.builder, self.builder.block
        loop, done = builder.append_basic_block("each_group"), builder.append_basic_block("done")
        nothing = [ir.Constant(POINTS, [float("inf")] * LANES), _everywhere(0)]
        if with_second:
            nothing.append(nothing[0])
        half_norms = self.arrays[3].data
        indices = builder.gep(half_norms, [builder.extract_value(self.arrays[3].shape, 1)])
        indices = builder.bitcast(indices, INT32.as_pointer())
        builder.branch(loop)
        builder.position_at_end(loop)
        group, best = builder.phi(INT64), [builder.phi(value.type) for value in nothing]
        place = builder.mul(group, self.number(GROUP))
        starts = self.everywhere(self.entry(half_norms, place), POINTS)
        totals = self.scores(tile, self.entry(self.arrays[2].data, place, self.n_features), starts, fixed)
        names = self.everywhere(self.entry(indices, place), INDICES)
        candidates = [[score, name, *nothing[2:]] for score, name in zip(totals, names, strict=True)]
        while len(candidates) > 1:  # pairs, not a chain: comparisons within a group need not wait for each other
            candidates = [self.lower(*pair) for pair in zip(candidates[::2], candidates[1::2], strict=True)]
        nearest = self.lower(best, candidates[0])
        following = builder.add(group, self.number(1))
        group.add_incoming(self.number(0), before)
        group.add_incoming(following, builder.block)
        for phi, start, value in zip(best, nothing, nearest, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, self.n_groups), loop, done)
        builder.position_at_end(done)
        return [nearest[1], nearest[0], *nearest[2:]]
