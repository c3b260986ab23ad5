"""Who asks: passwords and tokens, compared in constant time, at no more than a few wrong ones per address."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

import bcrypt

from diagnostics.service.http.credentials import Credentials
from diagnostics.service.peers import counted_as

# Wrong ones in a row from one address, and the seconds after which one more is let through.
MOST_ATTEMPTS = 10
SECONDS_PER_ATTEMPT = 6.0
TOO_MANY = "too many wrong credentials from this address"
_MOST_ADDRESSES = 10_000
_MOST_VERDICTS = 256
# Each bcrypt costs up to half a second of a processor: two at once, the rest waits or is sent away.
_AT_ONCE = 2
_MOST_WAITING = 32


class AuthOutcome(Enum):
    """What became of a request's credentials."""

    NOT_REQUIRED = "not asked"
    ADMITTED = "admitted"
    MISSING = "missing"
    WRONG = "wrong"
    TOO_MANY = "too many"


class Attempts:
    """Counts attempts per name or address; those of an IPv6 /64 are one. For one thread at a time.

    By default they are those of wrong credentials.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        most: int = MOST_ATTEMPTS,
        seconds: float = SECONDS_PER_ATTEMPT,
    ) -> None:
        """Allow `most` at once, and then one in so many seconds."""
        self._clock, self._most, self._seconds = clock, float(most), seconds
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, address: str) -> bool:
        """Use up one attempt; False when there is none left."""
        name, now = counted_as(address), self._clock()
        left, since = self._left.pop(name, (self._most, now))
        left = min(self._most, left + (now - since) / self._seconds)
        granted = left >= 1
        self._left[name] = (left - 1 if granted else left, now)
        while len(self._left) > _MOST_ADDRESSES:
            self._left.popitem(last=False)
        return granted

    def give_back(self, address: str) -> None:
        """Return an attempt that was right."""
        name = counted_as(address)
        if name in self._left:
            left, since = self._left[name]
            self._left[name] = (left + 1, since)


class Verdicts:
    """The newest verdicts on passwords, as digests that only this process can make."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        # Apart, as anyone can make wrong ones: they must not have the right ones forgotten.
        self._known: dict[bool, OrderedDict[bytes, None]] = {True: OrderedDict(), False: OrderedDict()}

    def digest(self, user: str, hashed: bytes, password: bytes) -> bytes:
        """Return what stands for these three."""
        parts = (user.encode(), hashed, password)
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._key, message, hashlib.sha256)

    def get(self, digest: bytes) -> bool | None:
        """Return the verdict; None where there is none any more."""
        return next((verdict for verdict, digests in self._known.items() if digest in digests), None)

    def put(self, digest: bytes, matches: bool) -> None:
        """Remember a verdict; the oldest alike is forgotten."""
        digests = self._known[matches]
        digests[digest] = None
        while len(digests) > _MOST_VERDICTS:
            digests.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """A password that has to be compared, which takes long: as long whoever's it is, at the dearest user's cost."""

    user: str
    hashed: bytes
    password: bytes
    digest: bytes
    address: str
    dearest: int

    def matches(self) -> bool:
        """Return whether it is the right one."""
        if _matches(self.password, self.hashed):
            return True
        # Each step of a cost doubles the work: 2^a + 2^a + 2^(a+1) + … + 2^(b-1) = 2^b.
        for cost in range(_cost(self.hashed), self.dearest):
            _matches(self.password, b"$2b$%02d$%s" % (cost, self.hashed[7:]))
        return False


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:  # longer than the 72 bytes that bcrypt reads
        return False


def _cost(hashed: bytes) -> int:
    """Return the binary logarithm of a bcrypt hash's rounds, as in `$2b$12$…`."""
    return int(hashed[4:6])


