# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # The paper's zones, step by step
# `synopsis-posterior` runs Lu and Shen's posterior strategy on a released synopsis, where it is private.
# %%
import os
from itertools import pairwise
from pathlib import Path

from matplotlib.figure import Figure

from dpkmeans import DPKMeans, plot
from dpkmeans.demo.towns import visits

release = DPKMeans(8, epsilon=1.0, bounds=(0, 100), method="synopsis-posterior").fit(visits(20_000)).release_
steps = max(zone.iteration for zone in release.transcript)
print(steps, "steps through zones")
# %% [markdown]
# The first step. Dashed: convergent zones, in which the cost falls. Filled: sampling zones, in which the new centroid
# (dot) is drawn.
# %%
figure = Figure(figsize=(9, 4.5), layout="constrained")
left, right = figure.subplots(1, 2)
plot.zones(release, left, iteration=1)
left.set_title("first step")
plot.trajectory(release, right)
right.set_title("the whole way")
# %% [markdown]
# The cost of every pass never rises.
# %%
costs = release.certificate.zone_costs
assert all(b <= a * (1 + 1e-9) for a, b in pairwise(costs))
folder = Path(os.environ.get("DPKMEANS_FIGURES", Path(__file__).resolve().parents[1] / "figures"))
figure.savefig(folder / "zones.png", dpi=90, metadata={"Software": None})
