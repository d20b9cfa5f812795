"""The book of what clients have asked for and were answered, and what there is to ask for."""
from __future__ import annotations

import dataclasses
import random
import threading

from origin import Plan

SESSIONS = {
    "wide": {"http_maximum_connections_per_host": None, "weight": 1},
    "narrow": {"http_maximum_connections_per_host": 2, "weight": 3},
    "usual": {"weight": 0.5},
}
# The limit of each session for each host: the standard one where nothing is said.
SESSION_LIMITS = {"narrow": 2, "usual": 6}
HOST_LIMIT = ("limited", 5)
HOSTS = ["good", "limited", "shaky"]
# One more host, where every path of the good tenant is healthy and every path of the misbehaving tenant fails.
SHARED_HOST = "shared"
MISBEHAVING_TENANT = "misbehaving"
# Why a job of the good tenant may not wait there: nothing that the good tenant does gives the host a reason.
HELD_CODES = ("host_backoff", "host_rate", "host_limit")


@dataclasses.dataclass
class Record:
    """One thing that a client wanted done."""
    token: str
    spec: dict
    plan: Plan
    # The SHA-256 of what a success may leave or send.
    digests: set[str]
    key: str | None
    ids: list[str] = dataclasses.field(default_factory=list)
    # How often it may have been submitted; without a key each try may have made a job.
    tries: int = 0
    retries: int = 0
    commands: list[str] = dataclasses.field(default_factory=list)
    deleted: set[str] = dataclasses.field(default_factory=set)
    before: bytes | None = None
    # Nothing that the origin does and no chaos may make it fail.
    must_succeed: bool = False
    needs: list[str] = dataclasses.field(default_factory=list)
    # No client suspends, cancels or needs it.
    is_left_alone: bool = False

    @property
    def events(self) -> list[str]:
        """Those that its webhook has asked for."""
        hook = self.spec.get("webhook")
        return hook.get("events", ["job.succeeded", "job.failed", "job.cancelled"]) if hook else []


class Book:
    """What all clients know."""

    def __init__(self):
        self.lock = threading.Lock()
        self.records: dict[str, Record] = {}
        self.by_id: dict[str, Record] = {}
        # Those of them that clients may do something with.
        self.choices: dict[str, None] = {}
        # Sessions that were invalidated, and how.
        self.ended: dict[str, str] = {}
        self.wrong: list[str] = []
        # Jobs that were seen waiting for one of HELD_CODES at the shared host: the code and the sentence.
        self.held: dict[str, tuple[str, str]] = {}

    def complain(self, text: str):
        with self.lock:
            if len(self.wrong) < 200:
                self.wrong.append(text)

    def enter(self, record: Record, identifier: str):
        with self.lock:
            if identifier not in record.ids:
                record.ids.append(identifier)
            self.by_id[identifier] = record
            if not record.is_left_alone:
                self.choices[identifier] = None

    def some(self, choice: random.Random) -> tuple[str, Record] | None:
        with self.lock:
            if not self.choices:
                return None
            # Mostly what is new: the others are over.
            ids = list(self.choices)[-60:] if choice.random() < 0.8 else list(self.choices)
            identifier = choice.choice(ids)
            return identifier, self.by_id[identifier]
