"""Every constant of the synopsis, with its unit and, as `#anchor`, the section of ADR 0001 that explains it.

ADR 0001 is docs/decisions/0001-synopsis.md. Shares are of the budget of their part. `signal` = N·ε/k is the number of
records per cluster times ε; it, k and the number d of features are the quantities that the plan depends on.
"""

from __future__ import annotations

import math

import numpy as np

# #number-of-records
COUNT_SHARE = 0.03  # of ε, for the number of records
RECOUNT_SHARE = 0.06  # of ε, to count once more where a zoom depends on it (0.05 and 0.08 alike)
RECOUNT_DOUBT = 2.0  # deviations by which the first count may be too small (1.2 and 1.5 gained less)
RECOUNT_FEATURES = 3  # features; in fewer, a grid resolves a loose box, and in 4 a zoom needs more records
MIN_SIGNAL = 10.0  # signal; a fit below it, or below `WARN_SIGNAL` per feature, warns

# #what-decides
MAX_GRID_FEATURES = 3  # features; up to here always a grid
MIN_TREE_FEATURES = 5  # features; from here on a tree
MIN_TREE_SIGNAL = 80.0  # signal; with 4 features, from here on a tree
MIN_HYPERPLANE_FEATURES = 16  # features; from here on hyperplanes, with a strong signal
MIN_ALWAYS_HYPERPLANE_FEATURES = 27  # features; from here on hyperplanes with a weak signal too

# #fewer-features
TREE_NOISE = 0.02  # of the squared noise of a mean: the mean of a cluster is one of leaves, whose sides are shorter
CLUSTER_VARIANCE = 0.2  # of clusters around the mean of all, in squared half sides of a box that fits
LEFT_OUT_VARIANCE = 0.25  # of clusters around the middle of such a side
WITHIN_VARIANCE = 0.03  # of records around the best centroids
MIN_KEPT = 0.7  # of all squared sides, in the features that are kept
CLEARLY_FEWER = 0.5  # of the expected loss with all features; fewer are taken where it is less

# #whether-the-box-fits
FIT_SIGNAL = 12.0  # N·ε times the share of ε for the question, within the limits below: noise of 1/12 of the records
LEAST_FIT_SIGNAL = 6.0  # of it; with a noisier answer nothing is asked
MIN_FIT_SHARE, MAX_FIT_SHARE = 0.01, 0.1  # of ε
USUAL_FIT_SHARE = 0.04  # of ε; more is only spent where the answer decides much
MAX_FIT_SIDES = 8  # sides, the longest, of which halves are taken
SIDES_PER_WHOLE = 4  # sides for each that may stay whole, but at least one
MIN_TIGHT_OUTSIDE = 0.3  # of the records outside the fullest box of half sides, if the box fits (two clusters: 0.5)
FEW_TIGHT_OUTSIDE = 0.15  # the same, with up to `FEW_CLUSTERS`: one of them may hold most records
TIGHT_DOUBT = 5.0  # noise scales; but no less than these (3 mistook a box of `corner` in one fit of 100)
MAX_LOOSE_OUTSIDE = 0.1  # the same, if it is too wide
COUNTS_SIGNAL = 24.0  # signal; with less, in a box that fits, a grid (20 and 28 gained less on 400 cells)
FEW_COUNTS_SIGNAL = 3.0  # signal per feature; the same with fewer than `MANY_CLUSTERS`, if it is less
MANY_CLUSTERS = 15  # clusters
MAX_COUNTS_FEATURES = 20  # features; the same (in 23 to 26 half of the problems lost)
FEW_CLUSTERS = 8  # clusters; so many at most, in a box that fits, are told apart by a tree in any number of features
FEW_CLUSTERS_SIGNAL = 4.5  # N·ε per feature; if there is so much

