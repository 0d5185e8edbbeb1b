"""``torch._dynamo.config``: settings of scripts, which have no effect here, with PyTorch's defaults."""

accumulated_cache_size_limit = accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
capture_dynamic_output_shape_ops = capture_scalar_outputs = False
compiled_autograd = False
error_on_recompile = fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
guard_nn_modules = True
optimize_ddp = True
suppress_errors = False
verbose = False
