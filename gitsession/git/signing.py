"""Signatures with the user's own keys, made and checked by ssh-keygen or gpg according to git's settings.

The program, the key and the trusted signers come from the user's own git configuration (``gpg.format``,
``user.signingKey``, ``gpg.ssh.allowedSignersFile`` ...), never from the configuration of a store. So a received store
cannot make gitsession run a program. The namespace of ssh signatures is gitsession's own, so a signature of a commit, a
file or a login is not valid as a signature of a session, and vice versa.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, TypeAlias

from gitsession.dataclass import dataclass
from gitsession.errors import Unavailable
from gitsession.git import process

NAMESPACE: Final = "gitsession"

SSH, OPENPGP = "ssh", "openpgp"
FORMATS = (SSH, OPENPGP)

State: TypeAlias = Literal["good", "untrusted", "unknown", "expired", "revoked", "bad", "unchecked"]
"""The result of a check.

``untrusted``: the key is known, but its owner is not confirmed. ``unknown``: the key is not known.
``unchecked``: no trusted signers are configured, or the program is missing.
"""

_SIGN_SECONDS = 300.0
"""Timeout in seconds: enough for the user to enter a passphrase or to find a token."""
_CHECK_SECONDS = 60.0

_GPG_STATES: dict[str, State] = {
    "BADSIG": "bad",
    "REVKEYSIG": "revoked",
    "EXPSIG": "expired",
    "EXPKEYSIG": "expired",
    "ERRSIG": "unknown",
}
_TRUSTED = ("TRUST_FULLY", "TRUST_ULTIMATE")


class Signature(NamedTuple):
    format: str
    armoured: bytes


class SignatureStatus(NamedTuple):
    """The result of a check. ``by``: the signer's name in the allowed signers file, the key ring or the signature."""

    state: State
    by: str = ""


