# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # A first private fit
# Synthetic visits around eight towns, a public box, and one spend of ε = 1.
# %%
from dpkmeans import DPKMeans
from dpkmeans.demo.towns import FEATURES, match, visits

X = visits(20_000)
model = DPKMeans(n_clusters=8, epsilon=1.0, bounds=(0, 100)).fit(X)
print(model.release_.summary())
# %% [markdown]
# The released centroids and the towns they match. A notebook shows `model.release_` as a table.
# %%
for found in match(model.cluster_centers_):
    print(f"{found.town.name:12s} {found.distance:.1f} km off")
# %% [markdown]
# How the budget was spent, and a report, which contains no record.
# %%
for spend in model.release_.spends:
    print(spend.label, float(spend.epsilon))
page = model.report()
assert len(page) < 400_000
assert model.release_.epsilon_spent <= 1.0
print(FEATURES, len(page), "characters of HTML")
