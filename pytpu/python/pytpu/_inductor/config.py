"""`torch._inductor.config`: settings of scripts, which have no effect here, with PyTorch's defaults."""

from types import SimpleNamespace as _SimpleNamespace

coordinate_descent_tuning = coordinate_descent_check_all_directions = False
cpp_wrapper = debug = False
epilogue_fusion = True
force_disable_caches = freezing = False
fx_graph_cache = True
max_autotune = max_autotune_gemm = max_autotune_pointwise = False
reorder_for_compute_comm_overlap = False
triton = _SimpleNamespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True)
cpp = _SimpleNamespace(threads=-1, enable_kernel_profile=False)
max_autotune_gemm_search_space = max_autotune_flex_search_space = "DEFAULT"
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
use_mixed_mm = force_fuse_int_mm_with_mul = shape_padding = False
