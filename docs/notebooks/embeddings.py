# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # Clustering sentence embeddings privately
# Texts become vectors of some hundred numbers; texts about the same thing lie close together. Clusters of such vectors
# are themes. This page finds twenty themes with (ε, δ)-differential privacy, looks at what they are and how much they
# change from run to run, and attacks the release.
#
# It uses `embeddings384.npz` from the folder named by the variable `DPKMEANS_DATA`: 20 000 short descriptions of
# software packages as vectors of unit length with 384 features, and the section of each. Without this file, it uses
# synthetic vectors, which are fewer, shorter and easier.
# %%
import os
from pathlib import Path

import numpy as np

from dpkmeans import Ball, DPKMeans
from dpkmeans.errors import FileError
from dpkmeans.reproduction.embeddings import load_embeddings


def made_up(n=6000, d=48, n_kinds=20):
    rng = np.random.default_rng(5)
    kinds = rng.integers(n_kinds, size=n)
    X = rng.standard_normal((n_kinds, d))[kinds] + 0.8 * rng.standard_normal((n, d))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), np.array([f"theme {i}" for i in kinds])


try:
    given = load_embeddings()
    X, sections = given.vectors, given.kinds
except FileError as error:
    print(error, "Made-up vectors stand in.")
    X, sections = made_up()
k = 20
print(f"{X.shape[0]} vectors with {X.shape[1]} features in {len(set(sections))} sections")
# %% [markdown]
# ## The fit
# A vector of unit length lies in a ball with the radius 1: that is known without looking at any text, so it is a public
# bound. A `delta` asks for (ε, δ), and with so many features the default is then the method `gaussian`
# ([how it works](many-features.md)).
# %%
bounds = Ball(center=0, radius=1)
model = DPKMeans(k, epsilon=1.0, delta=1e-6, bounds=bounds).fit(X)
release = model.release_
print(release.method, "-", release.summary())
print(f"signal {release.parameters['signal']:.1f}, in {release.n_passes} passes over the records")
# %% [markdown]
# `release.centroids` and `release.sizes` may be published. Anyone with the same sentence model can compare a public
# text with the centroids: its theme is the nearest one.
#
# ## Themes
# **For the holder of the records only:** the next cell uses the records and their sections, so what it prints is not
# private. Here it may be shown, because the descriptions are public.
# %%
labels = model.labels_
names, counts = np.unique(sections, return_counts=True)
usual = dict(zip(names, counts / len(sections), strict=True))
print("size  noisy   typical sections, with their share in the cluster")
for cluster in np.argsort(-np.bincount(labels, minlength=k)):
    inside = sections[labels == cluster]
    if len(inside) == 0:
        continue
    names, counts = np.unique(inside, return_counts=True)
    shares = dict(zip(names, counts / len(inside), strict=True))
    typical = sorted(shares, key=lambda name: shares[name] * np.log(shares[name] / usual[name]), reverse=True)[:3]
    words = ", ".join(f"{name} {shares[name]:.0%}" for name in typical)
    print(f"{len(inside):5d} {release.sizes[cluster]:6.0f}   {words}")
# %% [markdown]
# ## How stable the themes are
# Every further fit of the same records adds to the privacy loss. To try out how stable a setting is, take public
# records of the same kind, as here.
#
# The agreement of two clusterings is measured by the adjusted Rand index: 1 if they are the same, 0 if they are
# unrelated. The last line is k-means without privacy from several starts, which does not fully agree with itself
# either. `explained` is the variance explained, as a share of what k-means explains without privacy. This is also
# **for the holder only**: labels and costs come from the records.
# %%
from itertools import combinations

from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

one = float(((X - X.mean(axis=0)) ** 2).sum())


def cost(centroids):
    return sum(float(((rows[:, None] - centroids) ** 2).sum(-1).min(1).sum()) for rows in np.array_split(X, 400))


def agreement(all_labels):
    return np.mean([adjusted_rand_score(a, b) for a, b in combinations(all_labels, 2)])


