"""torch.return_types: the tuples with names that functions with several results return, under the names of these functions."""

from flambeau.ops.number_parts import Parts as frexp
from flambeau.ops.reduce import ValuesIndices
from flambeau.ops.spectral import LogDeterminant as slogdet
from flambeau.tensor.functions_reduce import MinMax as aminmax

__all__ = ["aminmax", "cummax", "cummin", "frexp", "kthvalue", "max", "median", "min", "mode", "nanmedian", "slogdet", "sort", "topk"]

cummax = cummin = kthvalue = max = median = min = mode = nanmedian = sort = topk = ValuesIndices
