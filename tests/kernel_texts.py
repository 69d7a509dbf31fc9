"""Small kernels as LLVM IR text, for tests of the runtime."""

from __future__ import annotations

# x[i] += step for the int64 elements of one chunk. Slots: error record, grain, x, step.
ADD_STEP = """
define void @add_step(ptr %args, i64 %chunk, ptr %scratch) {
entry:
  %grain.at = getelementptr i64, ptr %args, i64 1
  %grain = load i64, ptr %grain.at
  %x.at = getelementptr i64, ptr %args, i64 2
  %x = load ptr, ptr %x.at
  %step.at = getelementptr i64, ptr %args, i64 3
  %step = load i64, ptr %step.at
  %start = mul i64 %chunk, %grain
  %end = add i64 %start, %grain
  br label %loop
loop:
  %i = phi i64 [ %start, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %x, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, %step
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

# x[chunk] = sin(x[chunk]) for float64. Slots: error record, grain, x.
SINE = """
declare double @sin(double)
define void @sine(ptr %args, i64 %chunk, ptr %scratch) {
  %x.at = getelementptr i64, ptr %args, i64 2
  %x = load ptr, ptr %x.at
  %at = getelementptr double, ptr %x, i64 %chunk
  %value = load double, ptr %at
  %result = call double @sin(double %value)
  store double %result, ptr %at
  ret void
}
"""

# Sets the error record: kind 1, operator 7, position = chunk, value -3, bound 5. Slots: error record.
FAILING = """
define void @failing(ptr %args, i64 %chunk, ptr %scratch) {
  %record = load ptr, ptr %args
  %exchange = cmpxchg ptr %record, i64 0, i64 1 seq_cst seq_cst
  %first = extractvalue { i64, i1 } %exchange, 1
  br i1 %first, label %fill, label %leave
fill:
  %kind = getelementptr i64, ptr %record, i64 1
  store i64 1, ptr %kind
  %operator = getelementptr i64, ptr %record, i64 2
  store i64 7, ptr %operator
  %position = getelementptr i64, ptr %record, i64 3
  store i64 %chunk, ptr %position
  %value = getelementptr i64, ptr %record, i64 4
  store i64 -3, ptr %value
  %bound = getelementptr i64, ptr %record, i64 5
  store i64 5, ptr %bound
  br label %leave
leave:
  ret void
}
"""

# Fills `grain` bytes of scratch with the chunk's number, then counts in x[chunk] how many hold it. Slots: error record, grain, x.
SCRATCH = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @use_scratch(ptr %args, i64 %chunk, ptr %scratch) {
entry:
  %grain.at = getelementptr i64, ptr %args, i64 1
  %grain = load i64, ptr %grain.at
  %x.at = getelementptr i64, ptr %args, i64 2
  %x = load ptr, ptr %x.at
  %byte = trunc i64 %chunk to i8
  call void @llvm.memset.p0.i64(ptr %scratch, i8 %byte, i64 %grain, i1 false)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %count = phi i64 [ 0, %entry ], [ %count.next, %loop ]
  %at = getelementptr i8, ptr %scratch, i64 %i
  %found = load volatile i8, ptr %at
  %same = icmp eq i8 %found, %byte
  %one = zext i1 %same to i64
  %count.next = add i64 %count, %one
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %grain
  br i1 %more, label %loop, label %done
done:
  %out = getelementptr i64, ptr %x, i64 %chunk
  store i64 %count.next, ptr %out
  ret void
}
"""

# Sleeps for x[0] microseconds, then adds 1 to x[1]. Slots: error record, grain, x.
SLEEP = """
declare i32 @usleep(i32)
define void @sleep_then_count(ptr %args, i64 %chunk, ptr %scratch) {
  %x.at = getelementptr i64, ptr %args, i64 2
  %x = load ptr, ptr %x.at
  %duration = load i64, ptr %x
  %microseconds = trunc i64 %duration to i32
  %status = call i32 @usleep(i32 %microseconds)
  %counter = getelementptr i64, ptr %x, i64 1
  %old = atomicrmw add ptr %counter, i64 1 seq_cst
  ret void
}
"""
