"""What lies where: the objects that native code makes and reads, and its own state."""

from __future__ import annotations

from flambeau.runtime.native.language import Array, Byte, Global, Struct, Word, Words

__all__ = ["Argument", "Arguments", "Backward", "Bin", "Binary", "Copy", "Entry", "Holder", "Instruction", "Launch",
           "Object", "Output", "Overlap", "Patch", "Plan", "Program", "Recording", "Result", "Save", "Saved", "Scalar",
           "Shared", "Signature", "Stop", "Storage", "Tensor", "View", "Walk", "shared"]  # fmt: skip


class Object(Struct):
    """How every Python object begins (the stable ABI of builds with a GIL); `heap_types` checks the size."""

    references: Word
    type: Word


class Storage(Struct):
    """`runtime.storage.Storage`."""

    references: Word
    type: Word
    address: Word
    nbytes: Word
    version: Word
    owner: Word
    pending: Word
    weakrefs: Word


class Tensor(Struct):
    """`runtime.native.records.TensorFields`."""

    references: Word
    type: Word
    memory: Storage
    address: Word
    meta: Word
    entry: Word
    output: Word
    view_of: Word
    hooks: Word
    _grad: Word
    seen_version: Word
    _requires_grad: Byte
    retains: Byte
    dict: Word
    weakrefs: Word


class View(Struct):
    """`tensor.views.View`."""

    references: Word
    type: Word
    base: Word
    steps: Word


class Entry(Struct):
    """`tensor.tape.Entry`."""

    references: Word
    type: Word
    edges: Word
    metas: Word
    plan: Word
    numbers: Word
    saved: Word
    _hooks: Word
    _pre_hooks: Word
    _output_hooks: Word
    _metadata: Word
    sequence: Word
    weakrefs: Word
    recording: Recording


class Saved(Struct):
    """`tensor.tape.Saved`."""

    references: Word
    type: Word
    tensor: Tensor
    version: Word
    output: Word


class Bin(Struct):
    """Released blocks of one size; each holds the address of the next in its first word."""

    first: Words
    size: Word


class Signature(Struct):
    """An operator's parameters. ``roles`` are those of `keys`; ``defaults`` holds objects, 0 where there is none."""

    operator: Word
    parameters: Word
    positional: Word
    names: Words
    roles: Words
    defaults: Words
    lists: Word  # how many parameters are lists of tensors
    modes: Word  # those in which a call is as always


class Arguments(Struct):
    """A call being taken apart: its key so far, and the tensors and numbers that it does not hold."""

    hash: Word
    words: Word
    key: Words
    tensor_count: Word
    tensors: Words
    number_count: Word
    numbers: Words
    marked: Word  # whether any tensor takes part in autograd
    most_words: Word
    most_tensors: Word
    places: Words  # of many tensors: a hash table of their positions counted from 1
    mask: Word


class Output(Struct):
    """A result to make: of ``meta`` with ``nbytes`` of new memory, or (target >= 0) operand ``target`` written into; of a view
    the operand it shows and how many bytes into it. ``steps`` says how a view was made.
    """

    meta: Word
    nbytes: Word
    target: Word
    offset: Word
    steps: Word


class Patch(Struct):
    """Argument ``slot`` of a kernel is the address of operand or (counted on) output ``source`` plus ``offset``."""

    source: Word
    slot: Words
    offset: Word


class Scalar(Struct):
    """Argument ``slot`` of a kernel is a number as an integer, a float or a double (``kind`` 0, 1, 2)."""

    number: Word
    slot: Words
    kind: Word


class Save(Struct):
    """A value to keep for backward: operand or output ``index`` (``made`` tells which); as `Saved` ``output``.

    ``written`` is 1 for an operand that the call itself has overwritten.
    """

    made: Word
    index: Word
    output: Word
    written: Word


class Copy(Struct):
    """Operand ``place`` of a backward function is copied by ``plan`` before, since the function needs another layout."""

    place: Word
    plan: Plan


class Backward(Struct):
    """A backward function for saved values and cotangents of exactly these metadata: the places of those and of the numbers that
    it takes, and of the cotangents that must be missing.
    """

    plan: Plan
    saved_count: Word
    saved: Words
    cotangent_count: Word
    cotangents: Words
    missing_count: Word
    missing: Words
    number_count: Word
    numbers: Words
    metas: Words
    copy_count: Word
    copies: Array[Copy]
    next: Backward  # another one for the same entries


class Recording(Struct):
    """What goes on the tape: for which operands (positions) gradients are wanted, what is saved, which results get the entry."""

    call_plan: Word
    metas: Word
    edge_count: Word
    edges: Words
    save_count: Word
    saves: Array[Save]
    result_count: Word
    results: Words
    backward: Backward  # 0 until a backward has run


