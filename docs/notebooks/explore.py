# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # Exploring k for free
# ε is spent once, on a synopsis. Every k after that is post-processing.
# %%
from matplotlib.figure import Figure

from dpkmeans import make_synopsis, plot
from dpkmeans.demo.towns import visits

synopsis = make_synopsis(visits(20_000), epsilon=1.0, bounds=(0, 100), n_clusters=12)
print(len(synopsis.points), "points,", synopsis.epsilon_spent, "spent")
# %%
rows = synopsis.explore(range(2, 13))
for row in rows:
    print(f"{row.k:3d} clusters: silhouette {row.silhouette:.3f}")
best = max(rows, key=lambda row: row.silhouette)
# %%
figure = Figure(figsize=(5, 3))
ax = plot.explore(rows, figure.subplots(), value="silhouette")
# %% [markdown]
# The release for the chosen k costs nothing beyond the synopsis.
# %%
release = synopsis.fit(best.k)
assert release.epsilon_spent == synopsis.epsilon_spent
print(release.summary())