# #one-mean-in-two-steps
TWO_STEPS_SIGNAL = 5.5  # N·ε per feature; from here on two steps are no worse than one
ONE_MEAN_SIGNAL = 100.0  # N·ε per feature; up to here one mean, in a box that is too wide, in place of a tree (30)
ONE_MEAN_CLUSTER_SIGNAL = 4.0  # signal per feature; the same (3 and 5 on 148 cells, 3 on 141 more)
NEAR_SIGNAL, MAX_NEAR_SHARE = 10.0, 0.1  # N·ε times the share of ε for the question between them, and the most of ε
NEAR_DEVIATIONS = 2.0  # of the first mean; the noise of a cube hardly reaches further (1.75 and 3 were tried)
MIN_NEAR = 0.6  # of all values within them: then the second mean is clipped to them (0.5 took digits for a point)

# #grid
GRID_FIRST_SHARE = 0.10  # of ε, for the coarse counts
GRID_FIRST_UNIT = 10.0  # records times ε per coarse cell
GRID_UNIT = 4.0  # c in M = (N·ε/c)^(2d/(2+d)) cells, at k = 3
GRID_COARSE_UNIT = 7.0  # c where centroids are re-centred: larger cells are enough to find the clusters
GRID_UNIT_EXPONENT = 0.2  # c falls as (3/k)^0.2
GRID_CELLS_PER_CLUSTER = 7.0  # cells, at least
MAX_GRID_CELLS = 8192  # cells
MAX_FIRST_CELLS = 512  # coarse cells
MIN_CELL_SHARE = 1e-9  # records added to each coarse cell, so that an empty one still gets a cell
MAX_ROUNDING = 4  # times as many cells as wanted, after rounding to whole cuts

# #smoothing
MIN_POINTS, MAX_POINTS = 4096, 16_384  # points that stand for all cells, at most
POINTS_PER_CELL = 4  # at most, between these two limits
MAX_PARTS = 3  # points per feature and cell; more change nothing
NEIGHBOUR_REACH = 0.75  # sides of a cell, from its middle into the next one

# #tree
TREE_SHAPE_SHARE = 0.15  # of ε, for the shape
MIN_LEAF_LIMIT = 1024  # leaves; the limit grows with k: noise takes time to draw, and more leaves gain little
TREE_LEAVES_PER_CLUSTER = 24  # leaves
MIN_TREE_DEPTH, MAX_TREE_DEPTH = 10, 20  # halvings
EXTRA_TREE_DEPTH = 6  # halvings beyond log2(N·ε)
MIN_WEIGHT = 1e-9  # records of a leaf, to divide by
OFFSET_VARIANCE = 0.2  # prior variance of a leaf's mean, in squared half sides; 1/3 if it were uniform

# #counts-alone
MAX_OFFSET_DEVIATION = 0.4  # half sides; with a noisier mean of all, leaves are only counted (0.3 and 0.6 on 85 cells)
COUNTED_SHAPE_SHARE = 0.7  # of ε, for the shape of a tree whose leaves are only counted (0.3, 0.5, 0.85 on 14 problems)

# #hyperplanes
MIDDLE_SHARE, MAX_MIDDLE_SHARE = 0.07, 0.5  # of ε
MIDDLE_DEVIATION = 0.1  # half sides; a larger share is spent on the middle where it would be noisier than this
TIGHT_MIDDLE_DEVIATION = 0.15  # the same in a box that fits (0.1 and 0.2 on 26 problems)
MIN_MEANS_ZOOM = 35.0  # N·ε per feature; with less no zoom, but one mean in two steps (20 and 60 on 74 problems)
MAX_MIDDLE_DEVIATION = 0.15  # half sides; the mean of a zoom is the middle where it has less noise (not varied)
SPREAD_SHARE = 0.032  # of ε
RADIUS_SHARE, MAX_RADIUS_SHARE = 0.043, 0.15  # of ε
RADIUS_SIGNAL = 40.0  # N·ε times the share for the radius, within these limits (80 and none on 261 cells)
SIDES_SHARE = 0.3  # of the rest; the means get what is left (0.387 and 0.5 on 41 cells)
THRESHOLD_OFFSET = 0.4  # standard deviations by which every other hyperplane is moved off the middle
MIN_DIRECTIONS, MAX_DIRECTIONS = 3, 14  # hyperplanes
MIN_SPREAD, MAX_SPREAD = 0.001, 0.6  # of the half diagonal; limits of the estimated mean distance
MIN_HALF_SIDE = 2.0**-20  # of the unit box; a feature without a width counts as this wide

