"""PyTorch's modules for names that are in other modules here.

Pickles, ``inspect`` and libraries name a class by its module. `_as_torch` reads these tables after it has run a module.
A module without a file here is made: it has the names of the module beside it in the table.
"""

# Files whose names are all reported as names of one other module.
FILES = {
    "_checks": "",
    "_compiled": "_dynamo.eval_frame",
    "_memory": "",
    "_rare": "",
    "_removed": "_linalg_utils",
    "_streams": "",
    "_transforms": "func",
    "distributed.elastic.multiprocessing._logs": "distributed.elastic.multiprocessing.api",
    "_functions.creation": "",
    "_functions.predicates": "",
    "_functions.products": "",
    "_functions.search": "",
    "_functions.settings": "",
    "_functions.shapes": "",
    "_functions.symbolic": "",
    "distributed._backend": "distributed.distributed_c10d",
    "distributed._breakpoint": "distributed",
    "distributed._collectives": "distributed.distributed_c10d",
    "distributed._debug": "distributed.distributed_c10d",
    "distributed._grad_bucket": "_C._distributed_c10d",
    "distributed._groups": "distributed.distributed_c10d",
    "distributed._made_groups": "_C._distributed_c10d",
    "distributed._messages": "distributed.distributed_c10d",
    "distributed._methods": "distributed.distributed_c10d",
    "distributed._objects": "distributed.distributed_c10d",
    "distributed._options": "distributed.distributed_c10d",
    "distributed._process_group": "distributed.distributed_c10d",
    "distributed._reduce_op": "distributed.distributed_c10d",
    "distributed._reducer": "_C._distributed_c10d",
    "distributed.pipelining._actions": "distributed.pipelining.schedules",
    "distributed.pipelining._execution": "distributed.pipelining.schedules",
    "distributed.pipelining._liveness": "distributed.pipelining.schedules",
    "distributed.pipelining._lowering": "distributed.pipelining.schedules",
    "distributed.pipelining._simulation": "distributed.pipelining.schedules",
    "distributed.pipelining._step": "distributed.pipelining.schedules",
    "export._verifier": "_export.verifier",
    "functions": "",
    "jit._files": "jit._serialization",
    "jit._modules": "jit._script",
    "nn._functional.activation": "nn.functional",
    "nn._functional.adaptive_pooling": "nn.functional",
    "nn._functional.attention": "nn.functional",
    "nn._functional.dropout": "nn.functional",
    "nn._functional.embedding": "nn.functional",
    "nn._functional.grouped": "nn.functional",
    "nn._functional.loss": "nn.functional",
    "nn._functional.normalization": "nn.functional",
    "nn._functional.pooling": "nn.functional",
    "nn._functional.scaled": "nn.functional",
    "nn._functional.unpooling": "nn.functional",
    "nn._functional.vision": "nn.functional",
    "optim._lr_scheduler.base": "optim.lr_scheduler",
    "optim._lr_scheduler.combined": "optim.lr_scheduler",
    "optim._lr_scheduler.cycles": "optim.lr_scheduler",
    "optim._lr_scheduler.forms": "optim.lr_scheduler",
    "utils.data.collate": "utils.data._utils.collate",
    "utils.data.iteration": "utils.data.dataloader",
    "utils.data.worker": "utils.data._utils.worker",
}

