"""torch._inductor.config: settings that programs may make, and that have no effect: what they choose is decided here by sizes and types."""

from __future__ import annotations

from types import SimpleNamespace

aggressive_fusion = False
allow_buffer_reuse = True
benchmark_kernel = False
compile_threads = 1
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cpp = SimpleNamespace(threads=-1, simdlen=None, enable_kernel_profile=False)
cpp_wrapper = False
epilogue_fusion = True
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
fx_graph_remote_cache = False
max_autotune = False
max_autotune_gemm = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
max_autotune_pointwise = False
reorder_for_compute_comm_overlap = False
reorder_for_peak_memory = True
shape_padding = True
triton = SimpleNamespace(
    cudagraphs=False, cudagraph_trees=True, cudagraph_skip_dynamic_graphs=False, unique_kernel_names=True, store_cubin=False,
)  # fmt: skip
use_mixed_mm = True