# #overclustering
OVERCLUSTERING = 1.5  # clusters per wanted cluster, on the way
RECORDS_PER_MEAN = 4  # N·ε per cluster and feature that pays for one more cluster
OCCUPIED_THRESHOLD = 0.7  # times log(cells)/ε; a cell with a larger noisy count is kept
HYPERPLANE_RESTARTS = 20  # k-means++ starts

# #one-budget-for-the-means
MIN_MEANS_SIGNAL = 6.0  # signal per feature; below it there is no re-centring step
WEAK_SIDES_SHARE = 0.1  # of ε, below it (0.05, 0.08, 0.12, 0.16 and 0.24 on 201 cells)

# #re-centring
GRID_RECENTRE_SHARE = 0.5  # of ε, where centroids are re-centred
GRID_CORRECT_SHARE = 0.4  # of ε, where cells are corrected (0.35, 0.5 and 0.6 on 146 cells)
TREE_RECENTRE_SHARE = 0.4  # of ε
HYPERPLANE_RECENTRE_SHARE = 0.4  # of ε (0.2, 0.27, 0.5 and 0.6 on 41 cells)
HYPERPLANE_RADIUS_SHARE = 0.07  # of ε, to learn the radius of that step (0.03, 0.05 and 0.08 on 41 cells)
TREE_RECENTRE_SIGNAL = 150.0  # signal; from here on a tree is re-centred, if there is
TREE_FEATURE_SIGNAL = 36.0  # also so much signal per feature: between unequal sizes (26) and `corner` (40)
WIDE_SIGNAL = 500.0  # signal; from here on clipping costs more than noise
NARROW_REACH, WIDE_REACH = 0.5, 1.0  # of the distance to the next centroid; below and from `WIDE_SIGNAL` on
CLIP_DEVIATIONS = 2.5  # standard deviations of the synopsis to which residuals are clipped
GRID_CLIP_DEVIATIONS = 1.75  # the same, on a grid below `WIDE_SIGNAL`
TREE_RADIUS_SIGNAL = 600.0  # signal per feature; below it the radius is learned on a tree (from 560 on no gain)
TREE_RADIUS_SHARE = 0.1  # of ε of that step, to learn the radius on a tree (0.07 and 0.15 on 114 cells)
RADIUS_DEVIATIONS = 4.0  # standard deviations of the synopsis: the scale on which it is learned (3 was tried)
MIN_RADIUS = 2.0**-10  # of the unit box
SHRINK = 0.5  # of noise/move², by which a move is shrunk; James and Stein have (d - 2)/d
TRUSTED_DEVIATIONS = 1.0  # standard deviations of the noise; a cluster with a smaller count does not move
RADIUS_EDGES = np.array([0.0, *(math.sqrt(math.ldexp(1.0, e)) for e in range(-14, 3))])  # of its scale; 0, 2^-7, ..., 2
RADIUS_THRESHOLD = 3.0  # noise scales; a smaller bin counts as empty (1.5 and 5 were worse on 113 cells)
CLIPPING = 3.0  # weight of clipping against noise in a learned radius (1 and 8 were worse on 113 cells)

# #re-centring-a-grid-earlier
GRID_RECENTRE_SIGNAL = 160.0  # signal times features; from here on a grid is re-centred
MIN_RECENTRE_SIGNAL = 55.0  # signal; but not below this

# #extrapolation
EXTRAPOLATION = 0.75  # of the next Lloyd step