@dataclass(frozen=True, slots=True)
class Signing:
    """The user's git settings for signatures. ``key``: a file name, a literal ssh key, or a key id for gpg."""

    format: str = OPENPGP
    key: str = ""
    ssh_program: str = "ssh-keygen"
    gpg_program: str = "gpg"
    allowed_signers: str = ""
    revoked_keys: str = ""

    @classmethod
    def of_user(cls) -> Signing:
        settings = process.user_settings("gpg.")
        return cls(
            format=settings.get("gpg.format", OPENPGP),
            key=process.user_setting("user.signingKey") or "",
            ssh_program=os.path.expanduser(settings.get("gpg.ssh.program", "ssh-keygen")),
            gpg_program=os.path.expanduser(settings.get("gpg.openpgp.program", settings.get("gpg.program", "gpg"))),
            allowed_signers=os.path.expanduser(settings.get("gpg.ssh.allowedsignersfile", "")),
            revoked_keys=os.path.expanduser(settings.get("gpg.ssh.revocationfile", "")),
        )

    def sign(self, text: bytes, key: str = "") -> Signature:
        """Sign ``text`` with ``key`` or the configured key; return the signature. Raises ``Unavailable``."""
        key = key or self.key
        if self.format == SSH:
            return Signature(SSH, self._sign_by_ssh(text, key))
        if self.format != OPENPGP:
            raise Unavailable(
                f"cannot sign: gpg.format is {self.format[:40]!r}, expected 'ssh' or 'openpgp'",
                hint="run `git config --global gpg.format ssh`",
            )
        command = [self.gpg_program, "--status-fd=2", "-bsa", *(("-u", key) if key else ())]
        code, out, err = _run(command, text, _SIGN_SECONDS)
        if code or b"-----BEGIN PGP SIGNATURE-----" not in out:
            raise _refused("gpg", err)
        return Signature(OPENPGP, out)

    def _sign_by_ssh(self, text: bytes, key: str) -> bytes:
        if not key:
            raise Unavailable(
                "cannot sign: no key is configured",
                hint="pass --key KEY, or run `git config --global user.signingKey ~/.ssh/id_ed25519.pub`",
            )
        literal = key.removeprefix("key::") if key.startswith(("key::", "ssh-", "ecdsa-", "sk-")) else ""
        with _as_file(literal.encode() + b"\n") as literal_file:
            key_file = literal_file if literal else os.path.abspath(os.path.expanduser(key))
            command = [self.ssh_program, "-Y", "sign", "-n", NAMESPACE, "-f", key_file, *(["-U"] if literal else [])]
            code, out, err = _run(command, text, _SIGN_SECONDS)
        if code or b"-----BEGIN SSH SIGNATURE-----" not in out:
            raise _refused("ssh-keygen", err)
        return out

    def check(self, text: bytes, signature: Signature, at_seconds: int) -> SignatureStatus:
        """Check a signature of ``text``.

        ``at_seconds``: the Unix time that the signature states, for keys that expire.
        """
        with _as_file(signature.armoured) as signature_file:
            try:
                if signature.format == SSH:
                    return self._check_by_ssh(text, signature_file, at_seconds)
                if signature.format == OPENPGP:
                    return self._check_by_gpg(text, signature_file)
            except Unavailable:
                pass
        return SignatureStatus("unchecked")

    def _check_by_ssh(self, text: bytes, signature_file: str, at_seconds: int) -> SignatureStatus:
        base = [self.ssh_program, "-Y"]
        code, out, _ = _run([*base, "check-novalidate", "-n", NAMESPACE, "-s", signature_file], text, _CHECK_SECONDS)
        if code:
            return SignatureStatus("bad")
        key = _fingerprint(out)
        if not os.path.isfile(self.allowed_signers):
            return SignatureStatus("unchecked", key)
        when = f"-Overify-time={_utc(at_seconds)}"
        lists = ["-f", self.allowed_signers]
        code, out, _ = _run([*base, "find-principals", *lists, "-s", signature_file, when], b"", _CHECK_SECONDS)
        names = out.decode("utf-8", "replace").splitlines()
        if code or not names:
            return SignatureStatus("unknown", key)
        revoked = ["-r", self.revoked_keys] if self.revoked_keys else []
        command = [*base, "verify", *lists, "-I", names[0], "-n", NAMESPACE, "-s", signature_file, when]
        code, *_ = _run([*command, *revoked], text, _CHECK_SECONDS)
        if not code:
            return SignatureStatus("good", names[0])
        if revoked and not _run(command, text, _CHECK_SECONDS)[0]:
            return SignatureStatus("revoked", names[0])
        return SignatureStatus("unknown", key)  # a known key, but not for this namespace, or not valid at that time

    def _check_by_gpg(self, text: bytes, signature_file: str) -> SignatureStatus:
        command = [self.gpg_program, "--status-fd=1", "--batch", "--no-tty", "--verify", signature_file, "-"]
        _, out, _ = _run(command, text, _CHECK_SECONDS)
        statuses: dict[str, str] = {}
        for line in out.decode("utf-8", "replace").splitlines():
            keyword, _, rest = line.removeprefix("[GNUPG:] ").partition(" ")
            statuses.setdefault(keyword, rest)
        for keyword, state in _GPG_STATES.items():
            if keyword in statuses:
                key, _, name = statuses[keyword].partition(" ")
                return SignatureStatus(state, key if keyword == "ERRSIG" else name)
        if "GOODSIG" not in statuses or "VALIDSIG" not in statuses:
            return SignatureStatus("bad")
        is_trusted = any(keyword in statuses for keyword in _TRUSTED)
        return SignatureStatus("good" if is_trusted else "untrusted", statuses["GOODSIG"].partition(" ")[2])


def _run(command: Sequence[str], stdin: bytes, seconds: float) -> tuple[int, bytes, bytes]:
    """Return exit code, output and error output of a program.

    Raises ``Unavailable`` if the program is missing or does not end in time.
    """
    import subprocess

    try:
        result = subprocess.run(
            command, input=stdin, capture_output=True, timeout=seconds, check=False, cwd="/",
            env=process.environment(user_config=True),
        )  # fmt: skip
    except OSError as error:
        raise Unavailable(f"cannot run '{command[0]}': {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"the program '{command[0]}' did not finish within {seconds:g} s") from None
    return result.returncode, result.stdout, result.stderr


def _refused(program: str, err: bytes) -> Unavailable:
    lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines() if not line.startswith("[GNUPG:]")]
    reason = next((line for line in reversed(lines) if line), "no reason given")
    hint = "run `git config --global gpg.format ssh` to sign with an ssh key" if program == "gpg" else ""
    return Unavailable(f"cannot sign: {program} failed: {reason[-300:]}", hint=hint)


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="gitsession-") as file:
        file.write(data)
        file.flush()
        yield file.name


def _fingerprint(out: bytes) -> str:
    found = re.search(rb"SHA256:[A-Za-z0-9+/]+", out)
    return found[0].decode() if found else ""


def _utc(seconds: int) -> str:
    import time

    try:
        return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(max(seconds, 0)))
    except (OverflowError, ValueError, OSError):
        return "19700101000000Z"
