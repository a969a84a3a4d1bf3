"""Signed ledgers and releases: whoever has no key changes nothing unseen, and what does not fit is named."""

from __future__ import annotations

import json
import os
import pickle
import random
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpkmeans import DPKMeans
from dpkmeans.cli.main import main
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.release import Release
from dpkmeans.errors import FileError, LedgerError
from dpkmeans.privacy.durable.hash_chain import COLUMNS, FIELDS, LedgerEntry, verify
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.durable.tables import BEFORE_3
from dpkmeans.storage import json_files as files
from dpkmeans.storage.identity import digest_of
from dpkmeans.storage.keys import RELEASE, SigningKey, is_signed_by, public_path, read_public_key
from dpkmeans.storage.models import KIND
from dpkmeans.verification import check_release

pytest.importorskip("cryptography")
X = np.random.default_rng(0).random((3000, 2))
N_EDITS = 1000
SIGNED = "it is signed by the key given"


@pytest.fixture(scope="module")
def key(tmp_path_factory) -> SigningKey:
    return SigningKey.create(tmp_path_factory.mktemp("keys") / "curator.key")


@pytest.fixture(scope="module")
def place(tmp_path_factory, key) -> Path:
    """A signed ledger with a history of every kind of entry, and a signed model of one of its fits."""
    folder: Path = tmp_path_factory.mktemp("signed")
    store = DurableLedger.create(folder / "ledger.db", analyst="ada", key=key)
    store.add("visits", 5.0)
    store.add("sales", 1.0)
    store.set_cap("sales", 2.0)
    store.set_share("visits", "ada", 3.0)
    for n in range(3):
        store.spend("sales", Epsilon.of(0.1), fit=f"s{n}", label="count")
    release = DPKMeans(2, epsilon=1.0, bounds=(0, 1), ledger=store, dataset="visits").fit(X).release_
    release.signed(key).save(folder / "model.json")
    store.reserve("visits", Epsilon.of(0.5), fit="late", label="su")
    store.close()
    return folder


# --- keys -----------------------------------------------------------------------------------------------------------


def test_a_private_key_is_for_its_owner_alone_and_never_replaced_nor_printed(tmp_path):
    made = SigningKey.create(tmp_path / "curator.key")
    private = (tmp_path / "curator.key").read_text()
    assert stat.S_IMODE((tmp_path / "curator.key").stat().st_mode) == 0o600
    assert public_path(made.path) == tmp_path / "curator.pub"
    assert read_public_key(tmp_path / "curator.pub") == made.public == SigningKey.read(made.path).public
    secret = private.splitlines()[1]
    assert secret not in repr(made) + str(made) + str(vars(made).get("path"))
    with pytest.raises(FileError, match="never replaced"):
        SigningKey.create(tmp_path / "curator.key")
    assert (tmp_path / "curator.key").read_text() == private
    (tmp_path / "other.pub").write_text("mine")
    with pytest.raises(FileError, match="never replaced"):
        SigningKey.create(tmp_path / "other.key")
    assert not (tmp_path / "other.key").exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660])
def test_a_private_key_that_others_may_read_is_refused(tmp_path, mode):
    made = SigningKey.create(tmp_path / "curator.key")
    os.chmod(made.path, mode)
    with pytest.raises(FileError, match=f"can be read by others \\(mode {mode:04o}\\).* chmod 600"):
        SigningKey.read(made.path)
    os.chmod(made.path, 0o400)
    assert SigningKey.read(made.path).public == made.public


@pytest.mark.parametrize(
    "content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", b"\xff" * 9]
)
def test_what_is_no_key_is_refused(tmp_path, content, key):
    path = tmp_path / "x"
    path.write_bytes(content)
    for read in (SigningKey.read, read_public_key):
        with pytest.raises(FileError, match="holds no"):
            read(path)
    with pytest.raises(FileError, match="holds no public key"):
        read_public_key(key.path)
    with pytest.raises(FileError, match="cannot read the key"):
        SigningKey.read(tmp_path / "absent")


