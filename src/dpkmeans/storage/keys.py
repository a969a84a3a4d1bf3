"""Keys that sign releases and ledgers: Ed25519, in PEM files that other tools read too.

Needs cryptography: pip install 'dpkmeans[all]'. A private key is never printed, and never stands in a release.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpkmeans.core.identity import Identity, Signature
from dpkmeans.errors import FileError
from dpkmeans.storage.outputs import sync_folder

MAX_KEY_FILE = 4096  # bytes; a PEM file of an Ed25519 key has about 120
RELEASE, ENTRY = "dpkmeans release", "dpkmeans ledger entry"
"""What a digest is the digest of, signed with it: a signature of the one is never one of the other."""


@dataclass(frozen=True)
class SigningKey:
    """A private key, read from the file `path`. `public` is its public key, 64 hexadecimal digits."""

    path: Path
    public: str
    _key: Any = field(repr=False, compare=False)

    @classmethod
    def read(cls, path: str | Path) -> SigningKey:
        """The private key in a PEM file, which nobody but its owner may read."""
        source = Path(path).absolute()
        ed25519, serialization = _cryptography()
        try:
            key = serialization.load_pem_private_key(_content(source), password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise FileError(f"{source} holds no private key without a password. Make one with: dpkmeans key create")
        _check_private(source)
        return cls(source, _hexadecimal(key.public_key()), key)

    @classmethod
    def create(cls, path: str | Path) -> SigningKey:
        """Make a key: the private one at `path`, for its owner alone, and the public one beside it, ending in `.pub`.

        Files that exist are never replaced.
        """
        target = Path(path).absolute()
        public = public_path(target)
        ed25519, serialization = _cryptography()
        key = ed25519.Ed25519PrivateKey.generate()
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        _write_new(public, key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo), 0o644)
        try:
            _write_new(target, private, 0o600)
        except FileError:
            public.unlink(missing_ok=True)
            raise
        return cls(target, _hexadecimal(key.public_key()), key)

    def sign(self, what: str, digest: str) -> str:
        """A signature of the digest of a release or an entry, 128 hexadecimal digits."""
        value: bytes = self._key.sign(_message(what, digest))
        return value.hex()

    def signed(self, identity: Identity) -> Identity:
        """The identity of a release with a signature of its digest."""
        return replace(identity, signature=Signature(self.public, self.sign(RELEASE, identity.digest)))


def public_path(private: Path) -> Path:
    """Where the public key lies that belongs to the private key in a file."""
    return private.with_suffix(".pub") if private.suffix == ".key" else private.with_name(private.name + ".pub")


def read_public_key(path: str | Path) -> str:
    """The public key in a PEM file, 64 hexadecimal digits."""
    source = Path(path)
    ed25519, serialization = _cryptography()
    try:
        key = serialization.load_pem_public_key(_content(source))
    except ValueError:
        key = None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise FileError(f"{source} holds no public key. Give the file ending in .pub from: dpkmeans key create")
    return _hexadecimal(key)


def is_signed_by(key: str, what: str, digest: str, value: str) -> bool:
    """Whether `value` is the signature of a digest by the public `key`, all in hexadecimal."""
    ed25519, _ = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        public = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(value), _message(what, digest))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _message(what: str, digest: str) -> bytes:
    return f"{what}\n{digest}\n".encode("ascii")


def _hexadecimal(public: Any) -> str:
    raw: bytes = public.public_bytes_raw()
    return raw.hex()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_KEY_FILE)
    except OSError as error:
        raise FileError(f"cannot read the key {path}: {error.strerror}. Check the path.") from None


def _check_private(path: Path) -> None:
    """Refuse a private key that others may read, as ssh does."""
    found = path.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        raise FileError(
            f"the private key {path} can be read by others (mode {found.st_mode & 0o777:04o}): anyone who reads it "
            f"can sign in your name. Write: chmod 600 {path}; make a new key if others had it."
        )


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is not there yet, with its permissions from the first moment on."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except FileExistsError:
        raise FileError(f"{path} exists, and keys are never replaced. Choose another name.") from None
    except OSError as error:
        raise FileError(f"cannot write the key {path}: {error.strerror}.") from None


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise FileError("Signatures need cryptography. Install it with: pip install 'dpkmeans[all]'") from None
    return ed25519, serialization