# #correction
CORRECT_CLUSTERS = 5  # clusters; so many at least, on a grid or a tree (with hyperplanes any number is)
CORRECT_FEW_SIGNAL = 60.0  # signal per feature; up to here, in up to 2 features
CORRECT_SIGNAL = 50.0  # signal per feature and cluster; up to here, in more features
GRID_CORRECT_SIGNAL = 160.0  # signal times squared features; from here on a grid is corrected
MIN_CORRECT_SIGNAL = 33.0  # signal; but not below this (55 and 15 on 88 cells)
STEP_OVERCLUSTERING = 1.5  # centroids that the step asks about, for each wanted cluster
TREE_SPREAD = 0.7  # of the distance to their mean that the points of a tree keep (0.4 and 1 on 86 cells)
MOST_OCCUPIED = 0.999  # probability that a cell is not empty, before it is counted
EMPTY_DOUBT = 1.0  # deviations of the noise; a cell of so many records may as well be empty (4 lost on `unequal`)

# #limits-of-computing-time
RESTARTS = 30  # k-means++ starts
SWAPS_PER_CLUSTER = 10  # trials to move one centroid elsewhere
SWAP_PASSES = 2  # Lloyd passes of a trial
MAX_SWAP_WORK = 10**9  # steps of the innermost loop, over all trials
MAX_WORK = 2 * 10**9  # steps of the innermost loop, over all starts
TYPICAL_PASSES = 30  # Lloyd passes per start, to estimate the work
PASSES_PER_START = 1000  # Lloyd passes, at most
MAX_PASSES = 20_000  # Lloyd passes from the best start, at most
PADDING_WEIGHT = 1e-9  # of the total weight, for points added to reach k distinct ones
ZONE_EPSILON = 0.1  # shapes the draw inside a zone; on a synopsis it is no budget
MAX_ZONE_STEPS = 300  # steps

# #published-grids
UNIFORM_COUNT_SHARE = 0.05  # of ε, for the number of records
UNIFORM_UNIT = 10.0  # c of the uniform grid of Su et al.
MAX_UNIFORM_CELLS = 2**16  # cells
MIN_HISTOGRAM_RECORDS = 3.0  # records; below, Lei's formula for the width of a cell means nothing
HYBRID_SHARE = 0.5  # of ε, for the noisy Lloyd step of the hybrid

# #zoom
ZOOM_SIGNAL = 60.0  # N·ε times the share of ε for one choice, within the limits below
MIN_RECTANGLE_SHARE, MAX_RECTANGLE_SHARE = 0.03, 0.13  # of ε, for a choice among rectangles
MIN_NESTED_SHARE, MAX_NESTED_SHARE = 0.02, 0.07  # of ε, for a choice among nested boxes
MIN_MEAN_SHARE, MAX_MEAN_SHARE = 0.02, 0.06  # of ε, for the mean that they are nested around
MEAN_DEVIATION = 0.08  # half sides; the deviation of that mean which is aimed at
MAX_MEAN_DEVIATION = 0.3  # half sides; a mean with more noise says nothing (0.5 lost on 3 random problems of 5)
RECTANGLES = {  # by features: cells a side of a grid, lengths of intervals in cells, intervals that cover a point
    1: (64, (64, 45, 32, 23, 16, 11, 8), 4),
    2: (64, (64, 45, 32, 23, 16, 11, 8), 4),
    3: (16, (16, 8, 4), 2),
    4: (8, (8, 4, 2), 2),
}  # beyond, boxes are nested around the mean
RECTANGLE_PRICE = 1.15  # times what the choice may be off by, per halving of all sides: 10 noise scales in the plane
NESTED_BOXES = 13  # boxes: 2, √2, ..., 1/32 of a side
NESTED_PRICE = 6.0  # noise scales per halving of all sides
ZOOM_LOSS = 0.002  # of the records, which a halving of all sides may leave outside
MAX_PRICE = 0.8  # of the records, for the smallest candidate: what keeps a box from shrinking to nothing
COUNT_DOUBT = 1.0  # deviations by which the released number of records may be too large (0 and 1.5 on House)
ZOOM_INERTIA = 2.0  # noise scales by which the whole box is preferred
MAX_NESTED_NOISE = 0.25  # of the records, for nested boxes, as they are nested around a noisy mean
MAX_ZOOM_NOISE = 0.4  # of the records; where a choice may be off by more, there is none
ZOOM_DOUBT = 1.0  # deviations by which the released number of records may be too small for that (0 and 2 tried)
ZOOM_AGAIN_DEVIATION = 0.15  # half sides of the box that was found; with a mean noisier than this, once more
MIN_HALVINGS = 0.5  # on average over the features; a box that is hardly smaller is not taken
MAX_ZOOMS = 6  # rounds; each makes a side up to 8 times shorter (3 left House in a box 1000 times too wide at 1.8)
MAX_ZOOM_SHARE = 0.15  # of ε; once more is spent, no round begins

