"""Every constant of the synopsis, with its unit and, as `#anchor`, the section of ADR 0001 that explains it.

ADR 0001 is docs/decisions/0001-synopsis.md. Shares are of the budget of their part. `signal` = N·ε/k is the number of
records per cluster times ε; it and the number d of features are the quantities that the plan depends on.
"""

from __future__ import annotations

import math

import numpy as np

from dpkmeans.core.epsilon import Epsilon

# #number-of-records
COUNT_SHARE = 0.05  # of ε, for the number of records
MIN_SIGNAL = 10.0  # signal; a fit below it warns

# #what-decides
MAX_GRID_FEATURES = 3  # features; up to here always a grid
MIN_TREE_FEATURES = 5  # features; from here on a tree
MIN_TREE_SIGNAL = 80.0  # signal; with 4 features, from here on a tree
MIN_HYPERPLANE_FEATURES = 11  # features; from here on hyperplanes

# #grid
GRID_FIRST_SHARE = 0.10  # of ε, for the coarse counts
GRID_FIRST_UNIT = 10.0  # records times ε per coarse cell
GRID_UNIT = 4.0  # c in M = (N·ε/c)^(2d/(2+d)) cells, at k = 3
GRID_COARSE_UNIT = 7.0  # c where a re-centring step follows: larger cells are enough to find the clusters
GRID_UNIT_EXPONENT = 0.2  # c falls as (3/k)^0.2
GRID_CELLS_PER_CLUSTER = 7.0  # cells, at least
MAX_GRID_CELLS = 2048  # cells
MAX_FIRST_CELLS = 512  # coarse cells
MIN_CELL_SHARE = 1e-9  # records added to each coarse cell, so that an empty one still gets a cell
MAX_ROUNDING = 4  # times as many cells as wanted, after rounding to whole cuts

# #smoothing
MAX_POINTS = 4096  # points that stand for all cells
MAX_PARTS = 3  # points per feature and cell; more change nothing
NEIGHBOUR_REACH = 0.75  # sides of a cell, from its middle into the next one

# #tree
TREE_SHAPE_SHARE = 0.15  # of ε, for the shape
MIN_LEAF_LIMIT = 1024  # leaves; the limit grows with k: noise takes time to draw, and more leaves gain little
TREE_LEAVES_PER_CLUSTER = 24  # leaves
MIN_TREE_DEPTH, MAX_TREE_DEPTH = 10, 20  # halvings
EXTRA_TREE_DEPTH = 6  # halvings beyond log2(N·ε)
OFFSET_VARIANCE = 0.2  # prior variance of a leaf's mean, in squared half sides; 1/3 if it were uniform

# #hyperplanes
MIDDLE_SHARE = 0.07  # of ε
SPREAD_SHARE = 0.03  # of ε
RADIUS_SHARE = 0.04  # of ε
SIDES_SHARE = 0.36  # of ε; the means get the rest
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
WEAK_SIDES_SHARE = 0.28  # of ε, below it

# #re-centring
GRID_RECENTRE_SHARE = 0.5  # of ε
TREE_RECENTRE_SHARE = 0.4  # of ε
HYPERPLANE_RECENTRE_SHARE = 0.27  # of ε
HYPERPLANE_RADIUS_SHARE = 0.03  # of ε, to learn the radius of that step
TREE_RECENTRE_SIGNAL = 150.0  # signal; from here on a tree is re-centred
WIDE_SIGNAL = 500.0  # signal; from here on clipping costs more than noise
NARROW_REACH, WIDE_REACH = 0.5, 1.0  # of the distance to the next centroid; below and from `WIDE_SIGNAL` on
CLIP_DEVIATIONS = 2.5  # standard deviations of the synopsis to which residuals are clipped
GRID_CLIP_DEVIATIONS = 1.75  # the same, on a grid below `WIDE_SIGNAL`
MIN_RADIUS = 2.0**-10  # of the unit box
SHRINK = 0.5  # of noise/move², by which a move is shrunk; James and Stein have (d - 2)/d
TRUSTED_DEVIATIONS = 1.0  # standard deviations of the noise; a cluster with a smaller count does not move
RADIUS_EDGES = np.array([0.0, *(math.sqrt(math.ldexp(1.0, e)) for e in range(-14, 3))])  # half sides; 0, 2^-7, ..., 2
RADIUS_THRESHOLD = 3.0  # noise scales; a smaller bin counts as empty

# #re-centring-a-grid-earlier
GRID_RECENTRE_SIGNAL = 160.0  # signal times features; from here on a grid is re-centred
MIN_RECENTRE_SIGNAL = 55.0  # signal; but not below this

# #extrapolation
EXTRAPOLATION = 0.75  # of the next Lloyd step

# #limits-of-computing-time
RESTARTS = 60  # k-means++ starts
MAX_WORK = 5 * 10**9  # steps of the innermost loop, over all starts
TYPICAL_PASSES = 30  # Lloyd passes per start, to estimate the work
PASSES_PER_START = 1000  # Lloyd passes, at most
MAX_PASSES = 20_000  # Lloyd passes from the best start, at most
PADDING_WEIGHT = 1e-9  # of the total weight, for points added to reach k distinct ones
ZONE_EPSILON = Epsilon.of(0.1)  # shapes the draw inside a zone; on a synopsis it is no budget
MAX_ZONE_STEPS = 300  # steps

# #published-grids
UNIFORM_UNIT = 10.0  # c of the uniform grid of Su et al.
MAX_UNIFORM_CELLS = 2**16  # cells
HYBRID_SHARE = 0.5  # of ε, for the noisy Lloyd step of the hybrid
