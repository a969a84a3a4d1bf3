# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # A curator and three analysts
# In the paper's interactive setting a curator publishes a zone for each cluster and step, and every party draws its own
# centroids from these zones. On a private synopsis all of it is proved: the zones are computed from released points.
# %%
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from dpkmeans import DPKMeans, Release, Transcript
from dpkmeans.demo.towns import visits

records = visits(20_000)
curator = DPKMeans(5, method="synopsis-posterior", epsilon=1.0, bounds=(0, 100)).fit(records)
published_file = Path(mkdtemp()) / "published.json"
curator.release_.save(published_file)
print(curator.release_.summary())
# %% [markdown]
# What the curator hands out is a file. Each analyst draws from the same zones with randomness of their own; nothing is
# spent.
# %%
published = Release.load(published_file)
transcript = Transcript.of(published)
paths = {name: transcript.draw(np.random.default_rng()) for name in ("Ana", "Ben", "Cleo")}
print(transcript.n_steps, "steps;", {name: path.shape for name, path in paths.items()})
# %% [markdown]
# Their draws differ in each step, and lie in the same zones.
# %%
for step in {0, transcript.n_steps - 1}:
    zones = [zone for zone in published.transcript if zone.iteration == step + 1]
    apart = np.linalg.norm(paths["Ana"][step] - paths["Ben"][step], axis=1).max()
    print(
        f"step {step + 1}: zones up to {2 * max(zone.radius for zone in zones):.2f} wide, draws up to {apart:.2f} apart"
    )
    for path in paths.values():
        for zone in zones:
            assert np.linalg.norm(path[step, zone.cluster] - zone.center) <= zone.radius * (1 + 1e-9)
# %% [markdown]
# On the records themselves, the zones are built from exact means. The label is `paper`, and the transcript leaves out
# the means that a draw would need, because publishing them would reveal the exact means.
# %%
on_records = DPKMeans(5, method="posterior", guarantee="paper", bounds=(0, 100)).fit(records).release_
try:
    Transcript.of(on_records)
except ValueError as refused:
    print(refused)