def test_a_signature_of_an_entry_is_none_of_a_release(key):
    digest = "a" * 64
    assert is_signed_by(key.public, RELEASE, digest, key.sign(RELEASE, digest))
    assert not is_signed_by(key.public, "dpkmeans ledger entry", digest, key.sign(RELEASE, digest))


# --- the chain ------------------------------------------------------------------------------------------------------


def test_a_signed_ledger_takes_entries_of_its_key_alone(place, tmp_path, key):
    other = SigningKey.create(tmp_path / "other.key")
    path = place / "ledger.db"
    for wrong in (None, other):
        with pytest.raises(LedgerError, match="is signed by the key"):
            DurableLedger(path, key=wrong).spend("sales", Epsilon.of(0.1), fit="x", label="x")
        with pytest.raises(LedgerError, match="is signed by the key"):
            DurableLedger(path, key=wrong).account("sales", promised=0.1)
    found = DurableLedger(path).verify()
    assert (found.intact, found.signer) == (True, key.public)
    assert DurableLedger(path).verify(key=key.public).intact
    assert "another key" in DurableLedger(path).verify(key=other.public).why


def test_a_ledger_that_is_not_signed_is_no_signed_one(tmp_path, key):
    store = DurableLedger.create(tmp_path / "plain.db", analyst="ada")
    store.add("visits", 1.0)
    assert "not signed" in store.verify(key=key.public).why
    with pytest.raises(LedgerError, match="is not signed, and a key was given"):
        DurableLedger(store.path, key=key).spend("visits", Epsilon.of(0.1), fit="a", label="x")


def test_a_ledger_can_be_signed_from_an_entry_on_and_travels_without_its_key(tmp_path, key):
    DurableLedger.create(tmp_path / "ledger.db", analyst="ada").add("visits", 1.0)
    store = DurableLedger(tmp_path / "ledger.db", key=key)
    head = store.head()
    store.sign()
    store.spend("visits", Epsilon.of(0.1), fit="a", label="x")
    assert store.verify(head, key.public).intact
    assert [entry.signature is None for entry in store.entries()] == [True, False, False]
    sent = pickle.dumps(store)
    assert bytes.fromhex(key._key.private_bytes_raw().hex()) not in sent
    pickle.loads(sent).spend("visits", Epsilon.of(0.1), fit="b", label="x")
    assert store.verify(key=key.public).entries == 4


def test_of_a_chain_that_was_cut_off_a_head_kept_elsewhere_tells(place, key):
    entries = DurableLedger(place / "ledger.db").entries()
    cut = entries[:-2]
    assert verify(cut, key=key.public).intact
    assert "entries were removed" in verify(cut, entries[-1].hash, key.public).why


def edited(entries: list[LedgerEntry], rng: random.Random) -> list[LedgerEntry]:
    """The chain with one random edit, and all hashes from there on made to match; signatures stay where they were."""
    at = rng.randrange(len(entries))
    entry, how = entries[at], rng.randrange(8)
    if how == 0:
        entries = entries[:at] + entries[at + 1 :]
    elif how == 1:
        entries = [*entries[:at], entry, *entries[at:]]
    elif how == 2:
        other = rng.randrange(len(entries))
        entries[at], entries[other] = entries[other], entries[at]
    elif how == 3:
        seal = entry.hash if entry.signature else f"{entry.hash} {'0' * 128}"
        return [*entries[:at], replace(entry, sha256=seal), *entries[at + 1 :]]
    else:
        name = rng.choice([name for name in FIELDS if name not in ("previous", "sha256")])
        value = getattr(entry, name)
        change = value + rng.choice((-1, 1, 10**6)) if isinstance(value, int) else value + rng.choice(" x1")
        entries = [*entries[:at], replace(entry, **{name: change}), *entries[at + 1 :]]
    out, previous = [], "0" * 64
    for number, one in enumerate(entries, start=1):
        kept = one.number if how > 3 and number == at + 1 else number
        one = replace(one, number=kept, previous=previous)
        seal = f"{one.digest()} {one.signature}" if one.signature else one.digest()
        out.append(replace(one, sha256=seal))
        previous = seal
    return out


