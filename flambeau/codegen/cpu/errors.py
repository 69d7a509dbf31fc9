"""How a kernel reports a value that it cannot work with: into the error record, the first one only."""

from __future__ import annotations

from zlib import crc32

from flambeau.codegen.cpu.emitter import Emitter, Value

INDEX_OUT_OF_RANGE = 1
ACCESS_OUTSIDE_BUFFER = 2
NO_FACTORIZATION = 3

_REPORT = """define internal void @report(ptr %record, i64 %kind, i64 %operator, i64 %position, i64 %value, i64 %bound) noinline {
  %swapped = cmpxchg ptr %record, i64 0, i64 1 acq_rel monotonic
  %first = extractvalue { i64, i1 } %swapped, 1
  br i1 %first, label %fill, label %done
fill:
  %kind.at = getelementptr i64, ptr %record, i64 1
  store i64 %kind, ptr %kind.at
  %operator.at = getelementptr i64, ptr %record, i64 2
  store i64 %operator, ptr %operator.at
  %position.at = getelementptr i64, ptr %record, i64 3
  store i64 %position, ptr %position.at
  %value.at = getelementptr i64, ptr %record, i64 4
  store i64 %value, ptr %value.at
  %bound.at = getelementptr i64, ptr %record, i64 5
  store i64 %bound, ptr %bound.at
  br label %done
done:
  ret void
}"""


def operator_number(operator: str) -> int:
    """The number by which error records name an operator: the same in every process, 31 bits."""
    return crc32(operator.encode()) & 0x7FFFFFFF


def emit_report(e: Emitter, record: Value, kind: int, operator: int, position: Value, value: Value, bound: Value) -> None:
    """Write the error record unless an earlier report is there; all values are i64."""
    if _REPORT not in e.globals:
        e.globals.append(_REPORT)
    numbers = (e.const(kind, "i64"), e.const(operator, "i64"), position, value, bound)
    e.emit(f"call void @report({', '.join(map(str, (record, *numbers)))})")
