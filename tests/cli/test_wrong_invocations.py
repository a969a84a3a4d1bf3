"""Wrong invocations, and the whole of what each prints. A reader must know what to type next."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpkmeans import DPKMeans, DurableLedger, make_synopsis
from dpkmeans.cli.main import main


def make_folder(place: Path) -> None:
    """Files of all kinds, right and wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(rng.choice([20, 70], (500, 1)), 3, (500, 2)).round(2)
    rows = [f"{a},{b},p{i}" for i, (a, b) in enumerate(X.tolist())]
    texts = {
        "visits.csv": ["east,north,name", *rows],
        "semicolons.csv": ["east;north;name", *(row.replace(",", ";") for row in rows)],
        "german.csv": ["east;north", *(";".join(row.split(",")[:2]).replace(".", ",") for row in rows)],
        "gaps.csv": ["east,north", "1,2", ",3"],
        "ragged.csv": ["east,north", "1,2", "1,2,3"],
        "names_only.csv": ["east,north"],
        "empty.csv": [],
    }
    schemas = {
        "unfilled.toml": '[east]\nkind = "number"\nlower = "?"\nupper = 100\n',
        "broken.toml": "[east\n",
        "kind.toml": '[east]\nkind = "numeric"\nlower = 0\nupper = 100\n',
        "reversed.toml": '[east]\nkind = "number"\nlower = 100\nupper = 0\n',
        "typo.toml": '[east]\nkind = "number"\nmin = 0\nmax = 100\n',
        "absent.toml": '[est]\nkind = "number"\nlower = 0\nupper = 100\n',
        "dates.toml": '[name]\nkind = "date"\nlower = "2015-01-01"\nupper = "2025-12-31"\n',
        "wide.toml": '[east]\nkind = "number"\nlower = 0\nupper = 100\n[name]\nkind = "category"\nlevels = ["a"]\n',
        "open.toml": '[east]\nkind = "number"\n[north]\nkind = "number"\n',
    }
    for name, text in schemas.items():
        (place / name).write_text(text)
    for name, lines in texts.items():
        (place / name).write_text("".join(f"{line}\n" for line in lines))
    (place / "latin.csv").write_bytes("größe,north\n1,2\n".encode("latin-1"))
    (place / "cut.csv.gz").write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode())[:-20])
    (place / "folder").mkdir()
    parquet.write_table(pa.table({"east": [1.0, 2.0], "name": ["a", "b"]}), place / "visits.parquet")
    table = pa.table({"east": X[:, 0], "north": X[:, 1]})
    DPKMeans(2, epsilon=5, bounds=(0, 100)).fit(table).release_.save(place / "model.json")
    make_synopsis(X, epsilon=5, bounds=(0, 100)).save(place / "synopsis.json")
    DurableLedger.create(place / "ledger.db").add("visits", 0.5)