def test_a_thousand_random_edits_of_a_signed_ledger_are_all_found_and_named(place, key):
    good = list(DurableLedger(place / "ledger.db").entries())
    head, rng, named, edits = good[-1].hash, random.Random(7), set(), 0
    while edits < N_EDITS:
        changed = edited(list(good), rng)
        if changed == good:
            continue
        edits += 1
        found = verify(changed, head, key.public)
        assert not found.intact
        named.add(found.why.split(":")[0])
    assert {"its signature is not one by the key of the ledger", "it is not signed, and the ledger is"} <= named


def test_nothing_is_spent_on_top_of_a_forged_entry(place, tmp_path, key):
    path = tmp_path / "copy.db"
    path.write_bytes((place / "ledger.db").read_bytes())
    last = DurableLedger(path).entries()[-1]
    forged = replace(last, nano=last.nano // 10, spent=last.spent - last.nano + last.nano // 10)
    forged = replace(forged, sha256=f"{forged.digest()} {last.signature}")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER no_update")
        columns = ", ".join(f"{name} = ?" for name in FIELDS)
        connection.execute(f"UPDATE entries SET {columns} WHERE number = ?", (*vars(forged).values(), last.number))
        connection.execute(BEFORE_3[2])
    store = DurableLedger(path, analyst="ada", key=key)
    with pytest.raises(LedgerError, match=f"entry {last.number} of the ledger was changed"):
        store.spend("visits", Epsilon.of(0.1), fit="x", label="x")
    assert store.verify().broken_at == last.number


# --- models ---------------------------------------------------------------------------------------------------------


def leaves(value, path=()):
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, step))
    else:
        yield path


def with_edit(content: dict, paths: list, rng: random.Random) -> dict:
    changed = json.loads(json.dumps(content))
    *way, last = rng.choice(paths)
    place = changed
    for step in way:
        place = place[step]
    value = place[last]
    if isinstance(value, bool) or value is None:
        place[last] = not value
    elif isinstance(value, int | float):
        place[last] = value + rng.choice((-1, 1)) if isinstance(value, int) else value * rng.choice((0.1, 0.999, 1.5))
    else:
        place[last] = value[:-1] + rng.choice("0ax") if rng.random() < 0.5 else value + " "
    return changed


@pytest.mark.slow
def test_a_thousand_random_edits_of_a_signed_model_are_all_found_and_named(place, tmp_path, key):
    """Checksums are made to match each time, and in half of the cases the digest too."""
    path, rng = tmp_path / "model.json", random.Random(3)
    wrapper = json.loads((place / "model.json").read_text())
    content = wrapper["content"]
    content["certificate"]["points"] = content["certificate"]["points"][:3]  # fewer leaves of the same kind ...
    content["certificate"]["weights"] = content["certificate"]["weights"][:3]
    content["identity"]["digest"] = digest_of(content)  # ... and a signature over what is left
    content["identity"]["signature"]["value"] = key.sign(RELEASE, content["identity"]["digest"])
    paths = sorted(leaves(content), key=str)
    named: dict[str, int] = {}
    edits = 0
    while edits < N_EDITS:
        changed = with_edit(content, paths, rng)
        if rng.random() < 0.5:
            changed["identity"]["digest"] = digest_of(changed)
        if changed == content:
            continue
        edits += 1
        files.write_json(path, KIND, wrapper["version"], changed)
        try:
            checks = check_release(Release.load(path), key=key.public)
        except FileError as error:
            named[str(error)[:40]] = named.get(str(error)[:40], 0) + 1
            continue
        wrong = [verdict.statement for verdict in checks.verdicts if not verdict.holds]
        assert SIGNED in wrong
        named[SIGNED] = named.get(SIGNED, 0) + 1
    assert sum(named.values()) == N_EDITS
    assert named[SIGNED] > 100
    assert named["The content does not match its digest: it was changed"[:40]] > 100


