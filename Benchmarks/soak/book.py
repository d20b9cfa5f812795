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
        # Sessions that were invalidated, and how.
        self.ended: dict[str, str] = {}
        self.wrong: list[str] = []

    def complain(self, text: str):
        with self.lock:
            if len(self.wrong) < 200:
                self.wrong.append(text)

    def enter(self, record: Record, identifier: str):
        with self.lock:
            if identifier not in record.ids:
                record.ids.append(identifier)
            self.by_id[identifier] = record

    def some(self, choice: random.Random) -> tuple[str, Record] | None:
        with self.lock:
            if not self.by_id:
                return None
            # Mostly what is new: the others are over.
            ids = list(self.by_id)[-60:] if choice.random() < 0.8 else list(self.by_id)
            identifier = choice.choice(ids)
            return identifier, self.by_id[identifier]
