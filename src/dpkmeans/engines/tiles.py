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


def _nearest_in_tile(typing_context: Any, tiles: Any, t: Any, centroids: Any, halves: Any, labels: Any) -> Any:
    """Write the nearest centroid of the points of tile `t`, ties to the first, into `labels`, shape (LANES,).

    `tiles` has shape (tiles, d, LANES), float32; `centroids` and `halves` come from `kernels.group`.
    """
    signature = types.void(tiles, types.intp, centroids, halves, labels)
    return signature, _generate


nearest_in_tile: Any = intrinsic(_nearest_in_tile)


def _generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    int32, int64, float32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
    points, indices = ir.VectorType(float32, LANES), ir.VectorType(int32, LANES)
    tiles, centroids, halves, labels = (
        context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 2, 3, 4)
    )
    fma = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, ir.FunctionType(points, [points] * 3), f"llvm.fma.v{LANES}f32"
    )

    def number(value: int) -> Any:
        return ir.Constant(int64, value)

    def entry(pointer: Any, *factors: Any) -> Any:
        """The address `pointer` moved by the product of `factors`."""
        offset = factors[0]
        for factor in factors[1:]:
            offset = builder.mul(offset, factor)
        return builder.gep(pointer, [offset])

    def everywhere(scalar: Any, kind: Any) -> Any:
        """A vector with `scalar` in each lane."""
        empty = ir.Constant(kind, ir.Undefined)
        first = builder.insert_element(empty, scalar, ir.Constant(int32, 0))
        return builder.shuffle_vector(first, empty, ir.Constant(indices, [0] * LANES))

    n_features = builder.extract_value(tiles.shape, 1)
    n_groups = builder.extract_value(centroids.shape, 0)
    tile = entry(tiles.data, args[1], n_features, number(LANES))
    before = builder.block
    each_group, each_feature, compare, done = (
        builder.append_basic_block(name) for name in ("each_group", "each_feature", "compare", "done")
    )
    builder.branch(each_group)

    builder.position_at_end(each_group)
    group, best, label = builder.phi(int64), builder.phi(points), builder.phi(indices)
    group.add_incoming(number(0), before)
    best.add_incoming(ir.Constant(points, [float("inf")] * LANES), before)
    label.add_incoming(ir.Constant(indices, [0] * LANES), before)
    first_half = entry(halves.data, group, number(GROUP))
    first_centroid = entry(centroids.data, group, n_features, number(GROUP))
    starts = [everywhere(builder.load(entry(first_half, number(i))), points) for i in range(GROUP)]
    builder.branch(each_feature)

    builder.position_at_end(each_feature)
    feature, scores = builder.phi(int64), [builder.phi(points) for _ in range(GROUP)]
    feature.add_incoming(number(0), each_group)
    x = builder.load(builder.bitcast(entry(tile, feature, number(LANES)), points.as_pointer()), align=4)
    column = entry(first_centroid, feature, number(GROUP))
    sums = [
        builder.call(fma, [x, everywhere(builder.load(entry(column, number(i))), points), score])
        for i, score in enumerate(scores)
    ]
    for score, start, total in zip(scores, starts, sums, strict=True):
        score.add_incoming(start, each_group)
        score.add_incoming(total, each_feature)
    next_feature = builder.add(feature, number(1))
    feature.add_incoming(next_feature, each_feature)
    builder.cbranch(builder.icmp_signed("<", next_feature, n_features), each_feature, compare)

    builder.position_at_end(compare)
    nearest, nearest_label = best, label
    first_index = builder.trunc(builder.mul(group, number(GROUP)), int32)
    for i, score in enumerate(sums):
        closer = builder.fcmp_ordered("<", score, nearest)
        index = everywhere(builder.add(first_index, ir.Constant(int32, i)), indices)
        nearest = builder.select(closer, score, nearest)
        nearest_label = builder.select(closer, index, nearest_label)
    next_group = builder.add(group, number(1))
    group.add_incoming(next_group, compare)
    best.add_incoming(nearest, compare)
    label.add_incoming(nearest_label, compare)
    builder.cbranch(builder.icmp_signed("<", next_group, n_groups), each_group, done)

    builder.position_at_end(done)
    builder.store(nearest_label, builder.bitcast(labels.data, indices.as_pointer()), align=4)
    return context.get_dummy_value()