# #uneven-sides
SIDE_PARTS = 32  # equal parts of a side, of which intervals are made
SIDE_LENGTHS, SIDE_OVERLAP = (32, 16, 8, 4, 2, 1), 2  # of intervals, in parts; intervals of a length that cover a part
SIDE_SIGNAL = 30.0  # N·ε over features, times the share of ε for a choice in every side
MIN_SIDE_SHARE, MAX_SIDE_SHARE = 0.005, 0.03  # of ε; where it would take more, nothing is asked (0.06: 4 % worse)
SIDE_PRICE = 2.0  # noise scales per halving of a side
UNEVEN = 1.1  # halvings; the deviation between sides from which they are cut (0.75 and 1 were tried)
SIDE_SLACK = 2.0  # lengths of the interval that was chosen, which a side is cut to
CUT_SIGNAL = 1000.0  # N·ε times the share of ε for the records that the cuts leave outside (300 hurt Adult)
MAX_CUT_SHARE = 0.05  # of ε, for that
MAX_CUT_OUTSIDE = 0.002  # of the records; cuts that leave more outside are widened (0.005 hurt Adult)

# #widening
WIDEN_SIGNAL = 60.0  # N·ε times the share of ε for the counts around a box, within the limits below
MIN_WIDEN_SHARE, MAX_WIDEN_SHARE = 0.005, 0.025  # of ε
MAX_WIDEN_DEVIATION = 0.08  # of the records; with noisier counts a box is left as it is
MAX_OUTSIDE = 0.1  # of the records; a box that leaves more outside is widened
OUTSIDE_DOUBT = 1.0  # deviations of the noise by which it may seem to be more

# #rings
BORDER = 1 / 3  # of a half side of a view, into which all that lies outside is squeezed
BORDER_DOUBT = 2.0  # deviations of a mean by which a point in the border is drawn in
RING_PARTS, FEW_RING_PARTS = 8, 4  # cells a side of a ring, up to `MAX_GRID_FEATURES` features and beyond
MIN_RING_WEIGHT = 0.5  # records; a cell of a ring with a smaller expected count is left out
MAX_RING_FEATURES = 4  # features that rings are cut in
TILES_AT_ONCE = 1024  # tiles of 16 records that are copied at a time

# #posterior-weights
POSTERIOR_STEPS = 129  # places at which the law of the noise is taken
POSTERIOR_REACH = 8.0  # deviations of the noise, on either side
POSTERIOR_PASSES = 50  # steps of expectation maximisation

# #pruning
PRUNINGS = 4  # clusters that are taken off at most
MIN_CLEAR = 2.0  # deviations of the noise of all cells of a cluster, below which it is taken off
MIN_SIZE = 0.05  # of the records of an average cluster; only a lighter one is

