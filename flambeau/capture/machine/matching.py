"""Handlers of ``match`` statements."""

from __future__ import annotations

from typing import Any

from flambeau.capture.machine.containers import taken
from flambeau.capture.machine.frame import Frame


def match_class(frame: Frame, count: int) -> None:
    subject, cls, names = taken(frame, 3)
    frame.stack.append(frame.semantics.match_class(subject, cls, count, names))


def match_keys(frame: Frame, _: Any) -> None:
    subject, keys = frame.stack[-2:]
    frame.stack.append(frame.semantics.match_keys(subject, keys))


def match_mapping(frame: Frame, _: Any) -> None:
    frame.stack.append(frame.semantics.match_mapping(frame.stack[-1]))


def match_sequence(frame: Frame, _: Any) -> None:
    frame.stack.append(frame.semantics.match_sequence(frame.stack[-1]))


def get_length(frame: Frame, _: Any) -> None:
    frame.stack.append(frame.semantics.length(frame.stack[-1]))