def outcome(line: str, place: Path) -> tuple[int, str]:
    """The exit code, and what was printed on stderr but for lines of progress; numbers that noise decides are N."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(shlex.split(line))
    said = [text for text in err.getvalue().splitlines() if not text.startswith(("Fitting ", "Making a synopsis "))]
    text = "\n".join(said).replace(f"{place}/", "")
    return code, re.sub(r"(noisy number of records, )\d+", r"\1N", text)


FIT = "fit visits.csv --columns east,north --bounds 0:100 --epsilon 1"
TABLE: list[tuple[str, int, str]] = [
    (
        "fitt visits.csv",
        2,
        'Unknown command "fitt". Did you mean "fit"? Available commands: fit, schema, predict, show, report, quality, '
        "profile, synopsis, ... Try: dpkmeans --help",
    ),
    ("fit", 2, "DATA is missing. Try: dpkmeans fit --help"),
    (
        "fit visits.csv more.csv --bounds 0:100 --epsilon 1",
        2,
        "not expected here: more.csv. DATA is one file, folder or pattern; put a pattern in quotes: 'visits/*.csv'. "
        "Try: dpkmeans fit --help",
    ),
    ("fit visits.csv --bound 0:100", 2, "Unknown option: --bound. Did you mean --bounds? Try: dpkmeans fit --help"),
    (
        "fit visits.csv --k three",
        2,
        "Invalid value for --k: it must be a whole number; got 'three'. Try: dpkmeans fit --help",
    ),
    (
        "fit visits.csv --k 2.5",
        2,
        "Invalid value for --k: it must be a whole number; got '2.5'. Try: dpkmeans fit --help",
    ),
    ("fit visits.csv --epsilon much", 2, "--epsilon must be a number; got 'much'. Try: dpkmeans fit --help"),
    ("fit visits.csv --bounds", 2, "--bounds needs a value. Try: dpkmeans fit --help"),
    (
        "fit visits.csv --engine cluster",
        2,
        'Invalid value "cluster" for --engine. Choose from: "memory", "stream", "dask", "spark". Try: dpkmeans fit '
        "--help",
    ),
    (
        "fit visits.csv --guarantee strong",
        2,
        'Invalid value "strong" for --guarantee. Choose from: "proved", "paper", "none". Try: dpkmeans fit --help',
    ),
    (
        "fit visits.csv --nulls drop",
        2,
        'Invalid value "drop" for --nulls. Choose from: "refuse", "midpoint". Try: dpkmeans fit --help',
    ),
    (
        "fit visits.csv --header yes",
        2,
        "not expected here: yes. DATA is one file, folder or pattern; put a pattern in quotes: 'visits/*.csv'. Try: "
        "dpkmeans fit --help",
    ),
    (
        "fit visits.csv --columns east,north --epsilon 1",
        2,
        "--bounds are missing. Noise is scaled to the bounds, so they must be known without looking at the data: "
        "an age lies in 0:120, a share in 0:1. Write bounds by name, such as age=0:120,income=0:2e5, which also "
        "chooses the columns; LOW:HIGH for all features, such as 0:1; one pair per feature, such as 0:10,-5:5; or "
        '"from data" (not private). Describe columns that are not numbers with --schema. '
        "If you know no bounds, --bounds-epsilon 0.1 spends that much of epsilon on a "
        "private estimate.",
    ),
    (
        "fit visits.csv --columns east,north --epsilon 1 --bounds 0-100",
        2,
        "--bounds cannot be read; got '0-100'. Write bounds by name, such as age=0:120,income=0:2e5, which also "
        "chooses the columns; LOW:HIGH for all features, such as 0:1; one pair per feature, such as 0:10,-5:5; or "
        '"from data" (not private).',
    ),
    (
        "fit visits.csv --columns east,north --epsilon 1 --bounds 100:0",
        2,
        "lower must be below upper; feature 0 has lower=100.0, upper=0.0. Did you mean 0 to 100? Give bounds that "
        "are known without looking at the data, such as --bounds 0:1 or, one by one for each feature, --bounds "
        "0:10,-5:5; --bounds 'from data' reads them from the records and makes the result not private.",
    ),
    (
        "fit visits.csv --columns east,north --epsilon 1 --bounds 5:5",
        2,
        "lower must be below upper; every feature has lower=upper (first: 5.0). Give bounds that are known without "
        "looking at the data, such as --bounds 0:1 or, one by one for each feature, --bounds 0:10,-5:5; --bounds "
        "'from data' reads them from the records and makes the result not private.",
    ),
    (
        "fit visits.csv --columns east,north --epsilon 1 --bounds 0:inf",
        2,
        "bounds must be finite; feature 0 has lower=0.0, upper=inf. Give bounds that are known without looking at "
        "the data, such as --bounds 0:1 or, one by one for each feature, --bounds 0:10,-5:5; --bounds 'from data' "
        "reads them from the records and makes the result not private.",
    ),
    (
        "fit visits.csv --columns east,north --epsilon 1 --bounds 0:1,0:2,0:3",
        2,
        "--bounds are given for 3 features; the records have 2. Give one pair for all features, or one for each.",
    ),
    ("fit visits.csv --columns east,north --bounds 0:100", 3, "--epsilon is missing. Write, say, --epsilon 1.0."),
    (
        "fit visits.csv --columns east,north --bounds 0:100 --epsilon 0",
        3,
        "--epsilon must be positive and finite; got 0.0. Write --epsilon 1.0, for example.",
    ),
    (
        "fit visits.csv --columns east,north --bounds 0:100 --epsilon -1",
        3,
        "--epsilon must be positive and finite; got -1.0. Write --epsilon 1.0, for example.",
    ),
    (
        "fit visits.csv --columns east,north --bounds 0:100 --epsilon 5000",
        3,
        "--epsilon must be at most 1000; got 5000.0. A budget that large protects nothing. If that is meant, use "
        "--method lloyd with --guarantee none.",
    ),
    (f"{FIT} --k 0", 2, "--k must be a whole number of at least 1; got 0."),
    (
        f"{FIT} --k 9 --n-records 5",
        4,
        "--k must be at most 5, the number of records that you give; got 9. Ask for fewer clusters, or correct "
        "--n-records.",
    ),
    (
        f"{FIT} --k 100000",
        4,
        "100000 clusters are more than the noisy number of records, N. The fit stopped after this count, which "
        "cost epsilon=0.029999999. Ask for fewer clusters with --k; or, if the number of records is public, give "
        "it with --n-records: then no count is needed.",
    ),
    (
        f"{FIT} --n-records 0",
        2,
        "--n-records must be a whole number of at least 1; got 0. Leave it out to spend a small share of epsilon on "
        "a noisy count.",
    ),
    (
        f"{FIT} --method dbscan",
        2,
        "unknown method 'dbscan'. Known: blum, dp-em, dwork, eugkm, gaussian, gupt, lei, lloyd, posterior, prior, "
        "privgene, su, su-hybrid, synopsis, synopsis-posterior, synopsis-prior.",
    ),
    (
        f"{FIT} --max-iter 5",
        2,
        "--max-iter is not for method 'synopsis'. It takes --n-records. Leave the others out, or choose another "
        "--method.",
    ),
    (
        f"{FIT} --method blum --init middle",
        2,
        "--init must be one of packing, rows, uniform, or an array of centroids; got 'middle'.",
    ),
    (
        "fit visits.csv --columns east,north --bounds 0:100 --method posterior",
        3,
        "the result would be labelled 'paper' (the algorithm as published; its epsilon is the paper's claim, not a "
        "guarantee), but you accept only 'proved'. The method follows the paper, whose privacy proof does not hold. "
        "The number of steps depends on the records, and is charged nothing. The start is drawn from the records; "
        "give a public init. Choose another --method, or accept it by writing --guarantee paper.",
    ),
    (
        "fit visits.csv --columns east,north --bounds 0:100 --method posterior --guarantee paper --step-epsilon 0",
        3,
        "--step-epsilon must be positive and finite; got 0.0. Write --step-epsilon 1.0, for example.",
    ),
    (
        "fit visits.csv --columns east,north --bounds 0:100 --method lloyd",
        3,
        "the result would be labelled 'none' (not private), but you accept only 'proved'. The method adds no noise. "
        "Choose another --method, or accept it by writing --guarantee none.",
    ),
    (
        f"{FIT} --seed 1",
        3,
        "the result would be labelled 'none' (not private), but you accept only 'proved'. A seed (random_state) "
        "makes the noise predictable. Leave --seed out, or accept it by writing --guarantee none.",
    ),
    (
        f"{FIT} --seed -1 --guarantee none",
        2,
        "--seed must be None, an integer of at least 0, or a NumPy generator; got -1. Leave it out for a private "
        "result.",
    ),
    (
        "fit visits.csv --columns east,north --bounds 'from data' --epsilon 1",
        3,
        "the result would be labelled 'none' (not private), but you accept only 'proved'. The bounds were read from "
        "the data; give public ones. Give public --bounds, or accept it by writing --guarantee none.",
    ),
    (
        "fit visits.csv --columns east,north --bounds 0:100 --bounds-epsilon 0.1 --epsilon 1",
        2,
        "bounds were given, and an estimate of them was asked for. Give --bounds or --bounds-epsilon, not both. With "
        "public bounds nothing is spent on them.",
    ),
    (
        "fit visits.csv --columns east,north --bounds-epsilon 1 --epsilon 1",
        3,
        "--bounds-epsilon 1.0 leaves nothing of the total, 1.0, for the clusters. A tenth of --epsilon is a good "
        "share.",
    ),
    (
        "fit visits.csv --header --bounds-epsilon 0.1 --epsilon 1",
        4,
        "column 'name' of visits.csv does not hold numbers only. Leave it out with --columns, or declare its kind "
        "(category, date, boolean) with --schema. If its numbers are written like 1,5, write --decimal ','.",
    ),
    (
        f"{FIT} --workers 2",
        2,
        "only --engine dask and --engine spark take --workers. Write one of them too, or leave it out.",
    ),
    (f"{FIT} --engine dask --workers 0", 2, "--workers must be at least 1; got 0."),
    (f"{FIT} --engine dask --memory lots", 2, "--memory must be a size such as 500MB or 2GB; got 'lots'."),
    (f"{FIT} --delimiter ';;'", 2, "--delimiter must be one character such as , ; or |, or the word tab; got ';;'."),
    (f"{FIT} --decimal ';'", 2, "--decimal must be a point or a comma; got ';'."),
    (
        f"{FIT} --decimal ,",
        2,
        "--decimal and the delimiter are both ','; they must differ. Files with decimal commas are mostly written "
        "with --delimiter ';'.",
    ),
    (
        f"{FIT} --encoding klingon",
        2,
        "--encoding is not known; got 'klingon'. Write, for example, --encoding latin-1, --encoding cp1252 or "
        "--encoding utf-16.",
    ),
    (
        f"{FIT} --encoding utf-7",
        2,
        "--encoding cannot be 'utf-7': in it, one record could change how others are read. Convert the file to UTF-8 "
        "first.",
    ),
    (f"{FIT} --quote ab", 2, "--quote must be one character such as \" or ', or the word none; got 'ab'."),
    (
        f"{FIT} --ledger missing.db --dataset visits",
        4,
        "there is no ledger at missing.db. Make one with: dpkmeans ledger create missing.db --dataset NAME --cap 1.0",
    ),
    (
        f"{FIT} --ledger ledger.db",
        2,
        "a durable ledger needs the name of the records in it. Write, say, --dataset visits.",
    ),
    (f"{FIT} --dataset visits", 2, "--dataset names the records in a durable ledger. Write --ledger ledger.db too."),
    (
        f"{FIT} --ledger ledger.db --dataset visit",
        2,
        "ledger.db has no data set 'visit'; it has: visits. Add it with: dpkmeans ledger create ledger.db --dataset "
        "visit --cap 1.0",
    ),
    (
        f"{FIT} --ledger ledger.db --dataset visits",
        3,
        "epsilon=1 is asked for, but data set 'visits' has only 0.5 left. Nothing was spent or drawn for it. Ask for "
        "less, or have the cap raised with: dpkmeans ledger cap.",
    ),
    (
        f"{FIT} --ledger semicolons.csv --dataset visits",
        4,
        "semicolons.csv is damaged, or it is not a ledger. Nothing was spent. Restore it from a copy.",
    ),
    (
        f"{FIT} --out model.json",
        4,
        "model.json exists already, and what it holds may have been paid for with privacy budget. Give another name, "
        "or write --force to replace it.",
    ),
    (f"{FIT} --out folder", 4, "cannot write folder: it is a folder. Give a file name."),
    (
        f"{FIT} --out nowhere/model.json",
        4,
        "cannot write nowhere/model.json: the folder nowhere does not exist. Make it first.",
    ),
    (f"{FIT} --out visits.csv", 2, "visits.csv would be replaced, but it is read. Give the output another name."),
    (f"{FIT} --out new.json --report new.json", 2, "new.json is the name of two outputs. Give each its own."),
    (
        "fit missing.csv --columns east,north --bounds 0:100 --epsilon 1",
        4,
        "cannot read missing.csv: No such file or directory. Check the path; for several files give a folder or a "
        "quoted pattern.",
    ),
    (
        "fit 'missing*.csv' --columns east,north --bounds 0:100 --epsilon 1",
        4,
        "no file matches missing*.csv. Give a Parquet or CSV file, a folder of them, or a pattern such as "
        "'visits/*.parquet'.",
    ),
    (
        "fit folder --columns east,north --bounds 0:100 --epsilon 1",
        4,
        "folder holds no Parquet or CSV files. Give a Parquet or CSV file, a folder of them, or a pattern such as "
        "'visits/*.parquet'.",
    ),
    (
        "fit visits.csv --bounds 0:100 --epsilon 1",
        4,
        "it is not known whether the first row of visits.csv holds names, and it is never guessed: a record could be "
        "taken for names and published. Write --header if it holds names, --no-header if it is a record; or name "
        "--columns, which are then looked for in the first row.",
    ),
    (
        "fit visits.csv --columns east,west --bounds 0:100 --epsilon 1",
        4,
        "the first row of visits.csv does not hold the name(s) 'west'. Names must match exactly, capitals included. "
        "If the row is a record, write --no-header; columns are then numbered from 0.",
    ),
    (
        "fit visits.csv --columns east,east --bounds 0:100 --epsilon 1",
        4,
        "a column was asked for twice: east, east. Name each once.",
    ),
    (
        "fit visits.csv --columns 0,7 --no-header --bounds 0:100 --epsilon 1",
        4,
        "visits.csv has no column '7'. It has no header; its columns are numbered 0 to 2.",
    ),
    (
        "fit visits.csv --header --bounds 0:100 --epsilon 1",
        4,
        "column 'name' of visits.csv does not hold numbers only. Leave it out with --columns, or declare its kind "
        "(category, date, boolean) with --schema. If its numbers are written like 1,5, write --decimal ','.",
    ),
    (
        "fit visits.csv --no-header --bounds 0:100 --epsilon 1",
        4,
        "column number 0 of visits.csv does not hold numbers only. Leave it out with --columns, or declare its "
        "kind (category, date, boolean) with --schema. If its numbers are written like 1,5, write --decimal ','. "
        "If the first row holds names, write --header.",
    ),
    (
        "fit semicolons.csv --columns east,north --bounds 0:100 --epsilon 1",
        4,
        "the first row of semicolons.csv does not hold the name(s) 'east', 'north'. The first row has 1 column and 2 "
        "semicolons: if these separate the cells, write --delimiter ';'.",
    ),
    (
        "fit semicolons.csv --header --bounds 0:100 --epsilon 1",
        4,
        "column 'east;north;name' of semicolons.csv does not hold numbers only. The first row has 1 column and 2 "
        "semicolons: if these separate the cells, write --delimiter ';'.",
    ),
    (
        "fit german.csv --header --delimiter ';' --bounds 0:100 --epsilon 1",
        4,
        "column 'east' of german.csv does not hold numbers only. Leave it out with --columns, or declare its kind "
        "(category, date, boolean) with --schema. If its numbers are written like 1,5, write --decimal ','.",
    ),
    (
        "fit gaps.csv --header --bounds 0:100 --epsilon 1",
        4,
        "column 'east' of gaps.csv has empty cells or NaN; records must not hold NaN. Drop or fill those records "
        "first; or put the middle of the bounds in their place with --nulls midpoint, or a value of your choice "
        "with 'missing' in a schema.",
    ),
    (
        "fit ragged.csv --header --bounds 0:100 --epsilon 1",
        4,
        "ragged.csv is not a regular CSV file: some rows do not have as many cells as the first, which has 2, or go "
        "over several lines. Separate cells by commas and close quotes. Other ways to write CSV are declared with "
        "--delimiter, --decimal and --quote.",
    ),
    (
        "fit names_only.csv --header --bounds 0:100 --epsilon 1",
        4,
        "names_only.csv has no records. Give at least one record.",
    ),
    (
        "fit empty.csv --header --bounds 0:100 --epsilon 1",
        4,
        "empty.csv is empty. Give a file with at least one record.",
    ),
    (
        "fit latin.csv --header --bounds 0:100 --epsilon 1",
        4,
        "latin.csv is not text in utf-8. Give the encoding in which it was written, such as --encoding cp1252 or "
        "--encoding utf-16; if it is no CSV file, convert it first.",
    ),
    (
        "fit cut.csv.gz --no-header --columns 0,1 --bounds 0:100 --epsilon 1",
        4,
        "cut.csv.gz is damaged: it cannot be read to its end. Restore it or write it again.",
    ),
    (
        "fit visits.parquet --bounds 0:100 --epsilon 1",
        4,
        "column 'name' of visits.parquet does not hold numbers only (its type is string). Leave it out with "
        "--columns, or declare its kind (category, date, boolean, vector) with --schema.",
    ),
    (
        "fit visits.parquet --columns east,west --bounds 0:100 --epsilon 1",
        4,
        "visits.parquet has no column 'west'. It has: east, name.",
    ),
    (
        "synopsis visits.csv --columns east,north --bounds 0:100 --out new.json",
        3,
        "--epsilon is missing. Write, say, --epsilon 1.0.",
    ),
    (
        "synopsis visits.csv --columns east,north --bounds 0:100 --epsilon 1",
        2,
        "--out is missing. Try: dpkmeans synopsis --help",
    ),
    (
        "synopsis visits.csv --columns east,north --bounds 0:100 --epsilon 1 --out synopsis.json",
        4,
        "synopsis.json exists already, and what it holds may have been paid for with privacy budget. Give another "
        "name, or write --force to replace it.",
    ),
    (
        "explore model.json",
        4,
        "model.json is a dpkmeans model file, not a dpkmeans synopsis file. Read it with dpkmeans show, report or "
        "predict.",
    ),
    ("explore synopsis.json --k many", 2, "--k cannot be read; got 'many'. Write 2:20 for 2 to 20, or 3,5,8."),
    ("explore synopsis.json --k 0", 2, "--k must be a whole number of at least 1; got 0."),
    (
        "explore synopsis.json --k 2:5 --out new.json",
        2,
        "--out writes one model, so --k must be one number, as in --k 5.",
    ),
    ("predict model.json", 2, "DATA is missing. Try: dpkmeans predict --help"),
    (
        "predict visits.csv german.csv",
        4,
        "visits.csv is not a dpkmeans model file, or it is damaged: it is not JSON. Give one that dpkmeans wrote.",
    ),
    (
        "predict model.json visits.csv --columns east",
        4,
        "visits.csv gives 1 column(s); the model was fitted on 2: east, north. Choose as many with --columns, in "
        "that order.",
    ),
    (
        "predict model.json visits.csv --keep cluster",
        2,
        "--keep cluster is not possible: the column of the clusters has that name. Rename yours first.",
    ),
    (
        "predict model.json visits.csv --keep patient",
        4,
        "the first row of visits.csv does not hold the name(s) 'patient'. Names must match exactly, capitals "
        "included. If the row is a record, write --no-header; columns are then numbered from 0.",
    ),
    (
        "predict model.json visits.csv --json --out new.csv",
        2,
        "--json prints the clusters and --out writes them to a file. Give one of the two.",
    ),
    (
        "predict model.json visits.csv --out model.json",
        2,
        "model.json would be replaced, but it is read. Give the output another name.",
    ),
    ("show missing.json", 4, "cannot read missing.json: No such file or directory. Check the path."),
    (
        "report synopsis.json",
        4,
        "synopsis.json is a dpkmeans synopsis file, not a dpkmeans model file. Read it with dpkmeans show or explore.",
    ),
    (
        "show visits.csv",
        4,
        "visits.csv is not a dpkmeans model file, or it is damaged: it is not JSON. Give one that dpkmeans wrote.",
    ),
    ("report model.json --out folder", 4, "cannot write folder: it is a folder. Give a file name."),
    (
        "ledger create ledger.db --dataset visits --cap 1",
        2,
        "ledger.db already has a data set 'visits'. Change its cap with: dpkmeans ledger cap ledger.db --dataset "
        "visits --cap 1",
    ),
    (
        "ledger create new.db --dataset visits --cap 0",
        3,
        "--cap must be positive and finite; got 0.0. Write --cap 1.0, for example.",
    ),
    (
        "ledger show missing.db",
        4,
        "there is no ledger at missing.db. Make one with: dpkmeans ledger create missing.db --dataset NAME --cap 1.0",
    ),
    (
        "ledger cap ledger.db --dataset visit --cap 1",
        2,
        "ledger.db has no data set 'visit'; it has: visits. Add it with: dpkmeans ledger create ledger.db --dataset "
        "visit --cap 1.0",
    ),
    (
        "fit visits.csv --schema missing.toml --epsilon 1",
        4,
        "cannot read missing.toml: No such file or directory. A first schema is written by: dpkmeans schema DATA "
        "--out schema.toml",
    ),
    (
        "fit visits.csv --schema unfilled.toml --epsilon 1",
        2,
        "unfilled.toml: lower of column 'east' is still to be filled in. Give what is known without looking at the "
        "data, or delete the column.",
    ),
    (
        "fit visits.csv --schema broken.toml --epsilon 1",
        2,
        "broken.toml is not TOML: Expected ']' at the end of a table declaration (at line 1, column 6). A first "
        "schema is written by: dpkmeans schema DATA --out schema.toml",
    ),
    (
        "fit visits.csv --schema kind.toml --epsilon 1",
        2,
        "kind.toml: column 'east' needs a kind, one of 'number', 'date', 'time', 'boolean', 'category', "
        "'vector'; got 'numeric'.",
    ),
    (
        "fit visits.csv --schema reversed.toml --epsilon 1",
        2,
        "reversed.toml: column 'east': lower must be below upper; got lower=100.0, upper=0.0. Did you mean 0.0 to "
        "100.0?",
    ),
    (
        "fit visits.csv --schema typo.toml --epsilon 1",
        2,
        "typo.toml: column 'east': a number takes lower, upper, missing, infinite; got min, max.",
    ),
    (
        "fit visits.csv --schema absent.toml --epsilon 1",
        4,
        "the first row of visits.csv does not hold the name(s) 'est'. Names must match exactly, capitals included. "
        "If the row is a record, write --no-header; columns are then numbered from 0.",
    ),
    (
        "fit visits.csv --schema dates.toml --epsilon 1",
        4,
        "column 'name' of visits.csv is a date in the schema, but holds other values. Dates are "
        "written like 2015-01-31 or 2015-01-31T14:30; if these are not, say how in the schema, such as format = "
        "'%d.%m.%Y'.",
    ),
    (
        "fit visits.csv --schema wide.toml --epsilon 1",
        2,
        "the bounds are 100 times as wide in 'east' as in 'name'. k-means adds squared differences across "
        "features, so 'east' would dominate and 'name' would hardly matter. Write --scale box to give every "
        "feature the same say, whatever its width; --scale none to keep units, so that the widest feature decides "
        "most; or weigh columns by name on top of that: scale=dict(age=2.0), in the command --scale age=2. "
        "Centroids are in your units either way.",
    ),
    (
        "fit visits.csv --schema open.toml --epsilon 1",
        2,
        "column 'east' of the schema has no bounds. Give its lower and upper end, as they are known without "
        "looking at the data; or spend a share of epsilon on an estimate with --bounds-epsilon.",
    ),
    (
        "fit visits.csv --schema open.toml --bounds-epsilon 0.1 --epsilon 1",
        2,
        "with estimated bounds, the widths of the features are not known in advance. Say how to scale them. Write "
        "--scale box to give every feature the same say, whatever its width; --scale none to keep units, so that "
        "the widest feature decides most; or weigh columns by name on top of that: scale=dict(age=2.0), in the "
        "command --scale age=2.",
    ),
    (
        "fit visits.csv --schema wide.toml --bounds 0:100 --epsilon 1",
        2,
        "a schema holds the bounds. Give --schema or --bounds, not both.",
    ),
    (
        "fit visits.csv --schema wide.toml --columns east --scale box --epsilon 1",
        2,
        "a schema and bounds by name choose the columns by themselves. Leave --columns out.",
    ),
    (
        "fit visits.csv --bounds east=0:100,0:100 --epsilon 1",
        2,
        "--bounds must name every column, each once, or none; got 'east=0:100,0:100'. Write bounds by name, such "
        "as age=0:120,income=0:2e5, which also chooses the columns; LOW:HIGH for all features, such as 0:1; one "
        'pair per feature, such as 0:10,-5:5; or "from data" (not private).',
    ),
    (
        "fit visits.csv --bounds east=0:100,est=0:100 --epsilon 1",
        4,
        "the first row of visits.csv does not hold the name(s) 'est'. Names must match exactly, capitals included. "
        "If the row is a record, write --no-header; columns are then numbered from 0.",
    ),
    (
        "fit visits.csv --bounds east=0:100,north=0:5 --epsilon 1",
        2,
        "the bounds are 20 times as wide in 'east' as in 'north'. k-means adds squared differences across "
        "features, so 'east' would dominate and 'north' would hardly matter. Write --scale box to give every "
        "feature the same say, whatever its width; --scale none to keep units, so that the widest feature decides "
        "most; or weigh columns by name on top of that: scale=dict(age=2.0), in the command --scale age=2. "
        "Centroids are in your units either way.",
    ),
    (
        "fit visits.csv --bounds east=100:0 --epsilon 1",
        2,
        "--bounds of column 'east': lower must be below upper; got lower=100.0, upper=0.0. Did you mean 0.0 to 100.0?",
    ),
    (
        "fit visits.csv --bounds east=0:100,north=0:100 --scale boxes --epsilon 1",
        2,
        "--scale cannot be read; got 'boxes'. Write box, none, or weights by name, such as age=2,income=0.5.",
    ),
    (
        "fit visits.csv --bounds east=0:100,north=0:100 --scale est=2 --epsilon 1",
        2,
        "--scale weighs a column that is not used: 'est'. Used are: east, north.",
    ),
    (
        "fit visits.csv --bounds east=0:100,north=0:100 --scale east=-2 --epsilon 1",
        2,
        "--scale must have positive numbers as weights; 'east' has -2.0.",
    ),
    (
        "schema visits.csv",
        4,
        "it is not known whether the first row of visits.csv holds names, and it is never guessed: a record could "
        "be taken for names and published. Write --header if it holds names, --no-header if it is a record; or "
        "name --columns, which are then looked for in the first row.",
    ),
    (
        "schema missing.csv",
        4,
        "cannot read missing.csv: No such file or directory. Check the path; for several files give a folder or a "
        "quoted pattern.",
    ),
    (
        "schema visits.csv --header --out model.json",
        4,
        "model.json exists already. Give another name, or write --force to replace it.",
    ),
    (
        "synopsis visits.csv --bounds east=0:100,north=0:5 --epsilon 1 --out s.json",
        2,
        "the bounds are 20 times as wide in 'east' as in 'north'. k-means adds squared differences across "
        "features, so 'east' would dominate and 'north' would hardly matter. Write --scale box to give every "
        "feature the same say, whatever its width; --scale none to keep units, so that the widest feature decides "
        "most; or weigh columns by name on top of that: scale=dict(age=2.0), in the command --scale age=2. "
        "Centroids are in your units either way.",
    ),
    ("plan --features 2", 2, "--records is missing. Try: dpkmeans plan --help"),
    (
        "plan --records 1000 --features 2 --bounds 'from data'",
        2,
        "plan reads no data; give --bounds as numbers, such as 0:1.",
    ),
    (
        "plan --records 1000 --features 2 --bounds 0:1,0:2,0:3",
        2,
        "--bounds are given for 3 features; the records have 2. Give one pair for all features, or one for each.",
    ),
    (
        "plan --records 1000 --features 2 --epsilon -1",
        3,
        "--epsilon must be positive and finite; got -1.0. Write --epsilon 1.0, for example.",
    ),
    ("demo --out folder", 4, "cannot write folder: it is a folder. Give a file name."),
    (
        "predict visits.csv visits.csv",
        2,
        "one file is given for two things: visits.csv, visits.csv. Check the arguments.",
    ),
]
"""What is typed after `dpkmeans`, the exit code, and the whole message after `error: `."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    place: Path = tmp_path_factory.mktemp("wrong")
    make_folder(place)
    return place


@pytest.mark.parametrize(("line", "code", "message"), TABLE, ids=[line for line, _, _ in TABLE])
def test_a_wrong_invocation_says_what_to_type_next(folder, line, code, message, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert outcome(line, folder) == (code, f"error: {message}")
    assert sorted(folder.iterdir()) == before, "a refused command writes nothing"


def test_the_table_is_long_and_no_row_stands_in_it_twice():
    lines = [line for line, _, _ in TABLE]
    assert len(lines) >= 40
    assert len(set(lines)) == len(lines)
