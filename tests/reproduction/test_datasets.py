from __future__ import annotations

import gzip
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from dpkmeans.errors import DataError, FileError, MethodError
from dpkmeans.reproduction.catalog import (
    CATALOG,
    PAPER_SETS,
    DatasetSource,
    birch2_subset,
    content_hash,
    distinct_colours,
)
from dpkmeans.reproduction.datasets import load_dataset

RECORDS = np.array([[5.1, 3.5], [4.9, 3.0], [6.25, -1.0]])
GOOD = "5.1,3.5,Iris-setosa\n4.9,3.0,Iris-setosa\n\n6.25,-1.0,Iris-virginica\n\n"


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.startswith("/cut/"):  # says more than it sends
            body = (Path(self.directory) / self.path.removeprefix("/cut/")).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            return
        super().do_GET()


@pytest.fixture
def site(tmp_path):
    pytest.importorskip("pooch", reason="downloads need the extra experiments")
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "good.txt").write_text(GOOD)
    (folder / "short.txt").write_text(GOOD[:25])
    (folder / "other.txt").write_text(GOOD.replace("6.25", "6.5"))
    (folder / "page.txt").write_text("<html><body>This page has moved</body></html>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("DPKMEANS_DATA", raising=False)


def catalog_at(*addresses, **changes):
    home = DatasetSource(
        "flowers",
        "Flowers",
        2,
        (3, 2),
        content_hash(RECORDS),
        "as in the paper",
        "the Botanical Garden, file flowers.data",
        (addresses,),
    )
    return {"flowers": replace(home, **changes)}


def test_a_good_file_is_downloaded_checked_and_kept(site, tmp_path):
    cache = tmp_path / "cache"
    data = load_dataset("flowers", catalog=catalog_at(f"{site}/good.txt"), cache=cache)
    np.testing.assert_array_equal(data.records, [[4.9, 3.0], [5.1, 3.5], [6.25, -1.0]])
    assert [path.name for path in cache.iterdir()] == ["flowers.csv.gz"]
    again = load_dataset("flowers", catalog=catalog_at("http://127.0.0.1:1/gone"), cache=cache)
    np.testing.assert_array_equal(again.records, data.records)


@pytest.mark.parametrize("file", ["short.txt", "cut/good.txt", "other.txt", "page.txt", "absent.txt"])
def test_a_truncated_wrong_or_absent_file_is_refused_and_nothing_is_kept(site, tmp_path, file):
    cache = tmp_path / "cache"
    with pytest.raises(FileError) as caught:
        load_dataset("flowers", catalog=catalog_at(f"{site}/{file}"), cache=cache)
    for part in ("'flowers'", f"{site}/{file}", "Botanical Garden", "flowers.csv", "DPKMEANS_DATA"):
        assert part in str(caught.value)
    assert list(cache.iterdir()) == []


def test_a_bad_mirror_is_passed_over(site, tmp_path):
    catalog = catalog_at(f"{site}/other.txt", f"{site}/absent.txt", "http://127.0.0.1:1/nobody", f"{site}/good.txt")
    assert load_dataset("flowers", catalog=catalog, cache=tmp_path).records.shape == (3, 2)


def test_a_damaged_cache_is_an_error_that_names_the_file(site, tmp_path):
    catalog = catalog_at(f"{site}/good.txt")
    load_dataset("flowers", catalog=catalog, cache=tmp_path)
    file = tmp_path / "flowers.csv.gz"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(FileError, match=r"flowers\.csv\.gz"):
        load_dataset("flowers", catalog=catalog, cache=tmp_path)


def test_the_folder_comes_before_the_cache_and_its_content_is_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("DPKMEANS_DATA", str(tmp_path))
    catalog = catalog_at("http://127.0.0.1:1/nobody")
    np.savetxt(tmp_path / "flowers.csv", RECORDS[::-1], delimiter=",", fmt="%.17g")
    assert load_dataset("flowers", catalog=catalog).sha256 == content_hash(RECORDS)
    np.savetxt(tmp_path / "flowers.csv", RECORDS + 1, delimiter=",")
    with pytest.raises(DataError, match=r"'flowers'.*other numbers"):
        load_dataset("flowers", catalog=catalog)
    np.savetxt(tmp_path / "flowers.csv", RECORDS[:2], delimiter=",")
    with pytest.raises(DataError, match=r"\(3, 2\).*\(2, 2\)"):
        load_dataset("flowers", catalog=catalog)


def test_any_csv_of_the_folder_is_a_data_set_that_needs_its_own_k(tmp_path, monkeypatch):
    monkeypatch.setenv("DPKMEANS_DATA", str(tmp_path))
    (tmp_path / "mine.csv.gz").write_bytes(gzip.compress(b"1,2\n3,4\n"))
    data = load_dataset("mine", k=2)
    assert (data.k, data.records.shape, data.stand_in) == (2, (2, 2), False)
    with pytest.raises(MethodError, match="number of clusters"):
        load_dataset("mine")
    with pytest.raises(FileError, match=r"unknown data set 'yours'.*yours\.csv.*DPKMEANS_DATA"):
        load_dataset("yours")
    with pytest.raises(MethodError, match="without its folder"):
        load_dataset("../mine", k=2)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "1,2\n3\n", "", "1,nan\n"])
