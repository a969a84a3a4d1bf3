# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # From a raw table to segments
# A typical raw table has an id, numbers in different units, a category, a date, a boolean and missing values. This
# page publishes five segments of such a table with ε = 1. The customers are synthetic.
# %%
import os
import tempfile
import textwrap

import numpy as np
import pandas as pd

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

rng = np.random.default_rng(7)
n, kind = 20_000, rng.choice(5, 20_000, p=[0.25, 0.25, 0.2, 0.2, 0.1])
favourite = np.array(["N", "S", "E", "N", "W"])[kind]
customers = pd.DataFrame(
    {
        "customer_id": [f"C{i:05d}" for i in range(n)],
        "age": rng.normal(np.array([24, 36, 45, 70, 52])[kind], 4).round(),
        "income": rng.normal(np.array([16_000, 45_000, 70_000, 30_000, 140_000])[kind], 6_000).round(-2),
        "region": np.where(rng.random(n) < 0.7, favourite, rng.choice(["N", "S", "E", "W", "abroad"], n)),
        "joined": pd.Timestamp("2016-01-01")
        + pd.to_timedelta(np.array([2900, 1800, 1000, 200, 600])[kind] + rng.integers(0, 400, n), unit="D"),
        "newsletter": rng.random(n) < np.array([0.9, 0.6, 0.4, 0.1, 0.3])[kind],
        "comment": "thank you",
    }
)
customers.loc[rng.random(n) < 0.05, "income"] = np.nan
customers.loc[rng.random(n) < 0.02, "region"] = None
print(customers.head().to_string())
# %% [markdown]
# ## The schema
# The schema names the columns to use, without the id and the comments. Every bound and every level is known without
# looking at the customers: the shop opened in 2016, and nobody is older than 120. Values outside the bounds are
# clipped, and anything that is not a level ("abroad") counts as "other". A missing income becomes 35 000, for example
# the published median of the country, but never a mean of these records.
# %%
from dpkmeans import Boolean, Category, Date, DPKMeans, DurableLedger, Number, Release

schema = {
    "age": Number(0, 120),
    "income": Number(0, 200_000, missing=35_000),
    "region": Category("N", "S", "E", "W", missing="other"),
    "joined": Date("2016-01-01", "2025-12-31"),
    "newsletter": Boolean(),
}
# %% [markdown]
# ## What is refused, before anything is spent
# A ledger limits what may be spent on these customers to 2. Three mistakes, and what the ledger shows after them:
# %%
ledger = DurableLedger.create("ledger.db")
ledger.add("customers", cap=2.0)
budget = {"epsilon": 1.0, "ledger": ledger, "dataset": "customers"}

mistakes = {
    "no scale": {"schema": schema},
    "missing values": {"schema": {**schema, "income": Number(0, 200_000)}, "scale": "box"},
    "a column of text": {"schema": {**schema, "comment": Number(0, 1)}, "scale": "box"},
}
for what, options in mistakes.items():
    try:
        DPKMeans(5, **options, **budget).fit(customers)
    except ValueError as error:
        print(textwrap.fill(f"{what}: {error}", 110), "\n")
print("spent:", float(ledger.dataset("customers").spent))
# %% [markdown]
# ## The fit
# `scale="box"` gives every column the same weight: the two ends of a column are equally far apart, whether it holds
# ages, incomes or dates, and so are two different regions. But a boolean or a category always lies at an end, and an
# age hardly ever does, so with `"box"` alone the segments would be little more than regions and newsletters. Weights
# by name are applied on top of it: here these two columns count a quarter. Choose the weights before you see any
# result.
# %%
scale = {"region": 0.25, "newsletter": 0.25}
model = DPKMeans(5, schema=schema, scale=scale, **budget).fit(customers)
release = model.release_
print(release.summary())
print("spent:", float(ledger.dataset("customers").spent))
# %% [markdown]
# `describe()` says what each centroid means, and `to_frame()` puts it in a frame: dates are dates, a category is its
# most likely level and the share of each level, a boolean is the share that is true. Sizes are noisy counts. All of it
# may be published; `model.report("report.html")` writes it as a page. In a notebook, `release` alone shows such a
# table.
# %%
print(release.describe()[0])
segments = release.to_frame().sort_values("size", ascending=False)
print(segments.to_string(float_format="{:.2f}".format))
# %%
from pathlib import Path

