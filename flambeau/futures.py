"""torch.futures: values that come later, from other threads."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value that some thread sets once.

    >>> import flambeau as torch
    >>> later = torch.futures.Future()
    >>> doubled = later.then(lambda f: f.value() * 2)
    >>> later.set_result(4)
    >>> doubled.wait()
    8
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether the value, or an exception, is there."""
        return self._inner.done()

    def wait(self) -> Any:
        """Wait for the value; raises the exception that was set in its place."""
        return self._inner.result()

    def value(self) -> Any:
        """The value that is there; RuntimeError before."""
        if not self._inner.done():
            raise RuntimeError("Future.value(): the future is not completed; wait() for it")
        return self._inner.result()

    def set_result(self, result: T) -> None:
        """Set the value; RuntimeError where there is one."""
        try:
            self._inner.set_result(result)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Attempting to mark a completed Future as complete again.") from None

    def set_exception(self, result: BaseException) -> None:
        """Set an exception in place of the value."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._inner.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call ``callback(self)`` when the value is there, or now."""
        self._inner.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """A future of ``callback(self)``, called when the value is there."""
        after: Future[Any] = Future()

        def go_on(_: Any) -> None:
            try:
                after.set_result(callback(self))
            except Exception as error:
                after.set_exception(error)

        self._inner.add_done_callback(go_on)
        return after


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the given ones, there when all of them are."""
    after: Future[list[Future[Any]]] = Future()
    left = len(futures)
    if not left:
        after.set_result(futures)

    def count(_: Future[Any]) -> None:
        nonlocal left
        left -= 1
        if not left:
            after.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    return after


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Wait for all; their values."""
    return [future.wait() for future in futures]