def test_the_version_in_the_head_of_a_file_cannot_be_changed_either(place, tmp_path):
    wrapper = json.loads((place / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(wrapper | {"version": 3 if wrapper["version"] != 3 else 2}))
    with pytest.raises(FileError, match="says version"):
        Release.load(tmp_path / "model.json")


# --- reconciling ----------------------------------------------------------------------------------------------------


def test_a_model_is_reconciled_with_its_ledger_and_with_no_other(place, tmp_path, key):
    release = Release.load(place / "model.json")
    checks = check_release(release, key=key.public, ledger=place / "ledger.db")
    assert checks.hold
    assert checks.in_words().startswith("Checked: the certificate of convergence, the digest, the signature, its entry")
    other = DurableLedger.create(tmp_path / "other.db", analyst="ada")
    other.add("visits", 5.0)
    cheaper = replace(release, spends=tuple(replace(s, parts=(Epsilon(1),)) for s in release.spends))
    digest = digest_of(cheaper.to_dict())
    assert release.identity is not None
    forged = replace(cheaper, identity=replace(release.identity, digest=digest))
    for wrong, ledger in ((release, other), (forged, place / "ledger.db")):
        found = check_release(wrong, ledger=ledger)
        statements = [v.statement for v in found.verdicts if not v.holds]
        assert {"the ledger charged what the release says it spent", "the ledger keeps its digest"} <= set(statements)
        assert any(claim.startswith("who wrote") for claim in found.claimed)


def test_a_release_names_the_cap_under_which_it_was_made_and_the_ledger_says_the_same(place, tmp_path):
    path = tmp_path / "ledger.db"
    store = DurableLedger.create(path, analyst="ada")
    store.add("visits", Privacy(Epsilon.of(2.0), 1e-6))
    store.add("other", 9.0)
    release = DPKMeans(2, epsilon=0.5, bounds=(0, 1), ledger=store, dataset="visits").fit(X).release_
    store.set_cap("visits", 4.0)
    assert release.identity is not None
    assert release.identity.cap == Privacy(Epsilon.of(2.0), 1e-6)
    assert Release.from_dict(release.to_dict()).identity == release.identity
    assert check_release(release, ledger=path).hold
    digest = digest_of(
        replace(release, identity=replace(release.identity, cap=Privacy(Epsilon.of(4.0), 1e-6))).to_dict()
    )
    forged = replace(release.identity, cap=Privacy(Epsilon.of(4.0), 1e-6), digest=digest)
    wrong = [v.statement for v in check_release(replace(release, identity=forged), ledger=path).verdicts if not v.holds]
    assert wrong == ["the ledger had the cap that the release names", "the ledger keeps its digest"]
    assert "its entry in a ledger, and the cap there" in check_release(release).claimed


def test_a_model_of_an_older_version_names_no_cap_and_is_read_and_verified_as_before(place, tmp_path):
    wrapper = json.loads((place / "model.json").read_text())
    identity = wrapper["content"]["identity"]
    assert identity.pop("cap") == {"epsilon": 5.0}
    identity["digest"], identity["signature"] = digest_of(wrapper["content"]), None
    files.write_json(tmp_path / "old.json", KIND, wrapper["version"], wrapper["content"])
    old = Release.load(tmp_path / "old.json")
    assert old.to_dict() == wrapper["content"]
    checks = check_release(old)
    assert checks.hold
    assert "its entry in a ledger" in checks.claimed
    with_ledger = [v.statement for v in check_release(old, ledger=place / "ledger.db").verdicts if not v.holds]
    assert with_ledger == ["the ledger keeps its digest"]  # that of the newer model
    assert "The cap of the data set visits, and what is left of it:" in old.report()


def test_show_says_which_release_it_is(place, key, capsys):
    release = Release.load(place / "model.json")
    assert main(["show", str(place / "model.json")]) == 0
    rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line)
    shown = {name: value.strip() for name, value in rows.items()}
    identity = release.identity
    assert identity is not None
    assert identity.head is not None
    assert identity.time is not None
    assert shown["data set"] == "visits"
    assert shown["fit"] == identity.fit
    assert shown["cap"] == "epsilon 5 when it was made"
    assert shown["ledger's head"] == identity.head[:16] + "…"
    assert shown["digest"] == identity.digest[:16] + "…"
    assert shown["signed by"].startswith(f"the key {key.public[:16]}…")
    assert shown["unit"] == "row; neighbours: add or remove one record"
    assert shown["made"].startswith(f"on {identity.time[:10]} at ")
    assert f"by dpkmeans {identity.version}, file format {identity.schema}" in shown["made"]
    assert "The cap of the data set visits was epsilon 5 for all releases together." in release.report()


