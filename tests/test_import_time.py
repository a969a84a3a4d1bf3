from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "sklearn", "numba", "opendp", "pandas", "polars", "pyarrow", "matplotlib")


def modules_after(statement):
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_imports_nothing_heavy():
    assert not modules_after("import dpkmeans") & set(HEAVY)


def test_names_are_there_without_being_imported():
    assert not modules_after("import dpkmeans; dir(dpkmeans); dpkmeans.__version__") & set(HEAVY)


@pytest.mark.parametrize("name", ["DPKMeans", "Bounds", "Release", "Guarantee", "Ledger"])
def test_public_names_are_imported_on_first_use(name):
    import dpkmeans

    assert name in dir(dpkmeans)
    assert getattr(dpkmeans, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    import dpkmeans

    with pytest.raises(AttributeError, match="'KMeans'"):
        dpkmeans.KMeans  # noqa: B018


def test_a_fit_of_a_small_csv_file_neither_compiles_nor_imports_what_is_slow(tmp_path):
    """numba alone takes half a second to import, and to compile what this fit calls takes more than ten."""
    path = tmp_path / "visits.csv"
    path.write_text("a,b\n" + "".join(f"{i % 10},{i % 7}\n" for i in range(1000)))
    command = ["fit", str(path), "--k", "2", "--bounds", "0:10", "--header", "--epsilon", "1", "--seed", "1"]
    command += ["--guarantee", "none"]  # a seed: it passes always or never
    found = modules_after(f"from dpkmeans.cli.main import main; code = main({command!r}); assert code == 0; print()")
    assert "dpkmeans.synopsis.intervals" in found
    assert not found & {"numba", "scipy", "sklearn", "pandas", "matplotlib"}


def test_an_estimator_compiles_nothing_for_two_thousand_records_and_their_labels():
    found = modules_after(
        "import numpy as np; from dpkmeans import DPKMeans; X = np.random.default_rng(0).random((2000, 2)); "
        "model = DPKMeans(3, epsilon=1.0, bounds=(0, 1), random_state=1, guarantee='none').fit(X); "
        "assert len(model.labels_) == len(model.predict(X)) == 2000; print()"
    )
    assert "sklearn" in found
    assert "numba" not in found