# Names of a file, by the module that they are reported in. A function under several names becomes several.
NAMES = {
    "_file_globals": {"serialization": "StorageType"},
    "_file_places": {"serialization": "default_restore_location location_tag register_package"},
    "_checks": {"": "_assert"},
    "_functions.products": {"functional": "cdist chain_matmul einsum lu norm tensordot"},
    "_functions.search": {"functional": "unique unique_consecutive"},
    "_functions.settings": {"_tensor_str": "set_printoptions"},
    "_functions.shapes": {
        "functional": (
            "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod meshgrid "
            "split unravel_index"
        ),
    },
    "accelerator": {
        "accelerator": (
            "current_device_idx current_device_index device_count is_available set_device_idx set_device_index "
            "synchronize"
        ),
        "accelerator.memory": (
            "empty_cache get_memory_info max_memory_allocated max_memory_reserved memory_allocated memory_reserved "
            "memory_stats reset_peak_memory_stats"
        ),
    },
    "amp.autocast_mode": {
        "": (
            "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled "
            "is_autocast_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype "
            "set_autocast_enabled"
        ),
    },
    "ao.quantization": {
        "ao.quantization.fake_quantize": "FakeQuantize FakeQuantizeBase",
        "ao.quantization.observer": "HistogramObserver MinMaxObserver MovingAverageMinMaxObserver ObserverBase",
        "ao.quantization.qconfig": "QConfig",
        "ao.quantization.stubs": "DeQuantStub QuantStub QuantWrapper",
    },
    "autograd": {"autograd.grad_mode": "set_multithreading_enabled"},
    "autograd.profiler": {"autograd.profiler_util": "EventList FunctionEvent"},
    "backends.cuda": {
        "backends.cuda": "cudnn_sdp_enabled enable_cudnn_sdp enable_flash_sdp enable_math_sdp enable_mem_efficient_sdp "
        "flash_sdp_enabled is_built math_sdp_enabled mem_efficient_sdp_enabled",
    },
    "backends.mkl": {"backends.mkl": "is_available"},
    "backends.mps": {"backends.mps": "is_available is_built"},
    "backends.nnpack": {"backends.nnpack": "is_available"},
    "backends.openmp": {"backends.openmp": "is_available"},
    "compiler": {
        "compiler": (
            "allow_in_graph assume_constant_result compile disable is_compiling is_dynamo_compiling is_exporting "
            "list_backends nonstrict_trace reset set_stance"
        ),
    },
    "cpu.amp": {"cpu.amp.autocast_mode": "autocast", "cpu.amp.grad_scaler": "GradScaler"},
    "mps": {
        "mps": "device_count is_available manual_seed",
        "mps.event": "Event",
        "mps.streams": "Stream current_stream default_stream set_stream stream",
    },
    "xpu": {
        "xpu": (
            "can_device_access_peer clock_rate current_device current_stream device_count device_memory_used "
            "get_device_capability get_device_name get_device_properties get_stream_from_external init is_available "
            "is_initialized memory_usage power_draw "
            "set_device set_stream synchronize temperature utilization"
        ),
        "xpu.graphs": "XPUGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables",
        "xpu.memory": (
            "MemPool XPUPluggableAllocator change_current_allocator empty_cache get_per_process_memory_fraction "
            "list_gpu_processes max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_reserved "
            "memory_snapshot memory_stats memory_stats_as_nested_dict reset_accumulated_memory_stats "
            "reset_peak_memory_stats set_per_process_memory_fraction use_mem_pool"
        ),
        "xpu.random": (
            "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
            "set_rng_state_all"
        ),
        "xpu.streams": "Event Stream",
    },
    "cuda": {
        "cuda": (
            "can_device_access_peer clock_rate cudart current_blas_handle current_device current_stream "
            "default_stream device_count device_memory_used get_device_capability get_device_name "
            "get_device_properties get_stream_from_external get_sync_debug_mode init ipc_collect is_available "
            "is_initialized memory_usage power_draw set_device set_sync_debug_mode synchronize temperature utilization"
        ),
        "cuda.graphs": "CUDAGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables",
        "cuda.memory": (
            "MemPool caching_allocator_alloc caching_allocator_delete empty_cache max_memory_allocated "
            "max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot memory_stats "
            "memory_summary reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached "
            "reset_peak_memory_stats set_per_process_memory_fraction use_mem_pool"
        ),
        "cuda.random": (
            "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
            "set_rng_state_all"
        ),
        "cuda.streams": "Event ExternalStream Stream",
    },
    "cuda.amp": {"cuda.amp.autocast_mode": "autocast custom_bwd custom_fwd", "cuda.amp.grad_scaler": "GradScaler"},
    "cuda.nvtx": {"cuda.nvtx": "mark range_end range_pop range_push range_start"},
    "_dynamo": {
        "_dynamo": "reset",
        "_dynamo.backends.registry": "list_backends",
        "_dynamo.external_utils": "is_compiling",
        "_dynamo.decorators": "allow_in_graph assume_constant_result disable disallow_in_graph nonstrict_trace "
        "graph_break mark_dynamic mark_static mark_static_address maybe_mark_dynamic",
        "_dynamo.eval_frame": "optimize",
    },
    "distributed": {
        "_C._distributed_c10d": "FileStore HashStore TCPStore",
        "distributed.distributed_c10d": "PrefixStore Store Work",
    },
    "distributed._shard.sharded_tensor": {
        "distributed._shard.sharded_tensor.api": "ShardedTensor",
        "distributed._shard.sharded_tensor.shard": "Shard",
    },
    "distributed._shard.sharding_spec": {
        "distributed._shard.sharding_spec.api": "EnumerableShardingSpec ShardingSpec",
        "distributed._shard.sharding_spec.chunk_sharding_spec": "ChunkShardingSpec",
    },
    "distributed.elastic.multiprocessing.errors": {
        "distributed.elastic.multiprocessing.errors.error_handler": "ErrorHandler",
        "distributed.elastic.multiprocessing.errors.handlers": "get_error_handler",
    },
    "distributed.elastic.events": {
        "distributed.elastic.events.api": "Event EventSource",
        "distributed.elastic.events.handlers": "get_logging_handler",
    },
    "distributed.elastic.metrics": {
        "distributed.elastic.metrics.api": (
            "ConsoleMetricHandler MetricData MetricHandler NullMetricHandler configure prof put_metric"
        ),
    },
    "distributed.elastic.rendezvous.static": {
        "distributed.elastic.rendezvous.static_tcp_rendezvous": "create_rdzv_handler",
    },
    "distributed.elastic.timer": {
        "distributed.elastic.timer.api": "TimerClient TimerRequest configure expires",
        "distributed.elastic.timer.file_based_local_timer": "FileTimerClient FileTimerRequest FileTimerServer",
        "distributed.elastic.timer.local_timer": "LocalTimerClient LocalTimerServer",
    },
    "distributed.elastic.multiprocessing.subprocess_handler": {
        "distributed.elastic.multiprocessing.subprocess_handler.handlers": "get_subprocess_handler",
        "distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler": "SubprocessHandler",
    },
    "distributed.tensor": {"distributed.tensor.placement_types": "Partial Placement Replicate Shard"},
    "futures": {"jit": "Future"},
    "jit": {
        "_jit_internal": "export ignore is_scripting unused",
        "jit": "enable_onednn_fusion script_if_tracing",
        "jit._async": "fork wait",
        "jit._freeze": "freeze optimize_for_inference",
        "jit._fuser": "fuser optimized_execution set_fusion_strategy",
        "jit._script": "Attribute interface script",
        "jit._serialization": "load save",
        "jit._trace": "TracerWarning is_tracing",
    },
    "library": {"_library.custom_ops": "CustomOpDef", "library": "impl_abstract"},
    "masked": {
        "masked._ops": (
            "amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median norm normalize prod "
            "softmax softmin std sum var"
        ),
    },
    "multiprocessing": {
        "multiprocessing.spawn": (
            "ProcessContext ProcessException ProcessExitedException ProcessRaisedException SpawnContext spawn "
            "start_processes"
        ),
    },
    "nn.modules.batchnorm": {
        "nn.modules.instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d",
    },
    "nn.modules.loss": {"nn.modules.linear_cross_entropy_options": "LinearCrossEntropyOptions"},
    "nn.modules.shape": {
        "nn.modules.channelshuffle": "ChannelShuffle",
        "nn.modules.distance": "CosineSimilarity PairwiseDistance",
        "nn.modules.flatten": "Flatten Unflatten",
        "nn.modules.fold": "Fold Unfold",
        "nn.modules.pixelshuffle": "PixelShuffle PixelUnshuffle",
        "nn.modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    },
    "nn.parallel.scatter_gather": {
        "nn.parallel.parallel_apply": "parallel_apply",
        "nn.parallel.replicate": "replicate",
    },
    "nn.utils": {"nn.utils.init": "skip_init"},
    "nn.utils.orthogonal": {"nn.utils.parametrizations": "_Orthogonal orthogonal"},
    "onnx": {"onnx._internal.torchscript_exporter.utils": "register_custom_op_symbolic unregister_custom_op_symbolic"},
    "optim.adam": {"optim.adamw": "AdamW"},
    "optim.rmsprop": {"optim.adagrad": "Adagrad"},
    "optim.variants": {
        "optim.adadelta": "Adadelta",
        "optim.adamax": "Adamax",
        "optim.asgd": "ASGD",
        "optim.nadam": "NAdam",
        "optim.radam": "RAdam",
        "optim.rprop": "Rprop",
    },
    "profiler": {
        "_C._profiler": "ProfilerActivity",
        "_C._autograd": "DeviceType kineto_available",
        "profiler.profiler": "ProfilerAction profile schedule supported_activities tensorboard_trace_handler",
    },
    "signal.windows": {
        "signal.windows.windows": (
            "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser nuttall"
        ),
    },
    "testing": {"testing._comparison": "assert_allclose assert_close", "testing._creation": "make_tensor"},
    "utils.benchmark": {
        "utils.benchmark.utils.common": (
            "Measurement TaskSpec ordered_unique select_unit set_torch_threads trim_sigfig unit_to_english"
        ),
        "utils.benchmark.utils.compare": "Compare",
        "utils.benchmark.utils.timer": "Language Timer timer",
    },
    "utils.data.sampler": {"utils.data.distributed": "DistributedSampler"},
}

# Modules without a file, and the modules that have their names.
MADE = {home: source for source, places in NAMES.items() for home in places if home}
MADE |= {home: source for source, home in FILES.items() if home}
# Names of `distributed` and of a file of it are reported there, and `distributed` has both.
MADE["_C._distributed_c10d"] = "distributed._c_names"
# Older names.
MADE["distributed._tensor.device_mesh"] = "distributed.device_mesh"
MADE["distributed._tensor.placement_types"] = "distributed.tensor.placement_types"