from matplotlib.figure import Figure

from dpkmeans import plot

figure = Figure(figsize=(9, 3.6), layout="constrained")
left, right = figure.subplots(1, 2)
plot.centroids(release, left, features=(0, 1))
for cluster, row in segments.iterrows():
    left.annotate(str(cluster), (row["age"], row["income"]), (8, 6), textcoords="offset points")
start = 0
for level in ("N", "S", "E", "W", "other"):
    right.barh([str(i) for i in segments.index], segments[f"region={level}"], left=start, label=level)
    start = start + segments[f"region={level}"]
right.set_xlabel("share of each region")
right.set_ylabel("cluster")
right.legend(ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
figures = Path(os.environ.get("DPKMEANS_FIGURES", "."))
figure.savefig(figures / "segments.png", dpi=90, metadata={"Software": None})
# %% [markdown]
# ![Centroids in age and income, and the share of each region](figures/segments.png)
#
# ## Labels, joined back to the id
# **Not private:** which customer belongs to which segment is computed from the customer's own record. Keep this with
# the records.
# %%
labelled = customers[["customer_id"]].assign(cluster=model.labels_)
print(labelled.head().to_string())
# %% [markdown]
# ## The model file
# The model file contains only what is public, including the schema. So it can predict new rows of a frame with the
# same columns, in any order and in another process, and it fills in missing values in the same way.
# %%
release.save("model.json")
again = Release.load("model.json").predict(customers)
assert (again == model.labels_).all()
assert release.guarantee.label == "proved"
# %% [markdown]
# ## The same from a shell
# `dpkmeans schema` writes a schema file to fill in. Names and types are those that the data file declares; no value is
# read.
# %%
import shlex
import subprocess
import sys


def shell(command):
    print("$", command, flush=True)
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    print(done.stdout)


customers.to_parquet("customers.parquet")
shell("dpkmeans schema customers.parquet --out first.toml")
print(Path("first.toml").read_text())
# %% [markdown]
# Filled in, with the columns that are not to be used deleted:
# %%
filled_in = """
[age]
kind = "number"
lower = 0
upper = 120

[income]
kind = "number"
lower = 0
upper = 200000
missing = 35000

[region]
kind = "category"
levels = ["N", "S", "E", "W"]
missing = "other"

[joined]
kind = "date"
lower = "2016-01-01"
upper = "2025-12-31"

[newsletter]
kind = "boolean"
"""
Path("schema.toml").write_text(filled_in)
shell(
    "dpkmeans fit customers.parquet --k 5 --epsilon 1 --schema schema.toml --scale box"
    " --ledger ledger.db --dataset customers --out second.json"
)
# %% [markdown]
# With `--scale box` the two columns have full weight, so the segments differ; the weights from above would be `--scale
# region=0.25,newsletter=0.25`.
#
# This was a second release from the same customers. The losses add up to 2, so the ledger is exhausted and would
# refuse a third. In Python, `schema="schema.toml"` takes the same file. CSV files work as well; a spreadsheet's export
# may need `--delimiter ';' --decimal , --encoding cp1252`.
#
# `--keep` writes the id next to the cluster. This file is not private either.
# %%
shell("dpkmeans ledger show ledger.db")
shell("dpkmeans predict second.json customers.parquet --keep customer_id --out clusters.csv")
print(*Path("clusters.csv").read_text().splitlines()[:4], sep="\n")
assert len(pd.read_csv("clusters.csv").merge(customers, on="customer_id")) == n
