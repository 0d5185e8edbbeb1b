"""The table of PyTorch's names that are in another module here, or that are not here.

A row has four columns:

* the module of PyTorch, without `torch.`,
* the kind of the row,
* a module of this package, or a text,
* names, with spaces between them.

The kinds are:

* `HERE`: the names are written in the module of the third column, and are reported as names of PyTorch's module. `*`
  stands for all names of a file.
* `ALIAS`: PyTorch's module has the names too, and they are reported where they are written. `new=old` renames, and
  `*` stands for all public names.
* `ABSENT`: the names can be imported, and using one raises `NotImplementedError` with the text. `name()` is a
  function, and `name` a class.
* `FOLDER`: a package without a file `__init__.py`, and its description.

A module of the first column needs no file: `_as_torch` makes it at its first import. If it has a file, the loader adds
its absent names when the file has run.
"""

HERE, ALIAS, ABSENT, FOLDER = range(4)

# fmt: off
ROWS = (
    ("", HERE, "_checks", "*"),
    ("", HERE, "_checks", "_assert"),
    ("", HERE, "_functions.creation", "*"),
    ("", HERE, "_functions.predicates", "*"),
    ("", HERE, "_functions.products", "*"),
    ("", HERE, "_functions.search", "*"),
    ("", HERE, "_functions.settings", "*"),
    ("", HERE, "_functions.shapes", "*"),
    ("", HERE, "_functions.symbolic", "*"),
    ("", HERE, "_memory", "*"),
    ("", HERE, "_rare", "*"),
    ("", HERE, "_streams", "*"),
    ("", HERE, "amp.autocast_mode", "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype "
        "is_autocast_cpu_enabled is_autocast_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled "
        "set_autocast_dtype set_autocast_enabled"),
    ("", HERE, "functions", "*"),
    ("", ALIAS, "_c_names", "TensorType"),
    ("", ALIAS, "_checks", "_check _check_index _check_value _check_type _check_not_implemented _check_is_size "
        "_check_tensor_all _check_with _assert_async"),
    ("", ALIAS, "_functions.products", "_weight_norm"),
    ("", ALIAS, "_functions.symbolic", "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum"),
    ("", ALIAS, "_legacy", "FloatTensor DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor "
        "IntTensor LongTensor BoolTensor"),
    ("", ALIAS, "_lowrank", "svd_lowrank pca_lowrank"),
    ("", ALIAS, "_memory", "from_file frombuffer"),
    ("", ALIAS, "_rare", "DeviceObjType StorageBase StreamObjType _disable_dynamo "
        "_has_compatible_shallow_copy_type _int_mm _shape_as_tensor AcceleratorError Tag batch_norm_update_stats"),
    ("", ALIAS, "_removed", "cholesky eig lstsq matrix_rank qr solve symeig"),
    ("", ALIAS, "_schema", "Argument FunctionSchema parse_schema"),
    ("", ALIAS, "_streams", "Event Stream"),
    ("", ALIAS, "_sym", "ScriptObject SymBool SymFloat SymInt"),
    ("", ALIAS, "_utils", "classproperty"),
    ("", ALIAS, "amp", "GradScaler"),
    ("", ALIAS, "amp.autocast_mode", "autocast is_autocast_available"),
    ("", ALIAS, "futures", "Future"),
    ("", ALIAS, "jit", "ScriptFunction ScriptModule"),
    ("", ALIAS, "serialization", "save load PyTorchFileReader"),
    ("", ALIAS, "storage", "FloatStorage DoubleStorage HalfStorage BFloat16Storage ByteStorage CharStorage "
        "ShortStorage IntStorage LongStorage BoolStorage ComplexDoubleStorage ComplexFloatStorage TypedStorage "
        "UntypedStorage Storage"),
    ("", ALIAS, "utils.dlpack", "from_dlpack to_dlpack"),
    ("_C", ABSENT, "TorchScript is not supported: functions and modules run as Python",
        "Block ClassType DictType Graph IValue InterfaceType ListType OptionalType ScriptFunction ScriptMethod "
        "ScriptModule TensorType TracingState TupleType Type Use Value _create_graph_by_tracing() "
        "_jit_pass_inline() import_ir_module() parse_ir()"),
    ("_C._autograd", HERE, "profiler", "DeviceType kineto_available"),
    ("_C._distributed_c10d", HERE, "distributed", "FileStore HashStore TCPStore"),
    ("_C._distributed_c10d", HERE, "distributed._grad_bucket", "*"),
    ("_C._distributed_c10d", HERE, "distributed._made_groups", "*"),
    ("_C._distributed_c10d", HERE, "distributed._reducer", "*"),
    ("_C._distributed_c10d", ALIAS, "distributed._c_names", "*"),
    ("_C._distributed_c10d", ABSENT, "it is not implemented yet", "FlightRecorderHook"),
    ("_C._distributed_rpc", ABSENT, "RPC has no RRef", "PyRRef"),
    ("_C._functorch", ABSENT, "functions are not mapped over a dimension yet",
        "_add_batch_dim() _remove_batch_dim() _vmap_increment_nesting() _vmap_decrement_nesting() _unwrap_batched()"),
    ("_C._profiler", HERE, "profiler", "ProfilerActivity"),
    ("_dynamo", HERE, "_dynamo", "reset"),
    ("_dynamo.backends.registry", HERE, "_dynamo", "list_backends"),
    ("_dynamo.decorators", HERE, "_dynamo", "allow_in_graph assume_constant_result disable disallow_in_graph "
        "nonstrict_trace graph_break mark_dynamic mark_static mark_static_address maybe_mark_dynamic"),
    ("_dynamo.eval_frame", HERE, "_compiled", "*"),
    ("_dynamo.eval_frame", HERE, "_dynamo", "optimize"),
    ("_dynamo.external_utils", HERE, "_dynamo", "is_compiling"),
    ("_export.verifier", HERE, "export._verifier", "*"),
    ("_functorch", FOLDER, "`torch._functorch`: names that torchtitan and `spmd_types` use without the compiler "
        "that they belong to.", ""),
    ("_functorch.vmap", ABSENT, "`vmap` is not there", "_flat_vmap() _add_batch_dim() _remove_batch_dim() "
        "_maybe_remove_batch_dim() _process_batched_inputs() _create_batched_inputs() _unwrap_batched() "
        "vmap_increment_nesting() vmap_impl()"),
    ("_guards", ABSENT, "Python code is never traced here", "Source Guard"),
    ("_higher_order_ops.inline_asm_elementwise", ABSENT, "there is no GPU assembly here", "inline_asm_elementwise()"),
    ("_jit_internal", HERE, "jit", "export ignore is_scripting unused"),
    ("_library", FOLDER, "Parts of `torch.library` that libraries import from here.", ""),
    ("_library.custom_ops", HERE, "library", "CustomOpDef"),
    ("_library.infer_schema", ALIAS, "library", "infer_schema"),
    ("_linalg_utils", HERE, "_removed", "*"),
    ("_tensor_str", HERE, "_functions.settings", "set_printoptions"),
    ("accelerator", HERE, "accelerator", "current_device_idx current_device_index device_count is_available "
        "set_device_idx set_device_index synchronize"),
    ("accelerator.memory", HERE, "accelerator", "empty_cache get_memory_info max_memory_allocated "
        "max_memory_reserved memory_allocated memory_reserved memory_stats reset_peak_memory_stats"),
    ("ao", FOLDER, "`torch.ao`: names of quantization.", ""),
    ("ao.nn", FOLDER, "`torch.ao.nn`: quantized modules are not part of this package.", ""),
    ("ao.quantization", ABSENT, "models are not quantized here",
        "QConfig ObserverBase MinMaxObserver HistogramObserver MovingAverageMinMaxObserver FakeQuantize "
        "FakeQuantizeBase"),
    ("ao.quantization.fake_quantize", HERE, "ao.quantization", "FakeQuantize FakeQuantizeBase"),
    ("ao.quantization.observer", HERE, "ao.quantization", "HistogramObserver MinMaxObserver "
        "MovingAverageMinMaxObserver ObserverBase"),
    ("ao.quantization.qconfig", HERE, "ao.quantization", "QConfig"),
    ("ao.quantization.stubs", HERE, "ao.quantization", "DeQuantStub QuantStub QuantWrapper"),
    ("autograd.forward_ad", ABSENT, "dual tensors are not made here. Use torch.func.jvp, which returns a value and "
        "its derivative", "make_dual()"),
    ("autograd.grad_mode", HERE, "autograd", "set_multithreading_enabled"),
    ("autograd.profiler_util", HERE, "autograd.profiler", "EventList FunctionEvent"),
    ("backends.cuda", HERE, "backends.cuda", "cudnn_sdp_enabled enable_cudnn_sdp enable_flash_sdp enable_math_sdp "
        "enable_mem_efficient_sdp flash_sdp_enabled is_built math_sdp_enabled mem_efficient_sdp_enabled"),
    ("backends.mkl", HERE, "backends.mkl", "is_available"),
    ("backends.mps", HERE, "backends.mps", "is_available is_built"),
    ("backends.nnpack", HERE, "backends.nnpack", "is_available"),
    ("backends.openmp", HERE, "backends.openmp", "is_available"),
    ("compiler", HERE, "compiler", "allow_in_graph assume_constant_result compile disable is_compiling "
        "is_dynamo_compiling is_exporting list_backends nonstrict_trace reset set_stance"),
    ("cpu.amp.autocast_mode", HERE, "cpu.amp", "autocast"),
    ("cpu.amp.grad_scaler", HERE, "cpu.amp", "GradScaler"),
    ("cuda", HERE, "cuda", "can_device_access_peer clock_rate cudart current_blas_handle current_device "
        "current_stream default_stream device_count device_memory_used get_device_capability get_device_name "
        "get_device_properties get_stream_from_external get_sync_debug_mode init ipc_collect is_available "
        "is_initialized memory_usage power_draw set_device set_sync_debug_mode synchronize temperature utilization"),
    ("cuda.amp.autocast_mode", HERE, "cuda.amp", "autocast custom_bwd custom_fwd"),
    ("cuda.amp.grad_scaler", HERE, "cuda.amp", "GradScaler"),
    ("cuda.comm", ALIAS, "nn.parallel.comm", "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced "
        "scatter"),
    ("cuda.graphs", HERE, "cuda", "CUDAGraph graph graph_pool_handle is_current_stream_capturing "
        "make_graphed_callables"),
    ("cuda.memory", HERE, "cuda", "MemPool caching_allocator_alloc caching_allocator_delete empty_cache "
        "max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot "
        "memory_stats memory_summary reset_accumulated_memory_stats reset_max_memory_allocated "
        "reset_max_memory_cached reset_peak_memory_stats set_per_process_memory_fraction use_mem_pool"),
    ("cuda.nvtx", HERE, "cuda.nvtx", "mark range_end range_pop range_push range_start"),
    ("cuda.random", HERE, "cuda", "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed "
        "seed_all set_rng_state set_rng_state_all"),
    ("cuda.streams", HERE, "cuda", "Event ExternalStream Stream"),
    ("distributed", HERE, "distributed._breakpoint", "*"),
    ("distributed._composable.fsdp", ALIAS, "distributed.fsdp",
        "CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy UnshardHandle fully_shard "
        "register_fsdp_forward_method"),
    ("distributed._local_tensor", ABSENT, "one process has the tensors of one rank",
        "LocalIntNode LocalTensor LocalTensorMode"),
    ("distributed._local_tensor._c10d", ABSENT, "one process has the tensors of one rank",
        "_prepare_collective_groups()"),
    ("distributed._mesh_layout", ALIAS, "_C", "_FlatLayout _MeshLayout"),
    ("distributed._shard", FOLDER, "Tensors of which each rank has some boxes, for checkpoints of older programs. "
        "`torch.distributed.tensor` has sharded tensors that compute.", ""),
    ("distributed._shard.sharded_tensor.api", HERE, "distributed._shard.sharded_tensor", "ShardedTensor"),
    ("distributed._shard.sharded_tensor.shard", HERE, "distributed._shard.sharded_tensor", "Shard"),
    ("distributed._shard.sharding_spec.api", HERE, "distributed._shard.sharding_spec",
        "EnumerableShardingSpec ShardingSpec"),
    ("distributed._shard.sharding_spec.chunk_sharding_spec", HERE, "distributed._shard.sharding_spec",
        "ChunkShardingSpec"),
    ("distributed._sharded_tensor", ALIAS, "distributed._shard.sharded_tensor",
        "Shard ShardedTensor ShardedTensorMetadata ShardMetadata TensorProperties empty full "
        "init_from_local_shards ones pre_load_state_dict_hook rand randn state_dict_hook zeros"),
    ("distributed._sharding_spec", ALIAS, "distributed._shard.sharding_spec",
        "ChunkShardingSpec EnumerableShardingSpec ShardingSpec ShardMetadata"),
    ("distributed._symmetric_memory", ABSENT, "ranks have no memory in common",
        "empty() enable_symm_mem_for_group() get_symm_mem_workspace() rendezvous()"),
    ("distributed._tensor", ALIAS, "distributed.tensor", "DeviceMesh DTensor Partial Placement Replicate Shard "
        "distribute_module distribute_tensor empty full init_device_mesh linspace logspace ones rand randn zeros"),
    ("distributed._tensor._utils", ALIAS, "distributed.tensor._utils",
        "compute_global_tensor_info compute_local_shape_and_global_offset"),
    ("distributed._tensor.api", ALIAS, "distributed.tensor",
        "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor empty full linspace "
        "logspace ones rand randn zeros"),
    ("distributed._tensor.device_mesh", ALIAS, "distributed.device_mesh", "*"),
    ("distributed._tensor.experimental", ALIAS, "distributed.tensor.experimental", "*"),
    ("distributed._tensor.placement_types", ALIAS, "distributed.tensor._dtensor_spec", "DTensorSpec TensorMeta"),
    ("distributed._tensor.placement_types", ALIAS, "distributed.tensor.placement_types",
        "Partial Placement Replicate Shard"),
    ("distributed._tools", ABSENT, "use MemTracker", "MemoryTracker"),
    ("distributed._tools", ABSENT, "use MemTracker, which counts parts too", "FSDPMemTracker"),
    ("distributed._tools", ABSENT, "use torch.tpu.plan or python -m pytpu.advise, which estimate time and memory "
        "of a step", "RuntimeEstimator SACEstimator SACStats"),
    ("distributed.algorithms._checkpoint", FOLDER, "`torch.distributed.algorithms._checkpoint`: wrappers of "
        "activation checkpointing.", ""),
    ("distributed.algorithms.ddp_comm_hooks.ddp_zero_hook", ABSENT, "it is not implemented yet",
        "hook_with_zero_step hook_with_zero_step_interleaved"),
    ("distributed.algorithms.model_averaging", FOLDER, "Averages of parameters over ranks, for training that "
        "communicates rarely.", ""),
    ("distributed.checkpoint.quantized_hf_storage", ABSENT, "quantized tensors are not implemented",
        "QuantizedHuggingFaceStorageReader"),
    ("distributed.distributed_c10d", HERE, "distributed", "PrefixStore Store Work"),
    ("distributed.distributed_c10d", HERE, "distributed._backend", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._collectives", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._debug", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._groups", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._messages", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._methods", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._objects", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._options", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._process_group", "*"),
    ("distributed.distributed_c10d", HERE, "distributed._reduce_op", "*"),
    ("distributed.distributed_c10d", ABSENT, "NCCL is not part of this package",
        "ProcessGroupNCCL ProcessGroupNCCL2 ProcessGroupNCCLLazy"),
    ("distributed.elastic", FOLDER, "`torch.distributed.elastic`: start the processes of a job, watch them, and "
        "start them again after a failure.", ""),
    ("distributed.elastic.agent", FOLDER, "The agent of a node.", ""),
    ("distributed.elastic.events", ABSENT, "a rendezvous writes log messages and no events",
        "NodeState RdzvEvent construct_and_record_rdzv_event() record_rdzv_event()"),
    ("distributed.elastic.events.api", HERE, "distributed.elastic.events", "Event EventSource"),
    ("distributed.elastic.events.handlers", HERE, "distributed.elastic.events", "get_logging_handler"),
    ("distributed.elastic.metrics", ABSENT, "use configure, put_metric and prof",
        "MetricsConfig getStream() profile() publish_metric()"),
    ("distributed.elastic.metrics.api", HERE, "distributed.elastic.metrics",
        "ConsoleMetricHandler MetricData MetricHandler NullMetricHandler configure prof put_metric"),
    ("distributed.elastic.multiprocessing.api", HERE, "distributed.elastic.multiprocessing._logs", "*"),
    ("distributed.elastic.multiprocessing.errors.error_handler", HERE, "distributed.elastic.multiprocessing.errors",
        "ErrorHandler"),
    ("distributed.elastic.multiprocessing.errors.handlers", HERE, "distributed.elastic.multiprocessing.errors",
        "get_error_handler"),
    ("distributed.elastic.multiprocessing.subprocess_handler.handlers", HERE,
        "distributed.elastic.multiprocessing.subprocess_handler", "get_subprocess_handler"),
    ("distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler", HERE,
        "distributed.elastic.multiprocessing.subprocess_handler", "SubprocessHandler"),
    ("distributed.elastic.rendezvous.static_tcp_rendezvous", HERE, "distributed.elastic.rendezvous.static",
        "create_rdzv_handler"),
    ("distributed.elastic.timer", ABSENT, "use LocalTimerServer or FileTimerServer", "TimerServer RequestQueue"),
    ("distributed.elastic.timer.api", HERE, "distributed.elastic.timer",
        "TimerClient TimerRequest configure expires"),
    ("distributed.elastic.timer.file_based_local_timer", HERE, "distributed.elastic.timer",
        "FileTimerClient FileTimerRequest FileTimerServer"),
    ("distributed.elastic.timer.local_timer", HERE, "distributed.elastic.timer", "LocalTimerClient LocalTimerServer"),
    ("distributed.fsdp._fully_shard", ALIAS, "distributed.fsdp._module",
        "FSDPModule UnshardHandle fully_shard register_fsdp_forward_method share_comm_ctx"),
    ("distributed.fsdp._fully_shard", ALIAS, "distributed.fsdp._policies",
        "CPUOffloadPolicy DataParallelMeshDims MixedPrecisionPolicy OffloadPolicy"),
    ("distributed.fsdp._fully_shard._fsdp_common", ALIAS, "distributed.fsdp._mesh",
        "DataParallelMeshInfo FSDPMeshInfo HSDPMeshInfo ShardPlacementResult"),
    ("distributed.fsdp._fully_shard._fsdp_init", ALIAS, "distributed.fsdp._managed",
        "_get_managed_modules _get_managed_states"),
    ("distributed.fsdp._fully_shard._fsdp_init", ALIAS, "distributed.fsdp._mesh", "_get_mesh_info"),
    ("distributed.fsdp._fully_shard._fsdp_param", ALIAS, "distributed.fsdp._managed", "ParamModuleInfo"),
    ("distributed.fsdp._fully_shard._fsdp_param_group", ALIAS, "distributed.fsdp._group",
        "FSDPParamGroup=ParameterGroup RegisterPostBackwardFunction=_Use"),
    ("distributed.fsdp._fully_shard._fsdp_param_group", ALIAS, "distributed.fsdp._managed",
        "_get_param_module_infos"),
    ("distributed.fsdp._fully_shard._fully_shard", ALIAS, "distributed.fsdp._module",
        "FSDPModule UnshardHandle fully_shard register_fsdp_forward_method"),
    ("distributed.optim", ABSENT, "RPC is not implemented", "DistributedOptimizer"),
    ("distributed.pipelining._utils", ALIAS, "distributed.pipelining._IR", "PipeInfo"),
    ("distributed.pipelining._utils", ALIAS, "distributed.pipelining._shapes",
        "PipeliningMetadataError generate_stage_to_rank_mapping=_ranks_of_stages "
        "generate_rank_to_stage_mapping=_stages_of_ranks"),
    ("distributed.pipelining.schedules", HERE, "distributed.pipelining._actions", "*"),
    ("distributed.pipelining.schedules", HERE, "distributed.pipelining._execution", "*"),
    ("distributed.pipelining.schedules", HERE, "distributed.pipelining._liveness", "*"),
    ("distributed.pipelining.schedules", HERE, "distributed.pipelining._lowering", "*"),
    ("distributed.pipelining.schedules", HERE, "distributed.pipelining._simulation", "*"),
    ("distributed.pipelining.schedules", HERE, "distributed.pipelining._step", "*"),
    ("distributed.rpc", ABSENT, "it is not implemented yet", "remote()"),
    ("distributed.tensor._api", ABSENT, "use DTensor.from_local", "_FromTorchTensor"),
    ("distributed.tensor._api", ABSENT, "use DTensor.to_local", "_ToTorchTensor"),
    ("distributed.tensor._ops", FOLDER, "`torch.distributed.tensor._ops`: a name of the package that `_view_ops` "
        "is in.", ""),
    ("distributed.tensor._ops._view_ops", ABSENT, "placements of views follow from the axes of ops here, not from "
        "this table", "InputDim Split infer_size() view_groups()"),
    ("distributed.tensor._ops.utils", ABSENT, "placements follow from the axes of ops here, not from a table of "
        "strategies", "register_op_strategy()"),
    ("distributed.tensor._utils", ABSENT, "ops redistribute sharded tensors by themselves, and this cannot be "
        "forbidden", "ExplicitRedistributionContext"),
    ("distributed.tensor.device_mesh", ALIAS, "distributed.device_mesh",
        "DeviceMesh _mesh_resources init_device_mesh"),
    ("distributed.tensor.experimental", ABSENT, "placements are derived from the axes of ops", "register_sharding()"),
    ("distributed.tensor.experimental._attention", ABSENT, "it balances masks of flex_attention",
        "_PTRRLoadBalancer()"),
    ("distributed.tensor.placement_types", HERE, "distributed.tensor", "Partial Placement Replicate Shard"),
    ("func", HERE, "_transforms", "*"),
    ("functional", HERE, "_functions.products", "cdist chain_matmul einsum lu norm tensordot"),
    ("functional", HERE, "_functions.search", "unique unique_consecutive"),
    ("functional", HERE, "_functions.shapes", "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes "
        "broadcast_tensors cartesian_prod meshgrid split unravel_index"),
    ("fx.experimental", FOLDER, "`torch.fx.experimental`: passes and tracers that PyTorch may change.", ""),
    ("fx.experimental.symbolic_shapes", ABSENT, "sizes are plain numbers here, no symbols", "ShapeEnv"),
    ("fx.passes.dialect", FOLDER, "`torch.fx.passes.dialect`: passes of one kind of graphs.", ""),
    ("fx.passes.dialect.common", FOLDER, "`torch.fx.passes.dialect.common`: passes of all graphs of operators.",
        ""),
    ("jit", HERE, "futures", "Future"),
    ("jit", HERE, "jit", "enable_onednn_fusion script_if_tracing"),
    ("jit._async", HERE, "jit", "fork wait"),
    ("jit._freeze", HERE, "jit", "freeze optimize_for_inference"),
    ("jit._fuser", HERE, "jit", "fuser optimized_execution set_fusion_strategy"),
    ("jit._script", HERE, "jit", "Attribute interface script"),
    ("jit._script", HERE, "jit._modules", "*"),
    ("jit._serialization", HERE, "jit", "load save"),
    ("jit._serialization", HERE, "jit._files", "*"),
    ("jit._trace", HERE, "jit", "TracerWarning is_tracing"),
    ("library", HERE, "library", "impl_abstract"),
    ("masked._ops", HERE, "masked", "amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean "
        "median norm normalize prod softmax softmin std sum var"),
    ("mps", HERE, "mps", "device_count is_available manual_seed"),
    ("mps.event", HERE, "mps", "Event"),
    ("mps.streams", HERE, "mps", "Stream current_stream default_stream set_stream stream"),
    ("multiprocessing.spawn", HERE, "multiprocessing", "ProcessContext ProcessException ProcessExitedException "
        "ProcessRaisedException SpawnContext spawn start_processes"),
    ("nn._functional", FOLDER, "The functions behind the modules, by kind. `pytpu.nn.functional` has them all.", ""),
    ("nn.attention", ABSENT, "there are no other implementations of flash attention",
        "activate_flash_attention_impl()"),
    ("nn.attention.varlen", ABSENT, "it is not implemented yet. Use `flex_attention` with a mask of documents",
        "AuxRequest varlen_attn()"),
    ("nn.functional", HERE, "nn._functional.activation", "*"),
    ("nn.functional", HERE, "nn._functional.adaptive_pooling", "*"),
    ("nn.functional", HERE, "nn._functional.attention", "*"),
    ("nn.functional", HERE, "nn._functional.dropout", "*"),
    ("nn.functional", HERE, "nn._functional.embedding", "*"),
    ("nn.functional", HERE, "nn._functional.grouped", "*"),
    ("nn.functional", HERE, "nn._functional.loss", "*"),
    ("nn.functional", HERE, "nn._functional.normalization", "*"),
    ("nn.functional", HERE, "nn._functional.pooling", "*"),
    ("nn.functional", HERE, "nn._functional.scaled", "*"),
    ("nn.functional", HERE, "nn._functional.unpooling", "*"),
    ("nn.functional", HERE, "nn._functional.vision", "*"),
    ("nn.functional", ABSENT, "products of scaled 8-bit floats are not there. Use bfloat16",
        "scaled_grouped_mm() scaled_mm()"),
    ("nn.modules.channelshuffle", HERE, "nn.modules.shape", "ChannelShuffle"),
    ("nn.modules.distance", HERE, "nn.modules.shape", "CosineSimilarity PairwiseDistance"),
    ("nn.modules.flatten", HERE, "nn.modules.shape", "Flatten Unflatten"),
    ("nn.modules.fold", HERE, "nn.modules.shape", "Fold Unfold"),
    ("nn.modules.instancenorm", HERE, "nn.modules.batchnorm",
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d"),
    ("nn.modules.linear_cross_entropy_options", HERE, "nn.modules.loss", "LinearCrossEntropyOptions"),
    ("nn.modules.module", HERE, "nn.modules._module_hooks", "*"),
    ("nn.modules.module", HERE, "nn.modules._module_hooks", "_WrappedHook"),
    ("nn.modules.module", HERE, "nn.modules._module_moves", "*"),
    ("nn.modules.module", HERE, "nn.modules._module_state", "*"),
    ("nn.modules.module", HERE, "nn.modules._module_state", "_IncompatibleKeys"),
    ("nn.modules.pixelshuffle", HERE, "nn.modules.shape", "PixelShuffle PixelUnshuffle"),
    ("nn.modules.upsampling", HERE, "nn.modules.shape", "Upsample UpsamplingBilinear2d UpsamplingNearest2d"),
    ("nn.parallel.distributed", ABSENT, "buckets are given by bucket_cap_mb alone", "_BucketCapacityConfig"),
    ("nn.parallel.distributed", ABSENT, "use torch.autocast", "_MixedPrecision"),
    ("nn.parallel.parallel_apply", HERE, "nn.parallel.scatter_gather", "parallel_apply"),
    ("nn.parallel.replicate", HERE, "nn.parallel.scatter_gather", "replicate"),
    ("nn.utils._per_sample_grad", ABSENT, "gradients of each sample are not computed in one pass here. Call "
        "torch.func.grad for each sample, or use opacus with grad_sample_mode=\"hooks\"",
        "call_for_per_sample_grads()"),
    ("nn.utils.init", HERE, "nn.utils", "skip_init"),
    ("nn.utils.parametrizations", HERE, "nn.utils.orthogonal", "_Orthogonal orthogonal"),
    ("onnx._internal.torchscript_exporter.utils", HERE, "onnx",
        "register_custom_op_symbolic unregister_custom_op_symbolic"),
    ("optim._lr_scheduler", FOLDER, "The schedules of `lr_scheduler`, which publishes them.", ""),
    ("optim.adadelta", HERE, "optim.variants", "Adadelta"),
    ("optim.adagrad", HERE, "optim.rmsprop", "Adagrad"),
    ("optim.adamax", HERE, "optim.variants", "Adamax"),
    ("optim.adamw", HERE, "optim.adam", "AdamW"),
    ("optim.asgd", HERE, "optim.variants", "ASGD"),
    ("optim.lr_scheduler", HERE, "optim._lr_scheduler.base", "*"),
    ("optim.lr_scheduler", HERE, "optim._lr_scheduler.combined", "*"),
    ("optim.lr_scheduler", HERE, "optim._lr_scheduler.cycles", "*"),
    ("optim.lr_scheduler", HERE, "optim._lr_scheduler.forms", "*"),
    ("optim.nadam", HERE, "optim.variants", "NAdam"),
    ("optim.radam", HERE, "optim.variants", "RAdam"),
    ("optim.rprop", HERE, "optim.variants", "Rprop"),
    ("profiler.profiler", HERE, "profiler", "ProfilerAction profile schedule supported_activities "
        "tensorboard_trace_handler"),
    ("quantization", ALIAS, "ao.quantization", "*"),
    ("serialization", HERE, "_file_globals", "StorageType"),
    ("serialization", HERE, "_file_places", "default_restore_location location_tag register_package"),
    ("signal.windows.windows", HERE, "signal.windows", "bartlett blackman cosine exponential gaussian "
        "general_cosine general_hamming hamming hann kaiser nuttall"),
    ("sparse._triton_ops_meta", ABSENT, "there are no kernels in Triton here",
        "get_meta() minimize() update() dump()"),
    ("sparse.semi_structured", ALIAS, "sparse", "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT "
        "SparseSemiStructuredTensorCUTLASS"),
    ("testing._comparison", HERE, "testing", "assert_allclose assert_close"),
    ("testing._creation", HERE, "testing", "make_tensor"),
    ("utils.benchmark.utils.common", HERE, "utils.benchmark",
        "Measurement TaskSpec ordered_unique select_unit set_torch_threads trim_sigfig unit_to_english"),
    ("utils.benchmark.utils.compare", HERE, "utils.benchmark", "Compare"),
    ("utils.benchmark.utils.timer", HERE, "utils.benchmark", "Language Timer timer"),
    ("utils.data._utils.collate", HERE, "utils.data.collate", "*"),
    ("utils.data._utils.worker", HERE, "utils.data.worker", "*"),
    ("utils.data.dataloader", HERE, "utils.data.iteration", "*"),
    ("utils.data.datapipes", FOLDER, "`torch.utils.data.datapipes`: base classes of data pipes. Other pipes are in "
        "the package `torchdata`.", ""),
    ("utils.data.datapipes.iter", FOLDER, "`torch.utils.data.datapipes.iter`: a name of the package that "
        "`combinatorics` is in.", ""),
    ("utils.data.distributed", HERE, "utils.data.sampler", "DistributedSampler"),
    ("xpu", HERE, "xpu", "can_device_access_peer clock_rate current_device current_stream device_count "
        "device_memory_used get_device_capability get_device_name get_device_properties get_stream_from_external "
        "init is_available is_initialized memory_usage power_draw set_device set_stream synchronize temperature "
        "utilization"),
    ("xpu.graphs", HERE, "xpu", "XPUGraph graph graph_pool_handle is_current_stream_capturing "
        "make_graphed_callables"),
    ("xpu.memory", HERE, "xpu", "MemPool XPUPluggableAllocator change_current_allocator empty_cache "
        "get_per_process_memory_fraction list_gpu_processes max_memory_allocated max_memory_reserved mem_get_info "
        "memory_allocated memory_reserved memory_snapshot memory_stats memory_stats_as_nested_dict "
        "reset_accumulated_memory_stats reset_peak_memory_stats set_per_process_memory_fraction use_mem_pool"),
    ("xpu.random", HERE, "xpu", "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed "
        "seed_all set_rng_state set_rng_state_all"),
    ("xpu.streams", HERE, "xpu", "Event Stream"),
)
# fmt: on

# Modules that `torch.x` imports at the first use.
MODULES = frozenset(
    """
    _VF __config__ __future__ _custom_ops _dynamo _guards _higher_order_ops _inductor _jit_internal _library
    _linalg_utils _logging _ops _prims_common _subclasses _tensor_str _utils accelerator amp ao autograd
    backends classes compiler cpu cuda distributed distributions export fft func functional futures fx hub jit
    library linalg masked mps multiprocessing nn onnx ops optim overrides profiler quantization quasirandom
    safetensors serialization signal sparse special storage testing torch_version tpu types utils version xpu
    """.split()
)

# By module of this package: the module that all its names are reported in, or names by the module that they are
# reported in.
FILES, NAMES = {}, {}
# By module of PyTorch: the module of this package that has its names, rows of other names, and texts of packages.
SOURCES, ROWS_OF, FOLDERS = {}, {}, {}
# Names of `torch` itself, and the modules that have them.
LAZY = {}


def _sort():
    """Fill the dictionaries from the rows. A row for all names of a file wins over rows for some of its names."""
    for home, kind, place, names in ROWS:
        if kind == FOLDER:
            FOLDERS[home] = place
        elif kind == HERE and names == "*":
            FILES[place] = home
            if home:
                SOURCES[home] = place
        elif kind == HERE:
            NAMES.setdefault(place, {})[home] = names
            if home:
                SOURCES.setdefault(home, place)
        elif names == "*":
            SOURCES[home] = place
        elif home:
            ROWS_OF.setdefault(home, []).append((kind, place, names))
        if not home and names != "*":
            LAZY.update(dict.fromkeys(names.split(), place))


_sort()
