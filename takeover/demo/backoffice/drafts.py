"""The editorial office's books: assignments, the drafts written for them, and what became of each write's key.

A draft is reviewed as it is read: by rules that know nothing of who wrote it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from takeover.demo.backoffice.answers import now
from takeover.demo.backoffice.research import LIBRARY
from takeover.demo.backoffice.store import ACCEPT, Behind, Decision, KeyReused, Refused, Ruling, State, Store, Unknown

SCHEMA = """
CREATE TABLE IF NOT EXISTS assignments (
    report_id TEXT PRIMARY KEY,
    question TEXT NOT NULL,
    topic TEXT NOT NULL,
    kind TEXT NOT NULL,
    sources INTEGER NOT NULL,
    publishers TEXT NOT NULL,
    sections TEXT NOT NULL,
    editor TEXT NOT NULL,
    open INTEGER NOT NULL,
    version INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS drafts (
    draft_id TEXT PRIMARY KEY,
    report_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('standing', 'released', 'withdrawn')),
    sections TEXT NOT NULL,
    version INTEGER NOT NULL
);
-- Whatever the code believes: one report never has two drafts.
CREATE UNIQUE INDEX IF NOT EXISTS one_draft_per_report ON drafts (report_id) WHERE state <> 'withdrawn';
CREATE TABLE IF NOT EXISTS draft_writes (
    operation_key TEXT PRIMARY KEY,
    report_id TEXT NOT NULL,
    draft_id TEXT,
    revises TEXT NOT NULL,
    base_version INTEGER NOT NULL,
    sections TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'accepted', 'rejected', 'cancelled')),
    tracking_id TEXT UNIQUE,
    queued INTEGER NOT NULL,
    reason TEXT,
    lookups_left INTEGER,
    made_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS withdrawals (
    operation_key TEXT PRIMARY KEY,
    draft_id TEXT NOT NULL UNIQUE,
    made_at TEXT NOT NULL
)
"""
TABLES = ("assignments", "drafts", "draft_writes", "withdrawals")

STANDING = "standing"
SECTIONS = ("summary", "findings", "gaps")
FIRST_DRAFT, FIRST_TRACKING = 501, 2001
PLACEHOLDERS = ("TODO", "TBD", "lorem ipsum")


@dataclass(frozen=True)
class Assignment:
    """What a report has to answer, from which sources, and in which sections."""

    report_id: str
    question: str
    topic: str  # as the library's sources name it
    kind: str  # of evidence
    publishers: tuple[str, ...]  # whose sources count
    sources: int = 2  # how many it takes, from as many publishers
    sections: tuple[str, ...] = SECTIONS
    editor: str = "U-88"
    open: bool = True
    version: int = 1


CARGO_BIKES, REFILL_SHOPS = "electric cargo bikes in Havenport", "refill shops in Linwick"
POWER_BANKS = "临江市共享充电宝"
HAVENPORT = ("Havenport Statistics Office", "Cycle Trade Review", "Harbour Chamber of Commerce")
LINWICK = ("Linwick University Retail Lab", "Linwick Consumer Council")
LINJIANG = ("临江市统计局", "临江日报")

ASSIGNMENTS = (
    Assignment("RP-7", "Who sells cargo bikes in Havenport?", CARGO_BIKES, "competitors", HAVENPORT),
    Assignment("RP-8", "Who runs refill shops in Linwick?", REFILL_SHOPS, "competitors", LINWICK, editor="U-90"),
    # Of the demo's stories.
    Assignment("RP-11", "Who services cargo bikes in Havenport?", CARGO_BIKES, "competitors", HAVENPORT),
    Assignment("RP-12", "Is there room for a fifth refill shop in Linwick?", REFILL_SHOPS, "competitors", LINWICK),
    Assignment("RP-13", "How many cargo bikes does Havenport buy a year?", CARGO_BIKES, "sales", HAVENPORT),
    Assignment("RP-14", "共享充电宝在临江市一天被租借多少次？", POWER_BANKS, "sales", LINJIANG),
    Assignment("RP-15", "Which makers do Havenport's cargo bikes come from?", CARGO_BIKES, "competitors", HAVENPORT),
)


@dataclass(frozen=True)
class Section:
    name: str
    text: str
    cites: tuple[str, ...]


def digest_of(sections: Iterable[Section]) -> str:
    """SHA-256 of the sections as canonical JSON: keys in order, no spaces, UTF-8."""
    content = [asdict(section) for section in sections]
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    ).hexdigest()


@dataclass(frozen=True)
class Draft:
    draft_id: str
    report_id: str
    state: str
    sections: tuple[Section, ...]
    version: int


@dataclass(frozen=True)
class Wanted:
    """One write as it is asked for: a whole draft, or one section of one that is there."""

    operation_key: str
    report_id: str
    sections: tuple[Section, ...]
    draft_id: str | None = None
    base_version: int = 0  # of the draft that a section was revised from

    @property
    def revises(self) -> str:
        return self.sections[0].name if self.draft_id else ""


@dataclass(frozen=True)
class Written:
    """What became of one key."""

    operation_key: str
    report_id: str
    draft_id: str | None
    revises: str
    base_version: int
    sections: tuple[Section, ...]
    digest: str
    state: State
    tracking_id: str | None
    queued: bool
    reason: str | None
    lookups_left: int | None
    made_at: str

    def matches(self, wanted: Wanted) -> bool:
        mine = (self.report_id, self.revises, self.base_version, self.sections)
        return mine == (wanted.report_id, wanted.revises, wanted.base_version, wanted.sections)


class ChangedMeanwhile(Exception):
    """The draft is not in the version any more that was read."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