class Plan(Struct):
    """What a call with this key does. ``owner`` is the Python object that keeps all of it alive.

    ``kind`` is one of `launch`. A single kernel call of one chunk has ``function`` and ``arguments``, anything else ``program``.
    """

    hash: Word
    operator: Word
    words: Word
    key: Words
    kind: Word
    owner: Word
    inputs: Word
    number_count: Word
    made: Word
    outputs: Array[Output]
    patches: Array[Patch]
    patch_count: Word
    scalars: Array[Scalar]
    scalar_count: Word
    function: Word
    arguments: Word
    program: Word
    error: Words
    writes: Word  # whether any output is written into an operand
    releases: Word
    busy: Words
    arena_bytes: Word
    temporaries: Array[Patch]
    temporary_count: Word
    structure: Words
    recording: Recording


class Stop(Struct):
    """An entry or leaf on a walk of the tape. ``gradients`` is a list of what came to an entry, or what came to a leaf."""

    target: Word
    is_leaf: Word
    waiting: Word  # edges that still lead here
    gradients: Word
    summed: Word  # bits of the outputs whose gradient is a sum that nobody else has seen yet


class Walk(Struct):
    """A walk of the tape: its stops, a hash table of their numbers counted from 1, the numbers of those that are ready."""

    stops: Array[Stop]
    count: Word
    capacity: Word
    places: Words
    ready: Words
    ready_count: Word
    retain: Word
    retains: Word
    run: Word
    accumulate: Word
    add: Word


class Argument(Struct):
    """What an input of a segment must be: its metadata, and whether it takes part in autograd."""

    meta: Word
    marked: Word


class Overlap(Struct):
    """Tensor ``part`` begins ``distance`` bytes after tensor ``owner`` in the same memory."""

    part: Word
    owner: Word
    distance: Word


class Result(Struct):
    """A result of a segment: output ``index`` of its plan, or what the Python function ``make`` makes of that."""

    index: Word
    make: Word


class Launch(Struct):
    """A segment for certain sizes, and what it relies on. ``storages`` is how many different storages the inputs have."""

    plan: Plan
    inputs: Word
    arguments: Array[Argument]
    storages: Word
    overlap_count: Word
    overlaps: Array[Overlap]
    result_count: Word
    results: Array[Result]
    runs: Words


class Instruction(Struct):
    """One instruction of a residual program, performed by ``function``; see `replay`.

    ``onward`` is where the program goes on when Python has done the whole line ``place``, whose ``results`` (1 for one, 2 + n for a
    list of n, 0 for none) go to ``into`` and on; a check has -1 and goes on at ``otherwise`` where it does not hold.
    """

    function: Word
    target: Word
    first: Word
    second: Word
    third: Word
    count: Word
    operands: Words
    otherwise: Word
    onward: Word
    place: Word
    results: Word
    into: Word


class Program(Struct):
    """A residual program: how many variables it has, and the Python functions for what it does not know."""

    first: Instruction
    variables: Word
    unset: Word
    decide: Word
    recover: Word
    leave: Word


class Holder(Struct):
    """What a builtin function is bound to: an address, and the Python object that keeps it."""

    references: Word
    type: Word
    owner: Word
    address: Word


class Binary(Struct):
    """A Python operator with two operands: the call it stands for, and the Python methods for everything unusual."""

    signature: Signature
    forward: Word
    reflected: Word


class Shared(Struct):
    """The state of native code in this process. Addresses of Python objects here are kept alive by `library`."""

    none: Word
    # -- memory: no bins means that all requests go to Python
    bins: Array[Bin]
    lent: Word  # how many blocks are with requests of smaller classes
    allocated: Word
    peak: Word
    allocations: Word
    allocate_slowly: Word
    release_slowly: Word
    storage_type: Word
    storage_keywords: Words
    tensor_type: Word
    tensor_fields: Word
    view_type: Word
    meta_type: Word
    new_slowly: Word
    entry_type: Word
    hooks_name: Word
    contiguous_name: Word
    saved_type: Word
    sequence: Word
    # -- modes of thread `mode_thread`
    mode_thread: Word
    mode: Word
    refresh_mode: Word
    # -- calls
    enabled: Word
    calls: Word
    backwards: Word
    reason: Word  # why the last call was left to Python
    refusals: Words
    accepted: Words
    accepted_count: Word
    constants: Words
    constant_count: Word
    float_type: Word
    int_type: Word
    bool_type: Word
    str_type: Word
    tuple_type: Word
    list_type: Word
    dict_type: Word
    size_type: Word
    operator_type: Word
    learn: Word
    signatures: Words
    plans: Words
    call_python: Word
    missed: Word
    into_python: Word
    into_missed: Word
    failed: Word
    run_program: Word
    not_implemented: Word
    get_name: Word
    failed_name: Word
    add: Binary
    subtract: Binary
    multiply: Binary
    divide: Binary
    matrix_multiply: Binary
    negate: Binary
    # -- Modules; lists of words end with a 0
    call_module: Word
    global_hooks: Words
    hook_names: Words
    compiled_name: Word
    forward_name: Word
    registry_names: Words
    no_such_part: Word


shared: Shared = Global("flambeau_shared", Shared)  # type: ignore[assignment]
