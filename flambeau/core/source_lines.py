"""Which line of the user's program is running: the innermost frame outside this package and the libraries under it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

__all__ = ["PACKAGE", "user_line"]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
UNKNOWN = "unknown line"
# While a function is interpreted: what tells the line it is at, since no frame of Python's own does.
interpreted_line: Callable[[], str] | None = None


def user_line() -> str:
    """File name and line, as in ``train.py:17``.

    >>> from flambeau.core.source_lines import user_line
    >>> user_line().rpartition(":")[2].isdigit()
    True
    """
    if interpreted_line is not None:
        return interpreted_line()
    frame = sys._getframe(1)  # type: ignore[reportPrivateUsage]
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return UNKNOWN