def test_a_csv_that_is_no_table_of_finite_numbers_is_refused(tmp_path, monkeypatch, text):
    monkeypatch.setenv("DPKMEANS_DATA", str(tmp_path))
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(DataError, match=r"mine\.csv"):
        load_dataset("mine", k=1)


def test_without_pooch_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(FileError, match=r"dpkmeans\[all\].*Botanical Garden"):
        load_dataset("flowers", catalog=catalog_at("http://127.0.0.1:1/x"), cache=tmp_path)


def test_the_papers_sets_are_known_and_the_two_stand_ins_say_so():
    assert [CATALOG[name].name for name in PAPER_SETS] == list(PAPER_SETS)
    assert {name for name, home in CATALOG.items() if home.status.startswith("stand-in")} == {"birch2", "image"}
    assert all(len(home.sha256) == 64 and home.files and home.origin for home in CATALOG.values())


def test_the_birch2_subset_takes_all_of_the_first_file_and_new_rows_of_the_second(tmp_path):
    (tmp_path / "a").write_text("   1   2\n   3   4\n")
    (tmp_path / "b").write_text("   3   4\n   5   6\n   1   2\n")
    assert birch2_subset([tmp_path / "a", tmp_path / "b"]).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_picture_becomes_its_different_colours(tmp_path):
    from PIL import Image

    pixels = np.array([[[1, 2, 3], [1, 2, 3]], [[0, 9, 9], [4, 5, 6]]], dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.tiff")
    (tmp_path / "picture.tiff").rename(tmp_path / "0.raw")
    assert distinct_colours([tmp_path / "0.raw"]).tolist() == [[0, 9, 9], [1, 2, 3], [4, 5, 6]]


def test_the_content_hash_sees_values_and_shape_but_not_the_order_of_rows():
    assert content_hash(RECORDS) == content_hash(RECORDS[::-1])
    assert content_hash(RECORDS) != content_hash(RECORDS + 1e-12)
    assert content_hash(RECORDS) != content_hash(RECORDS.reshape(2, 3))


def test_data_are_scaled_to_the_unit_box_and_a_constant_feature_to_zero(tmp_path, monkeypatch):
    monkeypatch.setenv("DPKMEANS_DATA", str(tmp_path))
    (tmp_path / "mine.csv").write_text("1,7\n3,7\n2,7\n")
    assert load_dataset("mine", k=1).unit_records().tolist() == [[0, 0], [0.5, 0], [1, 0]]