# The review


@dataclass(frozen=True)
class Finding:
    """One thing that stands in a draft's way."""

    section: str
    rule: str
    message: str


def _is_empty(section: Section) -> bool:
    return not section.text.strip()


def _cites_nothing(section: Section) -> bool:
    return not section.cites


def _is_unfinished(section: Section) -> bool:
    return any(word.lower() in section.text.lower() for word in PLACEHOLDERS)


def _cites_what_nobody_knows(section: Section) -> bool:
    return any(source not in LIBRARY.sources for source in section.cites)


RULES: tuple[tuple[str, str, Callable[[Section], bool]], ...] = (
    ("empty", "The section is empty.", _is_empty),
    ("uncited", "The section cites no source.", _cites_nothing),
    ("unknown_source", "The section cites a source that the library does not have.", _cites_what_nobody_knows),
    ("unfinished", "The section still holds a placeholder.", _is_unfinished),
)


def review(draft: Draft, assignment: Assignment) -> list[Finding]:
    found = [
        Finding(section.name, rule, message)
        for section in draft.sections
        for rule, message, is_broken in RULES
        if is_broken(section)
    ]
    there = {section.name for section in draft.sections}
    missing = [name for name in assignment.sections if name not in there]
    return found + [Finding(name, "missing", "The assignment asks for this section.") for name in missing]


# The books


