"""The generators of interpreted functions."""

from __future__ import annotations

import sys
import types
from collections.abc import Generator as AbstractGenerator
from typing import Any

from flambeau.capture.machine import tracebacks
from flambeau.capture.machine.calls import send, send_and_keep
from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.markers import YIELDED


class Generator(AbstractGenerator[Any, Any, Any]):
    """A suspended frame with the interface of Python's generators, for which ``isinstance`` takes it."""

    __slots__ = ("__name__", "__qualname__", "__weakref__", "finished", "frame", "gi_running", "started")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.gi_running = self.started = self.finished = False
        self.__name__, self.__qualname__ = frame.function.__name__, frame.function.__qualname__

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return types.GeneratorType

    def __repr__(self) -> str:
        return f"<generator object {self.__qualname__} at {id(self):#x}>"

    def __iter__(self) -> Generator:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    @property
    def gi_code(self) -> types.CodeType:
        return self.frame.code

    @property
    def gi_suspended(self) -> bool:
        return self.started and not self.finished and not self.gi_running

    @property
    def gi_frame(self) -> Any:
        return None if self.finished else self.frame.semantics.frame_view(self.frame)

    @property
    def gi_yieldfrom(self) -> Any:
        """The iterator that this generator waits for in ``yield from``."""
        if not self.gi_suspended:
            return None
        before = self.frame.program.instructions[max(self.frame.position - 2, 0)][0]
        return self.frame.stack[-1] if before in (send, send_and_keep) else None

    def send(self, value: Any) -> Any:
        if self.gi_running:
            raise ValueError("generator already executing")
        if self.finished:
            raise StopIteration
        if not self.started and value is not None:
            raise TypeError("can't send non-None value to a just-started generator")
        self.frame.stack.append(value)
        return self._resume()

    def throw(self, kind: Any, value: Any = None, traceback: Any = None, /) -> Any:
        error = _exception(kind, value, traceback)
        if self.gi_running:
            raise ValueError("generator already executing")
        waited_for = self.gi_yieldfrom
        if waited_for is None:
            return self._resume(error)
        self.gi_running = True
        try:
            if isinstance(error, GeneratorExit):
                _close(waited_for)
                throw = None
            else:
                throw = getattr(waited_for, "throw", None)
            if throw is not None:
                return throw(error)
            finished = None
        except StopIteration as stop:
            error = finished = stop
        except BaseException as other:
            error, finished = other, None
        finally:
            self.gi_running = False
        if finished is None:
            return self._resume(error)
        return self._finish_waiting(finished.value)

    def _finish_waiting(self, value: Any) -> Any:
        """The iterator of ``yield from`` ended with a value."""
        frame = self.frame
        handler, target = frame.program.instructions[frame.position - 2]
        if handler is send:
            frame.stack.pop()
        frame.stack.append(value)
        frame.position = target
        return self._resume()

    def close(self) -> Any:
        if self.gi_running:
            raise ValueError("generator already executing")
        if not self.started or self.finished:
            self.finished = True
            return None
        error: BaseException = GeneratorExit()
        waited_for = self.gi_yieldfrom
        if waited_for is not None:
            self.gi_running = True
            try:
                _close(waited_for)
            except BaseException as other:
                error = other
            finally:
                self.gi_running = False
        try:
            self._resume(error)
        except GeneratorExit:
            return None
        except StopIteration as stop:
            return stop.value if sys.version_info >= (3, 13) else None
        raise RuntimeError("generator ignored GeneratorExit")

    def __del__(self) -> None:
        if self.gi_suspended:
            self.close()

    def _resume(self, thrown: BaseException | None = None) -> Any:
        if self.finished:
            raise thrown or StopIteration
        frame = self.frame
        machine = frame.machine
        self.gi_running = self.started = True
        machine.frames.append(frame)
        try:
            outcome = machine.resume(frame, thrown)
        except BaseException as error:
            self.finished = True
            error.__traceback__ = tracebacks.clean(error.__traceback__)
            if isinstance(error, StopIteration):
                raise RuntimeError("generator raised StopIteration") from error
            raise
        finally:
            self.gi_running = False
            machine.frames.pop()
        result, frame.result = frame.result, None
        if outcome == YIELDED:
            return result
        self.finished = True
        raise StopIteration if result is None else StopIteration(result)


def _exception(kind: Any, value: Any, traceback: Any) -> BaseException:
    """The exception that the arguments of ``throw`` stand for."""
    if traceback is not None and not isinstance(traceback, types.TracebackType):
        raise TypeError("throw() third argument must be a traceback object")
    if isinstance(kind, type) and issubclass(kind, BaseException):
        if isinstance(value, kind):
            error = value
        elif value is None:
            error = kind()
        else:
            error = kind(*value) if isinstance(value, tuple) else kind(value)
    elif isinstance(kind, BaseException):
        if value is not None:
            raise TypeError("instance exception may not have a separate value")
        error = kind
    else:
        raise TypeError(f"exceptions must be classes or instances deriving from BaseException, not {type(kind).__name__}")
    return error if traceback is None else error.with_traceback(traceback)


def _close(iterator: Any) -> None:
    close = getattr(iterator, "close", None)
    if close is not None:
        close()