class Authentication:
    """Asked by all listeners, in whichever event loop: wrong credentials count together, wherever they came.

    Attributes:
        credentials: what is right.

    """

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.attempts, self._verdicts = Attempts(), Verdicts()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="bcrypt")
        self._waiting = 0
        self._lock = threading.Lock()

    @property
    def challenge(self) -> str:
        """What `WWW-Authenticate` offers, each scheme with a parameter as RFC 6750, section 3, wants it of Bearer.

        Chromium reads the field as one list of parameters: after a scheme without any it asks nobody for a password.
        """
        schemes = (("Basic", self.credentials.config.users), ("Bearer", self.credentials.token))
        offered = [scheme for scheme, there in schemes if there] or ["Basic"]
        return ", ".join(f'{scheme} realm="diag"' for scheme in offered)

    async def answer(self, header: str | None, address: str) -> AuthOutcome:
        """Return what becomes of a request with this `Authorization` header from this address."""
        begun = self._begun(header, address)
        if isinstance(begun, AuthOutcome):
            return begun
        try:
            return self._judged(begun, await asyncio.get_running_loop().run_in_executor(self._pool, begun.matches))
        finally:
            self._over()

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begun(self, header: str | None, address: str) -> AuthOutcome | _Comparison:
        """Return the answer, or what has to be compared for one."""
        users, token = self.credentials.config.users, self.credentials.token
        if not users and not token:
            return AuthOutcome.ADMITTED if self.credentials.config.certificates_required else AuthOutcome.NOT_REQUIRED
        if header is None:
            return AuthOutcome.MISSING
        scheme, _, value = header.partition(" ")
        with self._lock:
            if scheme.lower() == "basic" and users:
                return self._basic(value.strip(), users, address)
            if scheme.lower() == "bearer" and token:
                return self._bearer(value.strip().encode("utf-8", "surrogateescape"), token, address)
        return AuthOutcome.MISSING

    def _bearer(self, given: bytes, token: bytes, address: str) -> AuthOutcome:
        # Comparing costs nothing, so that a right token is let in however many wrong ones came from its address.
        if hmac.compare_digest(given, token):
            return AuthOutcome.ADMITTED
        return AuthOutcome.WRONG if self.attempts.allow(address) else AuthOutcome.TOO_MANY

    def _basic(self, value: str, users: Mapping[str, bytes], address: str) -> AuthOutcome | _Comparison:
        user, password = _pair(value)
        # An unknown name's password is compared too, so that the time does not reveal which names there are.
        dearest = max(users.values(), key=_cost)
        hashed = users.get(user, dearest)
        digest = self._verdicts.digest(user, hashed, password)
        matches = self._verdicts.get(digest)
        if matches and user in users:
            return AuthOutcome.ADMITTED
        if self._waiting >= _MOST_WAITING or not self.attempts.allow(address):
            return AuthOutcome.TOO_MANY
        if matches is not None:
            return AuthOutcome.WRONG
        self._waiting += 1
        return _Comparison(
            user=user, hashed=hashed, password=password, digest=digest, address=address, dearest=_cost(dearest)
        )

    def _judged(self, compared: _Comparison, matches: bool) -> AuthOutcome:
        with self._lock:
            self._verdicts.put(compared.digest, matches)
            if not matches or compared.user not in self.credentials.config.users:
                return AuthOutcome.WRONG
            self.attempts.give_back(compared.address)
            return AuthOutcome.ADMITTED

    def _over(self) -> None:
        with self._lock:
            self._waiting -= 1


BEARER = "bearer-token"
"""What a client is called that sends the token: no user need have it for a name."""


def user_of(header: str | None) -> str:
    """Return who an `Authorization` header that was admitted names; empty where it was not needed."""
    scheme, _, value = (header or "").partition(" ")
    return BEARER if scheme.lower() == "bearer" else _pair(value.strip())[0]


def _pair(value: str) -> tuple[str, bytes]:
    """Return the user and password; those of nobody where it is no such pair."""
    try:
        user, _, password = base64.b64decode(value, validate=True).partition(b":")
        return user.decode(), password
    except (binascii.Error, ValueError):
        return "", b""
