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
    typing_context: Any, tiles: Any, t: Any, centroids: Any, halves: Any, before: Any, labels: Any, row: Any
) -> Any:
    """Write the nearest centroid of the points of tile `t`, ties to the first, into `labels[row]`.

    `tiles` has shape (tiles, d, LANES), float32; `centroids` and `halves` come from `kernels.group`; `before` and
    `labels` have shape (rows, LANES) and one integer type. Returns the lanes in which `before[row]` differs, as bits.
    """
    signature = types.uint32(tiles, types.intp, centroids, halves, before, labels, types.intp)
    return signature, _generate


nearest_in_tile: Any = intrinsic(_nearest_in_tile)


def _generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    arrays = {
        name: context.make_array(signature.args[i])(context, builder, args[i])
        for i, name in ((0, "tiles"), (2, "centroids"), (3, "halves"), (4, "before"), (5, "labels"))
    }
    tiles, centroids, halves = arrays["tiles"], arrays["centroids"], arrays["halves"]
    n_features = builder.extract_value(tiles.shape, 1)
    n_groups = builder.extract_value(centroids.shape, 0)
    code = _Code(builder)
    tile = code.entry(tiles.data, args[1], n_features, code.number(LANES))

    chosen = builder.append_basic_block("chosen")
    general = builder.append_basic_block("general")
    cases = builder.switch(n_features, general)
    ends = []
    for fixed in (*UNROLLED, None):
        block = general if fixed is None else builder.append_basic_block(f"features{fixed}")
        if fixed is not None:
            cases.add_case(code.number(fixed), block)
        builder.position_at_end(block)
        nearest = code.search(tile, centroids.data, halves.data, n_features, n_groups, fixed)
        ends.append((nearest, builder.block))
        builder.branch(chosen)
    builder.position_at_end(chosen)
    nearest = builder.phi(INDICES)
    for value, block in ends:
        nearest.add_incoming(value, block)

    narrow = ir.VectorType(ir.IntType(signature.args[5].dtype.bitwidth), LANES)
    found = nearest if narrow == INDICES else builder.trunc(nearest, narrow)

    def labels_at(name: str) -> Any:
        place = code.entry(arrays[name].data, args[6], code.number(LANES))
        return builder.bitcast(place, narrow.as_pointer())

    differs = builder.icmp_unsigned("!=", builder.load(labels_at("before"), align=1), found)
    builder.store(found, labels_at("labels"), align=1)
    return builder.zext(builder.bitcast(differs, ir.IntType(LANES)), INT32)


def _everywhere(index: int) -> Any:
    return ir.Constant(INDICES, [index] * LANES)


class _Code:
    """Writes LLVM for the search through the groups of centroids."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        kind = ir.FunctionType(POINTS, [POINTS] * 3)
        name = f"llvm.fma.v{LANES}f32"
        self.fma = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]

    def number(self, value: int) -> Any:
        """A constant."""
        return ir.Constant(INT64, value)

    def entry(self, pointer: Any, *factors: Any) -> Any:
        """The address `pointer` moved by the product of `factors`."""
        offset = factors[0]
        for factor in factors[1:]:
            offset = self.builder.mul(offset, factor)
        return self.builder.gep(pointer, [offset])

    def everywhere(self, scalar: Any, kind: Any) -> Any:
        """A vector with `scalar` in each lane."""
        empty = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(empty, scalar, ir.Constant(INT32, 0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(INDICES, [0] * LANES))

    def add_feature(self, tile: Any, group: Any, feature: Any, scores: list[Any]) -> list[Any]:
        """The scores of a group of centroids with one more feature."""
        builder = self.builder
        place = self.entry(tile, feature, self.number(LANES))
        x = builder.load(builder.bitcast(place, POINTS.as_pointer()), align=4)
        column = self.entry(group, feature, self.number(GROUP))
        centroids = [self.everywhere(builder.load(self.entry(column, self.number(i))), POINTS) for i in range(GROUP)]
        return [builder.call(self.fma, [x, c, score]) for c, score in zip(centroids, scores, strict=True)]

    def scores(self, tile: Any, group: Any, starts: list[Any], n_features: Any, fixed: int | None) -> list[Any]:
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
        builder.cbranch(builder.icmp_signed("<", following, n_features), loop, after)
        builder.position_at_end(after)
        return totals

    def lower(self, first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
        """Per lane the lower of two scores with its index; the first where they are equal."""
        closer = self.builder.fcmp_ordered("<", second[0], first[0])
        return self.builder.select(closer, second[0], first[0]), self.builder.select(closer, second[1], first[1])

    def search(self, tile: Any, centroids: Any, halves: Any, n_features: Any, n_groups: Any, fixed: int | None) -> Any:
        """The index of the first centroid with the lowest score, for each lane."""
        builder, before = self.builder, self.builder.block
        loop, done = builder.append_basic_block("each_group"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        group, best, label = builder.phi(INT64), builder.phi(POINTS), builder.phi(INDICES)
        first = builder.phi(INDICES)  # the index of the group's first centroid
        first.add_incoming(_everywhere(0), before)
        group.add_incoming(self.number(0), before)
        best.add_incoming(ir.Constant(POINTS, [float("inf")] * LANES), before)
        label.add_incoming(_everywhere(0), before)
        first_half = self.entry(halves, group, self.number(GROUP))
        first_centroid = self.entry(centroids, group, n_features, self.number(GROUP))
        starts = [self.everywhere(builder.load(self.entry(first_half, self.number(i))), POINTS) for i in range(GROUP)]
        totals = self.scores(tile, first_centroid, starts, n_features, fixed)
        round_ = [(score, _everywhere(i)) for i, score in enumerate(totals)]
        while len(round_) > 1:  # pairs, not a chain: comparisons within a group need not wait for each other
            round_ = [self.lower(*pair) for pair in zip(round_[::2], round_[1::2], strict=True)]
        lowest, index = self.lower((best, label), (round_[0][0], builder.add(first, round_[0][1])))
        following = builder.add(group, self.number(1))
        group.add_incoming(following, builder.block)
        best.add_incoming(lowest, builder.block)
        label.add_incoming(index, builder.block)
        first.add_incoming(builder.add(first, _everywhere(GROUP)), builder.block)
        builder.cbranch(builder.icmp_signed("<", following, n_groups), loop, done)
        builder.position_at_end(done)
        return index
