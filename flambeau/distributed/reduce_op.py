"""How collectives combine tensors."""

import enum


class ReduceOp(enum.Enum):
    """The combinations that collectives know."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
