"""Every constant of the method for many features, with its unit and its reason.

Shares are of the rho that was promised. They were tuned on sentence embeddings with 384 features, on Gaussian blobs
with 16 to 784 features and on handwritten digits: docs/many-features.md.
"""

from __future__ import annotations

from dataclasses import dataclass

MANY_FEATURES = 11  # with fewer, pure epsilon is often ahead: docs/many-features.md
MAX_FEATURES = 2**13  # so that squared distances of grid points, at most d · 2^40, are exact in float64
MAX_CLUSTERS = 2**12  # Ward's rule compares all pairs

# --- what is asked ---------------------------------------------------------------------------------------------------

BINS = 48  # of distances, sixth-octaves: eight octaves down from the largest distance
BINS_PER_OCTAVE = 6
SURE_BINS = 3.5  # deviations by which a run of bins stands out; where there is noise alone, one does in 4 % of looks
SURE_TAIL = 3.0  # the same of bins added up from an end
NEW_FORGET, START_FORGET, STEP_FORGET = (
    16.0,
    4.0,
    1.3,
)  # by how much less the distances of the look before count, as they change
PRODUCT_NORM = 2**13  # of a record in a covariance: 7 · 2^26 · 2^33 records stay below 2^62
DIAGONAL, OFF_DIAGONAL = 5, 7  # integer weights with 49 <= 2 · 25, next to 1 and √2: the Frobenius norm, nearly
DIRECTION_BITS = 15  # of an entry of a direction; products with grid points below 2^20 stay below 2^53
RECORDS_AT_ONCE = 2**12  # in one product of the covariance: memory
MIN_RADIUS = 32  # grid steps times √d: truncation to whole steps then moves a residual by 3 % of the radius at most


@dataclass(frozen=True)
class Split:
    """How the budget of one release is divided among residuals, counts, costs and distance bins; adds up to 1."""

    residuals: float
    counts: float
    costs: float
    bins: float


# --- shares of rho ---------------------------------------------------------------------------------------------------

MEAN_SHARE = 0.03
MEAN_SPLIT = Split(0.75, 0.25, 0.0, 0.0)
MEAN_AGAIN_SPLIT = Split(1.0, 0.0, 0.0, 0.0)
DISTANCE_SHARE = 0.02
MEAN_ROUNDS = 3  # looks at mean and distances more, in bounds that are far too wide
MEAN_NOISE = 0.6  # of the distances from a mean: it is asked for again where its noise is more,
MEAN_GAIN = 0.5  # and at most this part of the radius it was clipped to: then the next radius is much smaller
COVARIANCE_SHARE = 0.11
SUBSPACE_DISTANCE_SHARE = 0.01
START_SHARE = 0.26
START_SHARE_ALONE = 0.40  # where nothing is spent on a covariance
START_SHARE_WHOLE = 0.55  # where all features are searched: then the steps need less
RESIDUAL_DISTANCE_SHARE = 0.01
START_SPLIT = Split(0.60, 0.15, 0.22, 0.03)
STEP_SPLIT = Split(0.93, 0.04, 0.0, 0.03)
DISTANCES_ALONE = Split(0.0, 0.0, 0.0, 1.0)

# --- the subspace ----------------------------------------------------------------------------------------------------

QUANTILE = 0.98  # of the distances: records beyond are clipped before products are taken
FAR_COST = 0.3  # of the squared distances: so much may be of records beyond that; with 1, small far clusters are missed
MAX_WHOLE_FEATURES = 20  # up to here all features are the subspace
MIN_DIRECTIONS, MAX_DIRECTIONS = 12, 24
RANDOM_DIRECTIONS = 2.0  # noise over signal of the covariance, beyond which public random directions do as well
TYPICAL_CLUSTERS = 20  # whose spread the covariance has to show, in that comparison
OVERSAMPLED = 8  # directions more in the subspace iteration, so that the leading ones settle soon
ITERATIONS = 60  # of it; the last directions need not be exact
ROOM = 1.5  # of the quantile: the half side of the box of projected records

# --- the start -------------------------------------------------------------------------------------------------------

OVERSEEDING = 1.5  # centres per cluster before the last merge; 1.25 and 2 were worse
SPLIT_OFFSET = 0.2  # of a cluster's root mean square distance; 0.6 and 1 fail
SWAP_ROUNDS = 3
SYNOPSIS_CLUSTERS = 2  # per cluster asked for, in a synopsis: three points a cluster, with signal for them
SWAP_COST = 0.3  # a merge may cost so much of the cost of the centre that is split for it
START_RADIUS_NOISE = 0.5  # weight of noise against clipping in the choice of a radius, in the start
MIN_SIGNAL = 2.5  # N / (clusters · σ · √d): with less, fewer clusters explain more
MIN_SIGNAL_OF_TWO = 7.0  # N / (σ · √d): with less, one mean explains as much
WEAK_SIGNAL = 2.0  # below it the release warns

# --- the steps -------------------------------------------------------------------------------------------------------

STEPS = 12  # 7 lose up to 20 %, 20 gain nothing
MEAN_STEPS = 2, 8  # at least and at most, where the signal is enough for one cluster alone
MEAN_STEP_NOISE = 0.55  # of the radius: so much noise may one of these steps add, so that the next radius is smaller
STEP_RADIUS_NOISE = 0.5  # the same in the steps
WHOLE_RADIUS_NOISE = 2.0  # the same where all features are searched: fewer features, less noise in a residual
MEAN_RADIUS_NOISE = 0.15  # the same where there is one mean
STEP_GROWTH = 1.15  # of rho from step to step: later ones are nearer the end
GROUP_QUANTILE = 0.5  # of distances from the start, as the radius in that choice
GROUPING = 0.3  # weight of noise against the cost of merged clusters in the choice of groups

# --- intervals -------------------------------------------------------------------------------------------------------

DEVIATIONS, SIZE_DEVIATIONS = 1.25, 1.25  # times the known noise, for what shrinking and clipping add
MIN_CLEAR_SIZE = 3.0  # deviations; a smaller cluster may be anywhere
