# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # From a raw table to segments
# A table as people have it: an id, ages beside incomes, a category, a date, a yes or no, missing values. Five segments
# of it, published with ε = 1. The customers are made up.
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
# It names the columns to use; the id and the comments are left out. Every bound and every level is something that is
# known without looking at the customers: the shop opened in 2016, and nobody is older than 120. Values outside are
# clipped, and what is no level ("abroad") counts as "other". A missing income becomes 35 000, say the published median
# of the country; never a mean of these records.
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
# A ledger keeps count of what is spent on these customers, 2 at most. Three mistakes, and what it says after them:
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
# `scale="box"` gives every column the same say: the two ends of a column are equally far apart, whether it holds ages,
# incomes or dates, and so are two different regions. But a boolean or a category always lies at an end, and an age
# hardly ever does, so with `"box"` alone the segments would be little more than regions and newsletters. Weights by
# name come on top of it: here these two columns count a quarter. Choose weights beforehand, too.
# %%
scale = {"region": 0.25, "newsletter": 0.25}
model = DPKMeans(5, schema=schema, scale=scale, **budget).fit(customers)
release = model.release_
print(release.summary())
print("spent:", float(ledger.dataset("customers").spent))
# %% [markdown]
# `describe()` says what each centroid means, `to_frame()` puts it in a frame: dates are dates, a category is its most
# likely level beside the share of each, a boolean is the share that is true. Sizes are noisy counts. All of it may be
# published; `model.report("report.html")` writes it as a page. In a notebook, `release` alone shows such a table.
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
# It holds what is public, the schema among it. So it predicts new rows of a frame with the same columns, in any order,
# also in another process, and fills in missing values as before.
# %%
release.save("model.json")
again = Release.load("model.json").predict(customers)
assert (again == model.labels_).all()
assert release.guarantee.label == "proved"
# %% [markdown]
# ## The same from a shell
# `dpkmeans schema` writes a first schema file. Names and types are those that the file declares; values are not
# looked at.
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
# With `--scale box` the two columns count in full, and the segments are others; the weights from above would be
# `--scale region=0.25,newsletter=0.25`.
#
# That was a second release from the same customers: their losses add up to 2, the ledger is used up, and it would
# refuse a third. In Python, `schema="schema.toml"` takes the same file. CSV files work as well; a spreadsheet's export
# may need `--delimiter ';' --decimal , --encoding cp1252`.
#
# `--keep` writes the id beside the cluster, for you: not private either.
# %%
shell("dpkmeans ledger show ledger.db")
shell("dpkmeans predict second.json customers.parquet --keep customer_id --out clusters.csv")
print(*Path("clusters.csv").read_text().splitlines()[:4], sep="\n")
assert len(pd.read_csv("clusters.csv").merge(customers, on="customer_id")) == n
