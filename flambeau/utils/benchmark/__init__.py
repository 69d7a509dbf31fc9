"""torch.utils.benchmark: times of statements, measured with care, and tables of them."""

from __future__ import annotations

from flambeau.utils.benchmark.compare import Compare as Compare
from flambeau.utils.benchmark.measurement import Measurement as Measurement
from flambeau.utils.benchmark.timer import Timer as Timer
from flambeau.utils.benchmark.timer import timer as timer
