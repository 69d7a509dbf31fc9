"""The generators of interpreted functions."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Generator as AbstractGenerator
from typing import Any

from flambeau.capture.machine import tracebacks
from flambeau.capture.machine.calls import send, send_and_keep
from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.markers import NULL, YIELDED

SIGNATURE = "the (type, exc, tb) signature of throw() is deprecated, use the single-arg signature instead."


class Generator(AbstractGenerator[Any, Any, Any]):
    """A suspended frame with the interface of Python's generators, for which ``isinstance`` takes it."""

    __slots__ = ("__name__", "__qualname__", "__weakref__", "finished", "frame", "running", "started")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.running = self.started = self.finished = False
        self.__name__, self.__qualname__ = frame.function.__name__, frame.function.__qualname__

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return types.GeneratorType

    def __repr__(self) -> str:
        return f"<generator object {self.__qualname__} at {id(self):#x}>"

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'generator' object")

    def __iter__(self) -> Generator:
        """Implement iter(self)."""
        return self

    def __next__(self) -> Any:
        """Implement next(self)."""
        # Native code asks so; the machine itself uses `send`.
        return self.frame.semantics.kept(self.send(None))

    @property
    def gi_running(self) -> bool:
        return self.running

    @property
    def gi_code(self) -> types.CodeType:
        return self.frame.code

    @property
    def gi_suspended(self) -> bool:
        return self.started and not self.finished and not self.running

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
        if self.running:
            raise ValueError("generator already executing")
        if self.finished:
            raise StopIteration
        if not self.started and value is not None:
            raise TypeError("can't send non-None value to a just-started generator")
        self.frame.stack.append(value)
        return self._resume()

    def throw(self, kind: Any, value: Any = None, traceback: Any = None, /) -> Any:
        error: Any = _exception(kind, value, traceback)
        if sys.version_info >= (3, 12) and (value is not None or traceback is not None):
            self.frame.semantics.call(warnings.warn, (SIGNATURE, DeprecationWarning), {})
        if self.running:
            raise ValueError("generator already executing")
        waited_for = self.gi_yieldfrom
        if waited_for is None:
            return self._resume(error)
        ended: StopIteration | None = None
        self._enter()
        try:
            throw: Any = None if isinstance(error, GeneratorExit) else getattr(waited_for, "throw", None)
            if throw is not None:
                return self.frame.semantics.call(throw, (error,), {})
            if isinstance(error, GeneratorExit):
                self._close(waited_for)
        except StopIteration as stop:
            error, ended = stop, None if throw is None else stop
        except BaseException as other:
            error = other
        finally:
            self._leave()
        return self._resume(error) if ended is None else self._finish_waiting(ended.value)

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
        if self.running:
            raise ValueError("generator already executing")
        if not self.started or self.finished:
            self._finish()
            return None
        error: BaseException = GeneratorExit()
        waited_for = self.gi_yieldfrom
        if waited_for is not None:
            self._enter()
            try:
                self._close(waited_for)
            except BaseException as other:
                error = other
            finally:
                self._leave()
        try:
            self._resume(error)
        except GeneratorExit:
            return None
        except StopIteration as stop:
            return stop.value if sys.version_info >= (3, 13) else None
        raise RuntimeError("generator ignored GeneratorExit")

    def _close(self, iterator: Any) -> None:
        close = getattr(iterator, "close", None)
        if close is not None:
            self.frame.semantics.call(close, (), {})

    def __del__(self) -> None:
        if self.gi_suspended:
            self.close()

    def _enter(self) -> None:
        self.running = True
        self.frame.machine.frames.append(self.frame)

    def _leave(self) -> None:
        self.running = False
        self.frame.machine.frames.pop()

    def _finish(self) -> None:
        """Let go of the frame's values."""
        self.finished = True
        self.frame.fast = [NULL] * len(self.frame.fast)
        self.frame.stack.clear()

    def _resume(self, thrown: BaseException | None = None) -> Any:
        if self.finished:
            raise thrown or StopIteration
        frame = self.frame
        self.started = True
        self._enter()
        try:
            outcome = frame.machine.resume(frame, thrown)
        except BaseException as error:
            self._finish()
            error.__traceback__ = tracebacks.clean(error.__traceback__)
            if isinstance(error, StopIteration):
                raise RuntimeError("generator raised StopIteration") from error
            raise
        finally:
            self._leave()
        result, frame.result = frame.result, None
        if outcome == YIELDED:
            return result
        self._finish()
        raise StopIteration if result is None else StopIteration(result)


# Messages and repr name generators as Python's own.
Generator.__name__, Generator.__qualname__, Generator.__module__ = "generator", "generator", "builtins"


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
