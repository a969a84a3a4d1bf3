"""Where `--out` may write: through links, to pipes, to standard output, and not in the place of a device."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from dpkmeans import DurableLedger
from dpkmeans.cli.main import main
from dpkmeans.core.release import Release


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    np.savetxt(path, np.random.default_rng(0).random((100, 2)), delimiter=",", fmt="%.6f")
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> DurableLedger:
    store = DurableLedger.create(tmp_path / "ledger.db")
    store.add("visits", 5.0)
    return store


@pytest.fixture
def fit(data, ledger):
    options = ["--no-header", "--k", "2", "--bounds", "0:1", "--method", "blum", "--epsilon", "1"]
    options += ["--dataset", "visits", "--ledger", str(ledger.path)]
    return lambda *more: main(["fit", str(data), *options, *map(str, more)])


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path, fit):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far/model.json", tmp_path / "link.json"
    link.symlink_to(target)
    assert fit("--out", link) == 0
    assert link.is_symlink()
    assert Release.load(target).n_clusters == 2
    assert fit("--out", link) == 4, "the file behind the link may have been paid for"
    assert fit("--out", link, "--force") == 0
    assert link.is_symlink()
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["model.json"]


def test_devices_and_folders_are_refused_before_anything_is_spent(tmp_path, fit, ledger, capsys):
    device = tmp_path / "null"
    device.symlink_to("/dev/null")
    for path, why in ((device, "a device or a socket"), (tmp_path, "it is a folder"), ("/dev/zero", "a device")):
        assert fit("--out", path, "--force") == 4
        assert why in capsys.readouterr().err
    assert device.is_symlink()
    assert ledger.dataset("visits").spent.nano == 0


def test_a_pipe_is_written_to_if_somebody_reads_from_it(tmp_path, fit, ledger, capsys):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    assert fit("--out", pipe) == 4
    assert "nobody reads from this pipe" in capsys.readouterr().err
    assert ledger.dataset("visits").spent.nano == 0
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    while fit("--out", pipe):
        assert "nobody reads" in capsys.readouterr().err
    reader.join(100)
    assert json.loads(found[0])["kind"] == "dpkmeans model"
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_standard_output_holds_the_model_and_nothing_else(fit, capfd, name):
    assert fit("--out", name) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["kind"] == "dpkmeans model"
    assert err.endswith("The model is on standard output.\n")
    assert fit("--out", name, "--transcript", name) == 2
    assert Path("/dev/stdout").is_symlink()


def test_predictions_go_through_links_and_to_pipes_too(tmp_path, data, fit):
    model, link = tmp_path / "model.json", tmp_path / "link.csv"
    assert fit("--out", model) == 0
    link.symlink_to(tmp_path / "clusters.csv")
    assert main(["predict", str(model), str(data), "--no-header", "--out", str(link)]) == 0
    assert link.is_symlink()
    assert len((tmp_path / "clusters.csv").read_text().splitlines()) == 101


# --- a full disk ------------------------------------------------------------------------------------


@pytest.fixture
def full(tmp_path: Path):
    folder = tmp_path / "full"
    folder.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("mounting a small disk is not permitted")
    except OSError:
        pytest.skip("there is no mount command")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def test_a_disk_without_room_for_the_model_is_refused_before_anything_is_spent(full, fit, ledger, capsys):
    assert fit("--out", full / "model.json") == 4
    assert "No space left on device" in capsys.readouterr().err
    assert ledger.dataset("visits").spent.nano == 0
    assert list(full.iterdir()) == []


def failing(monkeypatch, names: str) -> None:
    """Files whose folder is called so cannot take their names."""
    replace = os.replace

    def fails(old, new):
        if names in str(new):
            raise OSError(28, "No space left on device")
        replace(old, new)

    monkeypatch.setattr(os, "replace", fails)


def test_a_model_that_cannot_be_written_is_in_the_folder_for_temporary_files(tmp_path, fit, monkeypatch, capsys):
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    failing(monkeypatch, "model.json")
    assert fit("--out", tmp_path / "model.json") == 4
    out, err = capsys.readouterr()
    (saved,) = place.iterdir()
    assert f"The whole model is in {saved} instead: keep it, it is paid for." in err
    assert Release.load(saved).epsilon_spent == 1.0
    assert "cluster" in out
    assert not (tmp_path / "model.json").exists()


def test_a_model_that_can_be_written_nowhere_is_on_standard_output(tmp_path, data, fit, monkeypatch, capfd):
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    failing(monkeypatch, "json")
    assert fit("--out", tmp_path / "model.json") == 4
    out, err = capfd.readouterr()
    assert "The whole model is on standard output instead" in err
    assert json.loads(out)["content"]["epsilon_spent"] == 1.0
    assert list(place.iterdir()) == []
    options = ["--no-header", "--bounds", "0:1", "--epsilon", "1", "--out", str(tmp_path / "s.json")]
    assert main(["synopsis", str(data), *options]) == 4
    out, err = capfd.readouterr()
    assert "The whole synopsis is on standard output instead" in err
    assert json.loads(out)["kind"] == "dpkmeans synopsis"
