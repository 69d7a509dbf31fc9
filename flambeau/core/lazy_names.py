"""Names of the package that many programs do without, loaded at first use."""

from __future__ import annotations

# Parts of the package.
MODULES = (
    "nn optim utils compiler cuda func sparse nested linalg fft special signal testing amp cpu distributions profiler multiprocessing "
    "fx accelerator futures backends random onnx overrides _C _higher_order_ops _dynamo distributed _inductor array_api jit hub library "
    "version serialization masked return_types torch_version __config__ _subclasses _tensor_str _logging"
).split()
# Names by the modules that have them.
_NAMES = {
    "flambeau.compiler": "compile",
    "flambeau.func": "vmap",
    "flambeau.sparse": "sparse_coo_tensor sparse_csr_tensor",
    "flambeau.amp": "autocast GradScaler",
    "flambeau.accelerator": "Event Stream get_device_module",
    "flambeau.linalg.eigenpairs": "lobpcg",
    "flambeau.amp.autocast_mode": (
        "is_autocast_enabled set_autocast_enabled get_autocast_dtype set_autocast_dtype is_autocast_cpu_enabled "
        "set_autocast_cpu_enabled get_autocast_cpu_dtype set_autocast_cpu_dtype get_autocast_gpu_dtype set_autocast_gpu_dtype "
        "is_autocast_cache_enabled set_autocast_cache_enabled clear_autocast_cache"
    ),
    "flambeau._higher_order_ops": "cond while_loop",
    "flambeau.utils.dlpack": "to_dlpack",
    "flambeau.jit": "Future ScriptModule fork wait",
    "flambeau.cuda": "OutOfMemoryError",
    "flambeau.tensor.checks": (
        "_assert _assert_async _check _check_index _check_is_size _check_tensor_all _check_type _check_value _check_with"
    ),
    "flambeau.serialization": "save load",
    "flambeau.nn.functional": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d adaptive_avg_pool1d pdist",
    "flambeau.nn.functional.torch_forms": (
        "adaptive_max_pool1d affine_grid_generator alpha_dropout_ avg_pool1d batch_norm binary_cross_entropy_with_logits celu_ "
        "conv_tbc convolution cosine_embedding_loss ctc_loss embedding_bag embedding_renorm_ feature_alpha_dropout "
        "feature_alpha_dropout_ feature_dropout_ hinge_embedding_loss instance_norm kl_div margin_ranking_loss max_pool1d max_pool2d "
        "max_pool3d native_dropout norm_except_dim poisson_nll_loss rrelu rrelu_ selu_ triplet_margin_loss"
    ),
    "flambeau.nn.modules.rnn_functions": "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
}

# Name: the module, and what in it (None: the module itself).
LAZY: dict[str, tuple[str, str | None]] = {
    "torch": ("flambeau", None),
    **{name: (f"flambeau.{name}", None) for name in MODULES},
    **{name: (module, name) for module, names in _NAMES.items() for name in names.split()},
    "spmm": ("flambeau.sparse", "mm"),
    "smm": ("flambeau.sparse", "mm"),
}