plain = [KMeans(k, n_init=1, random_state=seed).fit(X) for seed in range(5)]
best = min(run.inertia_ for run in plain)
print("epsilon  agreement between runs  with k-means  explained")
for epsilon in (0.25, 1.0, 3.0):
    runs = [DPKMeans(k, epsilon=epsilon, delta=1e-6, bounds=bounds).fit(X) for _ in range(5)]
    found = [run.labels_ for run in runs]
    with_plain = np.mean([adjusted_rand_score(a, plain[0].labels_) for a in found])
    explained = np.median([(one - cost(run.cluster_centers_)) / (one - best) for run in runs])
    print(f"{epsilon:7g}  {agreement(found):22.2f}  {with_plain:12.2f}  {explained:9.2f}")
print(f"   none  {agreement([run.labels_ for run in plain]):22.2f}")
# %% [markdown]
# ## What an attacker can learn, and what not
# **Can:** what is true of the texts as a whole: that there is a theme "Haskell libraries", how large it is, and which
# theme a text belongs to if the attacker has the text. All of this would be the same without any single text.
#
# **Cannot:** whether one text is among the records. Take an attacker who knows all other records, k, ε and the method,
# and chooses the text that is easiest to detect, far from all others. (ε, δ)-differential privacy limits every test
# that they can make: with ε = 1, they are right in at most 73.1 % of all cases if both are equally likely, whatever
# they compute from the release.
#
# The attack fits with the text and without it, many times, and looks at how close a centroid comes to it. A threshold
# on this distance is chosen on half of the fits and tested on the other half. To be fast, it uses 1500 records.
# %%
rng = np.random.default_rng(0)
others = X[rng.choice(len(X), 1500, replace=False)]
target = -others.mean(axis=0, keepdims=True)
target /= np.linalg.norm(target)
n_fits, k_attacked = 40, 5


def nearest(records, fit):
    return float(np.linalg.norm(fit(records) - target, axis=1).min())


def attack(fit):
    near = np.array([[nearest(np.vstack([others, target]), fit), nearest(others, fit)] for _ in range(n_fits)])
    chosen, judged = near[: n_fits // 2], near[n_fits // 2 :]
    right = [((chosen[:, 0] <= t).mean() + (chosen[:, 1] > t).mean()) / 2 for t in np.unique(chosen)]
    threshold = np.unique(chosen)[int(np.argmax(right))]
    return ((judged[:, 0] <= threshold).mean() + (judged[:, 1] > threshold).mean()) / 2


def private(records):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few records leave a weak signal, and it says so
        return DPKMeans(k_attacked, epsilon=1.0, delta=1e-6, bounds=bounds).fit(records).cluster_centers_


def not_private(records):
    seeds = np.random.default_rng()
    start = np.vstack([records[-1:], records[seeds.choice(len(records) - 1, k_attacked - 1, replace=False)]])
    return KMeans(k_attacked, init=start, n_init=1).fit(records).cluster_centers_


e = np.exp(1.0)
print(f"(1, 1e-6)-private: right in {attack(private):.0%} of the cases; at most {(e + 1e-6) / (1 + e):.1%} is possible")
print(f"k-means:           right in {attack(not_private):.0%} of the cases")
# %% [markdown]
# A coin toss is right in half of the cases. k-means without privacy was started at the last record, as a careless
# program might do: such a text tends to become its own cluster, and then its exact vector is published.
#
# The bound holds for one text. For a person who wrote m texts, the loss is up to m times as large, unless the [unit is
# a person](persons.md). `model.labels_` is never private, because it is computed from each record itself.
# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6, 3.2), layout="constrained")
axes = figure.subplots()
order = np.argsort(-np.array(release.sizes))
axes.bar(range(k), np.array(release.sizes)[order], label="released")
axes.plot(range(k), np.bincount(labels, minlength=k)[order], "k_", markersize=10, label="exact (holder only)")
axes.set_xlabel("cluster")
axes.set_ylabel("size")
axes.legend(frameon=False)
figures = Path(os.environ.get("DPKMEANS_FIGURES", "."))
figure.savefig(figures / "embeddings.png", dpi=90, metadata={"Software": None})
assert release.guarantee.label == "proved"
# %% [markdown]
# ![Noisy and exact sizes of the clusters](figures/embeddings.png)
