"""Helpers for training: clipping gradients, parameters as one vector, sequences of different lengths."""

from flambeau.nn.utils import rnn, stateless
from flambeau.nn.utils.clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from flambeau.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from flambeau.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector",
    "remove_weight_norm", "rnn", "stateless", "vector_to_parameters", "weight_norm",
]  # fmt: skip