# #one-mean
WARN_SIGNAL = 4.0  # signal per feature; a fit below it warns
RECORDS_PER_CLUSTER = 3.0  # N·ε per feature and cluster; fewer clusters with less (2, 2.5 and 4 on 22 problems)
RECORDS_PER_TWO = 8.0  # N·ε per feature; with less there is one cluster (10, 12 and 16 on 27 problems)
MIN_SPARE_SIGNAL = 3.0  # signal per feature; with less, a centroid on a tree is the mean of all (16 problems)

# docs/uncertainty.md; chosen on the problems of the public seed, by `python benchmarks/intervals.py --choose`
INTERVAL_SPENDS = (  # labels; what points come from
    "grid: counts",
    "tree: leaves",
    "tree: counts",
    "signs: means",
    "signs: middle",
)
INTERVAL_REPETITIONS = 16  # runs on the synopsis behind a scale
INTERVAL_PASSES = 60  # Lloyd passes of a run, at most
INTERVAL_REST = 1e-7  # of the unit box; a smaller move ends a run
INTERVAL_WEIGHTS = 1.5  # times the noise of counts (1 left the scales of weak signals 1.5 times too small)
INTERVAL_PLACES = 1.5  # sides of a cell in which a point may lie (0.5 and 1 left them 2 and 1.5 times too small)
INTERVAL_TREE_PLACES = 2.0  # over √d: the same in a tree
INTERVAL_CLEAR = 1.0  # deviations of a count, below which a cell may be anywhere
INTERVAL_STEP_CLEAR = {"grid": 4.0, "tree": 1.0, "hyperplanes": 1.0}  # the same after a step (2.5 to 4 needed 4 times)
INTERVAL_SMALL = {"grid": 3.0, "tree": 1.0, "hyperplanes": 0.0}  # times noise/size, by which a small cell's is wider
INTERVAL_RADIUS = 0.25  # of the unit box; to which residuals were clipped where the release does not say it
INTERVAL_MOVE = 0.5  # of the move of the step, in a scale (0.3 to 1 alike on 76 cells of grids)
INTERVAL_SPREAD = 0.05  # of the deviation of a cell, in a scale after a step (0.02 to 0.1)
INTERVAL_SIGNAL = {"grid": 300.0, "tree": 30.0, "hyperplanes": 30.0}  # records a cell over noise; from there as 1/√
INTERVAL_SIDE = 0.2  # of the side of a cell, in a scale without a step (0.05 to 0.6)
INTERVAL_BORDER = 0.2  # of the records beyond a border, in the scale of a size after a correction (0.1 to 0.8)
INTERVAL_POINT = 0.5  # of the distance between points: how far records are spread around one (0.3 and 1)
INTERVAL_CELL = 0.15  # of the radius of a cell, in place of it, for hyperplanes (0.3 to 0.8)
INTERVAL_FAR = 1000.0  # squared deviations; no record is farther beyond a border
INTERVAL_STEP_FACTORS = {"grid": (1.3, 1.5), "tree": (1.25, 1.5), "hyperplanes": (3.4, 1.5)}  # coordinates, sizes
INTERVAL_CORRECTED_FACTORS = {"grid": (2.0, 2.0), "tree": (2.4, 2.2), "hyperplanes": (3.4, 4.0)}  # after a correction
INTERVAL_FACTORS = {"tree": (1.15, 3.6), "hyperplanes": (3.6, 2.3)}  # without a re-centring step
INTERVAL_GRID_FACTORS = ((1.7, -0.25, 0.0), (1.9, -0.3, 0.5))  # c · (signal/100)^a · d^b

# #centroids-to-spare
PAD_GAIN = 1.2  # the largest of m normal numbers squared is about 1.2 ln m on average, m from 5 to 100
MAX_PAD = 0.8  # deviations; a centroid to spare is placed at most so far from a noisy one, where the records are near
PAD_SPREAD = 0.4  # half sides, and where they are spread as far as a usual box

FEW_POINTS = 1024  # whose nearest others are found without SciPy, which takes longer to import
FEW_FEATURES = 7  # up to which SciPy's tree adds up squares in the order of the features