def test_a_ledger_whose_fields_have_other_types_is_damaged_and_no_bug(place, tmp_path):
    path = tmp_path / "ledger.db"
    path.write_bytes((place / "ledger.db").read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("UPDATE entries SET label = x'00ff' WHERE kind = 'key'")
        connection.execute("UPDATE entries SET kind = x'00ff' WHERE number = 5")
        connection.execute(BEFORE_3[2])
    store = DurableLedger(path)
    for look in (lambda: store.dataset("visits"), lambda: store.history(), store.head):
        with pytest.raises(LedgerError):
            look()
    assert not store.verify().intact


def without_triggers(path: Path, *changes: str) -> None:
    """Change a ledger as somebody would who can write the file and has no key, and put its triggers back."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for change in changes:
        connection.execute(change)
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("again", [False, True])
def test_nothing_is_spent_on_top_of_a_history_that_was_changed_before_its_last_entry(tmp_path, again):
    """A spend is moved to another data set; the entries before and after it, and their signatures, are genuine."""
    key, path = SigningKey.create(tmp_path / "curator.key"), tmp_path / "ledger.db"
    ledger = DurableLedger.create(path, key=key)
    for name in ("a", "b"):
        ledger.add(name, cap=1.0)
        ledger.spend(name, Epsilon.of(1.0), fit=name, label="all of it")
    without_triggers(path, "UPDATE entries SET dataset = 'z' WHERE dataset = 'a' AND kind = 'spend'")
    store = DurableLedger(path, key=key) if again else ledger
    with pytest.raises(LedgerError, match="nothing is spent on top of it"):
        store.spend("a", Epsilon.of(1.0), fit="again", label="once more")
    assert len(store.entries()) == 5


def test_a_copied_key_entry_does_not_excuse_entries_before_it_from_their_signatures(tmp_path):
    key, path = SigningKey.create(tmp_path / "curator.key"), tmp_path / "ledger.db"
    ledger = DurableLedger.create(path, key=key)
    ledger.add("a", cap=1.0)
    ledger.add("b", cap=1.0)
    ledger.spend("b", Epsilon.of(0.1), fit="one", label="some")
    first, create = ledger.entries()[:2]
    forged = replace(create, number=1, nano=10**12, cap=10**12, previous="0" * 64).sealed(None)
    moved = replace(first, number=3)
    without_triggers(
        path,
        "DELETE FROM entries WHERE number < 4",
        *(
            f"INSERT INTO entries ({COLUMNS}) VALUES {tuple(getattr(entry, name) for name in FIELDS)!r}"
            for entry in (forged, moved)
        ),
    )
    with pytest.raises(LedgerError, match="nothing is spent on top of it"):
        DurableLedger(path, key=key).spend("a", Epsilon.of(50.0), fit="two", label="far too much")
