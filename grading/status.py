"""What can become of a submission, each in one word."""

from __future__ import annotations

GRADED = "graded"
LATE = "late"  # graded, and handed in after its time
UNREADABLE = "unreadable"  # nothing in it that could be graded
TIMEOUT = "timeout"
DIED = "died"
TAMPERED = "tampered"  # ran, but its kernel did not run what it was sent: no points until a person has read it
MISSING = "missing"
PENDING = "pending"  # its turn has not come; after a kill: not graded yet

SCORED = (GRADED, LATE)
MEANING = {
    GRADED: "its points count",
    LATE: "its points count; handed in after its time",
    UNREADABLE: "nothing in it could be graded",
    TIMEOUT: "did not come to an end in its time",
    DIED: "its kernel died",
    TAMPERED: "cells that must fail were made to pass: read it before you give points",
    MISSING: "on the roster, and handed nothing in",
    PENDING: "not graded yet: run the same command again",
}
