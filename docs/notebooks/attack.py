# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # Attacking the paper's release
# In one dimension, a published posterior zone and the previous centroid reveal the exact mean.
# %%
import numpy as np

from dpkmeans import DPKMeans

rng = np.random.default_rng(4)
X = np.concatenate([rng.normal(0.25, 0.05, 300), rng.normal(0.75, 0.05, 300)])[:, None]
start = np.array([[0.1], [0.9]])
model = DPKMeans(2, bounds=(0, 1), method="posterior", init=start, guarantee="paper").fit(X)
# %% [markdown]
# With one feature the far point is Y = 2·mean - previous, and the zone's far end P ± r is Y. So
# mean = (previous + P ± r) / 2, with the sign of the direction.
# %%
for zone in model.release_.transcript[:2]:
    previous = start[zone.cluster, 0]
    sign = 1.0 if zone.center[0] > previous else -1.0
    solved = (previous + zone.center[0] + sign * zone.radius) / 2
    nearest = np.abs(X - start.T).argmin(axis=1)
    exact = X[nearest == zone.cluster].mean()
    print(f"cluster {zone.cluster}: solved {solved:.7f}, exact {exact:.7f}")
    assert abs(solved - exact) < 1e-6  # the grid of 2^-20 and nothing else
# %% [markdown]
# No noise protects the mean. `dpkmeans audit` attacks releases without such inside knowledge ([audit](audit.md)). On a
# synopsis, the same strategy has no exact mean to reveal:
# %%
safe = DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="synopsis-posterior").fit(X)
print(safe.release_.summary())
