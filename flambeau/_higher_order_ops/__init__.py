"""torch._higher_order_ops: control flow as functions of functions. They run as plain Python does, with gradients."""

from flambeau._higher_order_ops.associative_scan import associative_scan as associative_scan
from flambeau._higher_order_ops.cond import cond as cond
from flambeau._higher_order_ops.foreach_map import foreach_map as foreach_map
from flambeau._higher_order_ops.map import map as map  # noqa: A004 - torch's own name
from flambeau._higher_order_ops.scan import scan as scan
from flambeau._higher_order_ops.while_loop import while_loop as while_loop

_foreach_map = foreach_map
