"""The names of types that annotations of scripted functions use."""

from typing import Any as Any
from typing import Dict as Dict  # noqa: UP035 - the name is the point
from typing import List as List  # noqa: UP035
from typing import Optional as Optional
from typing import Tuple as Tuple  # noqa: UP035
from typing import Union as Union

from flambeau.futures import Future as Future

__all__ = ["Any", "Dict", "Future", "List", "Optional", "Tuple", "Union"]