class Drafts:
    """One report has one draft that stands; each write of it, and each look, is one transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.keep(self)

    # Its part of the store

    def open(self, db: sqlite3.Connection) -> None:
        for statement in SCHEMA.split(";\n"):
            db.execute(statement)
        if db.execute("SELECT count(*) FROM assignments").fetchone()[0] == 0:
            self._seed(db)

    def begin_anew(self, db: sqlite3.Connection) -> None:
        for table in TABLES:
            db.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        self._seed(db)

    def behind(self, db: sqlite3.Connection, operation_key: str) -> Behind | None:
        written = _by_key(db, operation_key) or _withdrawn_by(db, operation_key)
        return Behind(written.report_id, written.made_at) if written else None

    def effects(self, report_id: str | None) -> list[dict[str, object]]:
        """What really happened: a rejected write is nothing."""
        with self.store.transaction() as db:
            rows = db.execute(
                "SELECT * FROM draft_writes WHERE state <> 'rejected' AND (?1 IS NULL OR report_id = ?1)"
                " ORDER BY rowid",
                (report_id,),
            ).fetchall()
        return [
            {
                "operation_key": row["operation_key"],
                "order_id": row["report_id"],
                "request_id": row["draft_id"],
                "revises": row["revises"],
                "state": row["state"],
                "at": row["made_at"],
            }
            for row in rows
        ]

    def _seed(self, db: sqlite3.Connection) -> None:
        for assignment in ASSIGNMENTS:
            _save(db, assignment)

    # Assignments

    def assignment(self, report_id: str) -> Assignment:
        with self.store.transaction() as db:
            return _assignment(db, report_id)

    def change_assignment(self, report_id: str, fields: Mapping[str, object]) -> Assignment:
        """Changes an assignment, or creates one like the first; each change is a new version."""
        with self.store.transaction() as db:
            try:
                before = _assignment(db, report_id)
            except Unknown:
                before = replace(ASSIGNMENTS[0], report_id=report_id, version=0)
            after = Assignment(**{**vars(before), **fields, "version": before.version + 1})
            _save(db, after)
            return after

    # Drafts

    def write(self, wanted: Wanted, ruling: Ruling = ACCEPT) -> Written:
        """One write per key: the same again finds what became of the first."""
        with self.store.transaction() as db:
            if _withdrawal(db, wanted.operation_key):
                raise KeyReused
            if known := _by_key(db, wanted.operation_key):
                if not known.matches(wanted):
                    raise KeyReused
                return known
            reason = _objection(db, _assignment(db, wanted.report_id), wanted) or ruling.refuse
            state = State.REJECTED if reason else State.PENDING if ruling.pending else State.ACCEPTED
            written = Written(
                wanted.operation_key,
                wanted.report_id,
                wanted.draft_id,
                wanted.revises,
                wanted.base_version,
                wanted.sections,
                digest_of(wanted.sections),
                state,
                _next_tracking_id(db) if state is State.PENDING else None,
                ruling.queued and state is State.PENDING,
                reason,
                ruling.lookups if state is State.PENDING else None,
                now(),
            )
            if state is State.ACCEPTED:
                written = replace(written, draft_id=_carry_out(db, written))
            db.execute(
                "INSERT INTO draft_writes VALUES (:operation_key, :report_id, :draft_id, :revises, :base_version,"
                " :sections, :digest, :state, :tracking_id, :queued, :reason, :lookups_left, :made_at)",
                {**vars(written), "sections": _as_json(written.sections)},
            )
            return written

    def look_up(self, operation_key: str) -> Written | None:
        """What became of a key. A pending write counts the look-ups and is accepted when it has seen enough."""
        with self.store.transaction() as db:
            written = _by_key(db, operation_key) or _withdrawn_by(db, operation_key)
            if written is None or written.state is not State.PENDING or written.lookups_left is None:
                return written
            if written.lookups_left == 0:
                return _accept(db, written)
            return _change(db, written, lookups_left=written.lookups_left - 1)

    def withdraw(self, draft_id: str, operation_key: str) -> Written:
        """Takes back the draft that stands, with all its revisions."""
        with self.store.transaction() as db:
            if _by_key(db, operation_key):
                raise KeyReused
            known = _withdrawal(db, operation_key)
            if known and known["draft_id"] != draft_id:
                raise KeyReused
            draft = _draft(db, draft_id)
            if not known:
                if draft.state != STANDING:
                    raise Refused(f"already_{draft.state}")
                db.execute("INSERT INTO withdrawals VALUES (?, ?, ?)", (operation_key, draft_id, now()))
                db.execute("UPDATE drafts SET state = 'withdrawn' WHERE draft_id = ?", (draft_id,))
                db.execute(
                    "UPDATE draft_writes SET state = 'cancelled' WHERE draft_id = ? AND state = 'accepted'", (draft_id,)
                )
            return _as_withdrawn(db, draft_id, operation_key)

    def settle(self, operation_key: str, state: State, reason: str) -> Written:
        """The office makes up its mind about a pending write, and says so to whoever is to be told."""
        with self.store.transaction() as db:
            written = _by_key(db, operation_key)
            if written is None:
                raise Unknown
            if written.state is not State.PENDING:
                raise Refused(f"already_{written.state}")
            if state is State.ACCEPTED:
                written = _accept(db, written)
            else:
                written = _change(db, written, state=state, reason=reason, lookups_left=None)
        self.store.decided(Decision(operation_key, written.report_id, written.draft_id or written.reason))
        return written

    def release(self, draft_id: str) -> Draft:
        """Somebody lets it out of the house; from then on it cannot be withdrawn."""
        with self.store.transaction() as db:
            draft = _draft(db, draft_id)
            if draft.state != STANDING:
                raise Refused(f"already_{draft.state}")
            db.execute("UPDATE drafts SET state = 'released' WHERE draft_id = ?", (draft_id,))
            return _draft(db, draft_id)

    def draft(self, draft_id: str) -> tuple[Draft, Mapping[str, int]]:
        """The draft, and how often each of its sections was revised."""
        with self.store.transaction() as db:
            revised = db.execute(
                "SELECT revises, count(*) FROM draft_writes WHERE draft_id = ? AND revises <> ''"
                " AND state = 'accepted' GROUP BY revises",
                (draft_id,),
            ).fetchall()
            return _draft(db, draft_id), {row["revises"]: row[1] for row in revised}

    def report_of(self, draft_id: str) -> str | None:
        with self.store.transaction() as db:
            try:
                return _draft(db, draft_id).report_id
            except Unknown:
                return None


# What stands in the way


def _objection(db: sqlite3.Connection, assignment: Assignment, wanted: Wanted) -> str | None:
    if not assignment.open:
        return "assignment_closed"
    if wanted.draft_id:
        draft = _draft(db, wanted.draft_id)
        if draft.report_id != wanted.report_id:
            raise Unknown
        if draft.state != STANDING:
            return f"already_{draft.state}"
        if draft.version != wanted.base_version:
            raise ChangedMeanwhile(draft.version)
        return None
    standing = db.execute(
        "SELECT state FROM draft_writes WHERE report_id = ? AND revises = '' AND state IN ('pending', 'accepted')",
        (wanted.report_id,),
    ).fetchone()
    if standing is None:
        return None
    return "draft_in_progress" if standing["state"] == State.PENDING else "already_drafted"


# Rows


def _assignment(db: sqlite3.Connection, report_id: str) -> Assignment:
    row = db.execute("SELECT * FROM assignments WHERE report_id = ?", (report_id,)).fetchone()
    if row is None:
        raise Unknown
    lists = {name: tuple(json.loads(row[name])) for name in ("publishers", "sections")}
    return Assignment(**{**dict(row), **lists, "open": bool(row["open"])})


def _save(db: sqlite3.Connection, assignment: Assignment) -> None:
    db.execute(
        "INSERT OR REPLACE INTO assignments VALUES"
        " (:report_id, :question, :topic, :kind, :sources, :publishers, :sections, :editor, :open, :version)",
        {
            **vars(assignment),
            "publishers": json.dumps(assignment.publishers),
            "sections": json.dumps(assignment.sections),
        },
    )


def _draft(db: sqlite3.Connection, draft_id: str) -> Draft:
    row = db.execute("SELECT * FROM drafts WHERE draft_id = ?", (draft_id,)).fetchone()
    if row is None:
        raise Unknown
    return Draft(**{**dict(row), "sections": _sections(row["sections"])})


def _by_key(db: sqlite3.Connection, operation_key: str) -> Written | None:
    row = db.execute("SELECT * FROM draft_writes WHERE operation_key = ?", (operation_key,)).fetchone()
    if row is None:
        return None
    read = {"sections": _sections(row["sections"]), "state": State(row["state"]), "queued": bool(row["queued"])}
    return Written(**{**dict(row), **read})


def _carry_out(db: sqlite3.Connection, written: Written) -> str:
    """The number of the draft that was made or changed."""
    if not written.draft_id:
        (drafts,) = db.execute("SELECT count(*) FROM drafts").fetchone()
        draft_id = f"DR-{FIRST_DRAFT + drafts}"
        db.execute(
            "INSERT INTO drafts VALUES (?, ?, ?, ?, 1)",
            (draft_id, written.report_id, STANDING, _as_json(written.sections)),
        )
        return draft_id
    (new,) = written.sections
    sections = [new if section.name == new.name else section for section in _draft(db, written.draft_id).sections]
    if new not in sections:
        sections.append(new)  # one that the assignment asks for, and that was left out
    db.execute(
        "UPDATE drafts SET sections = ?, version = version + 1 WHERE draft_id = ?",
        (_as_json(sections), written.draft_id),
    )
    return written.draft_id


def _accept(db: sqlite3.Connection, written: Written) -> Written:
    return _change(db, written, state=State.ACCEPTED, draft_id=_carry_out(db, written), lookups_left=None)


def _change(db: sqlite3.Connection, written: Written, **changes: Any) -> Written:
    after = replace(written, **changes)
    db.execute(
        "UPDATE draft_writes SET state = :state, draft_id = :draft_id, reason = :reason, lookups_left = :lookups_left"
        " WHERE operation_key = :operation_key",
        {**vars(after), "sections": None},
    )
    return after


def _next_tracking_id(db: sqlite3.Connection) -> str:
    (tracked,) = db.execute("SELECT count(tracking_id) FROM draft_writes").fetchone()
    return f"T-{FIRST_TRACKING + tracked}"


def _withdrawal(db: sqlite3.Connection, operation_key: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM withdrawals WHERE operation_key = ?", (operation_key,)
    ).fetchone()
    return row


def _withdrawn_by(db: sqlite3.Connection, operation_key: str) -> Written | None:
    """What a withdrawal of this key took back."""
    known = _withdrawal(db, operation_key)
    return _as_withdrawn(db, known["draft_id"], operation_key) if known else None


def _as_withdrawn(db: sqlite3.Connection, draft_id: str, operation_key: str) -> Written:
    """The write that made the draft, under the key of what took it back."""
    (key,) = db.execute(
        "SELECT operation_key FROM draft_writes WHERE draft_id = ? AND revises = ''", (draft_id,)
    ).fetchone()
    created = _by_key(db, key)
    assert created
    return replace(created, state=State.CANCELLED, operation_key=operation_key)


def _as_json(sections: Iterable[Section]) -> str:
    return json.dumps([asdict(section) for section in sections])


def _sections(text: str) -> tuple[Section, ...]:
    return tuple(Section(one["name"], one["text"], tuple(one["cites"])) for one in json.loads(text))
