"""A file that changes after its records were opened is refused, whatever changed, before two versions are mixed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpkmeans import DPKMeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.data import open as opening
from dpkmeans.data.fingerprint import Fingerprint
from dpkmeans.data.open import open_records
from dpkmeans.data.source import Files
from dpkmeans.engines.open import open_data
from dpkmeans.errors import ChangedFileError, FileError, MissingFileError

N = 4000
OLD, NEW = np.random.default_rng(1).random((2, N, 2))
BOX = Bounds.of((0, 1), 2)
CENTROIDS = np.array([[0.2, 0.2], [0.8, 0.8]])


def write(path: Path, records, **options) -> Path:
    table = pa.table({"east": records[:, 0], "north": records[:, 1]})
    parquet.write_table(table, path, row_group_size=1000, compression="none", use_dictionary=False, **options)
    return path


def replaced(path: Path) -> None:
    write(path.with_name("new"), NEW).replace(path)


def rewritten(path: Path) -> None:
    write(path, NEW)


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0")


def with_its_old_time(path: Path) -> None:
    """The inode and the footer show it where size and time do not."""
    before = path.stat()
    replaced(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def changed_in_place_with_its_old_time(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-40, os.SEEK_END)  # within the footer
        byte = file.read(1)
        file.seek(-40, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [replaced, rewritten, grown, with_its_old_time, changed_in_place_with_its_old_time])
def test_a_parquet_file_that_changes_between_two_passes_is_refused(tmp_path, change):
    path = write(tmp_path / "visits.parquet", OLD)
    engine = open_data(path, "stream").engine(BOX)
    engine.cell_statistics(CENTROIDS)
    change(path)
    with pytest.raises(ChangedFileError, match=r"visits.parquet changed after the records were opened"):
        engine.cell_statistics(CENTROIDS)


def test_a_file_that_changes_while_it_is_read_is_refused_at_the_end_of_the_pass(tmp_path):
    path = write(tmp_path / "visits.parquet", OLD)
    batches = open_records(path).found.batches(1000)
    next(batches)
    replaced(path)
    with pytest.raises(ChangedFileError):
        list(batches)


def test_a_csv_file_that_is_still_written_to_is_refused(tmp_path):
    path = tmp_path / "visits.csv"
    np.savetxt(path, OLD, delimiter=",")
    unread = open_records(Files(path, header=False)).found
    with path.open("a") as file:
        file.write("0.5,0.5\n")
    with pytest.raises(ChangedFileError, match="its size, the time of its last change"):
        unread.spool()


def test_a_csv_piece_for_workers_carries_its_fingerprint(tmp_path):
    path = tmp_path / "visits.csv"
    np.savetxt(path, OLD, delimiter=",")
    (piece,) = open_records(Files(path, header=False)).found.for_workers().pieces
    assert sum(batch.n for batch in piece.batches(1000)) == N
    np.savetxt(path, NEW, delimiter=",")
    with pytest.raises(ChangedFileError):
        list(piece.batches(1000))


def test_a_memory_map_that_changes_between_two_passes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "LARGE_MAP", 1)
    np.save(tmp_path / "visits.npy", OLD)
    engine = open_data(np.load(tmp_path / "visits.npy", mmap_mode="r")).engine(BOX)
    before = engine.cell_statistics(CENTROIDS)
    assert (engine.cell_statistics(CENTROIDS)._value.counts == before._value.counts).all()
    other = np.load(tmp_path / "visits.npy", mmap_mode="r+")
    other[:10] = 0.0
    other.flush()
    with pytest.raises(ChangedFileError):
        engine.cell_statistics(CENTROIDS)


def test_another_machine_compares_all_but_the_inode(tmp_path):
    path = write(tmp_path / "visits.parquet", OLD)
    here = Fingerprint.of(path)
    elsewhere = Fingerprint(here.size, here.modified_ns, here.inode + 1, "another machine", here.footer)
    elsewhere.check(path)
    with pytest.raises(ChangedFileError, match="opened: its inode differs"):
        Fingerprint(here.size, here.modified_ns, here.inode + 1, here.machine, here.footer).check(path)
    for change in ({"size": 1}, {"modified_ns": 1}, {"footer": "other"}):
        with pytest.raises(ChangedFileError):
            Fingerprint(**(vars(elsewhere) | change)).check(path)
    path.unlink()
    with pytest.raises(MissingFileError):
        here.check(path)


def damage(path: Path) -> None:
    """One bit of a number, within the bounds, where neither the footer nor the layout of a page shows it."""
    raw, number = bytearray(path.read_bytes()), OLD[10, 0].tobytes()
    raw[raw.index(number)] ^= 1
    path.write_bytes(raw)


def test_a_page_whose_checksum_is_wrong_is_damaged(tmp_path):
    path = write(tmp_path / "visits.parquet", OLD, write_page_checksum=True)
    damage(path)
    for engine in ("memory", "stream"):
        with pytest.raises(FileError, match="damaged"):
            DPKMeans(2, epsilon=1.0, bounds=(0, 1), engine=engine).fit(path)
    without = write(tmp_path / "plain.parquet", OLD)
    damage(without)  # nobody can tell
    DPKMeans(2, epsilon=1.0, bounds=(0, 1)).fit(without)


def test_pipes_folders_and_loops_of_links_are_no_data_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    for name, why in (("pipe.csv", "a pipe or a device"), ("a.csv", "symbolic links")):
        for given in (tmp_path / name, [tmp_path / name], f"{tmp_path}/{name[0]}*.csv"):
            with pytest.raises(FileError, match=f"{why}|no file matches"):
                open_records(Files(given, header=False))
