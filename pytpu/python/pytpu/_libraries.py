"""Changes to libraries, made when they are imported.

Some libraries have a fixed list of accelerators: they get device `tpu`. Others have kernels in C++ that need libtorch:
they get kernels of ours.

`_as_torch.FOLLOWERS` names the modules of these libraries, and a function for each. After a module has been imported
under `import torch`, its function is called with it.
"""

import functools
import os
import sys


def prefer_tpu():
    """Let accelerate, and the `Trainer` of transformers with it, use `tpu` if there is an accelerator.

    They look for accelerators of a fixed list, or for this variable.
    """
    import pytpu as torch

    if "ACCELERATE_TORCH_DEVICE" not in os.environ and torch.accelerator.current_accelerator() is not None:
        os.environ["ACCELERATE_TORCH_DEVICE"] = "tpu"


def choose_devices(state):
    """Choose devices for accelerate: see `prefer_tpu`.

    `Accelerator(cpu=True)` and `Trainer(use_cpu=True)` mean `cpu`: in accelerate, the variable takes precedence
    over the argument. Ranks on `tpu` are one job: accelerate makes a process group under a launcher only for devices
    of its list.
    """
    prefer_tpu()
    _let_cpu_be_chosen(state)
    _make_group_on_tpu(state)


def _make_group_on_tpu(state):
    import pytpu as torch

    prepare = state.PartialState._prepare_backend

    @functools.wraps(prepare)
    def _prepare_backend(self, cpu=False, sagemaker_dp=False, backend=None):
        chosen = self.device
        if cpu or chosen is None or chosen.type != "tpu" or int(os.environ.get("LOCAL_RANK", -1)) == -1:
            return prepare(self, cpu, sagemaker_dp, backend)
        self.device = torch.device("tpu", torch.tpu.current_device())
        # For `MULTI_GPU`, accelerate would ask CUDA for random states. It asks nothing of this kind of device.
        kinds = state.DistributedType
        return backend or "cpu:gloo,tpu:xla", getattr(kinds, "MULTI_NEURON", kinds.MULTI_GPU)

    state.PartialState._prepare_backend = _prepare_backend


def _let_cpu_be_chosen(state):
    begin = state.PartialState.__init__

    @functools.wraps(begin)
    def __init__(self, cpu=False, **options):
        hidden = os.environ.pop("ACCELERATE_TORCH_DEVICE", None) if cpu else None
        try:
            begin(self, cpu, **options)
        finally:
            if hidden is not None:
                os.environ["ACCELERATE_TORCH_DEVICE"] = hidden

    state.PartialState.__init__ = __init__


def refuse_float16(imports):
    """Let accelerate say that `tpu` has no mixed precision with `float16`, which its `Accelerator` refuses there."""
    is_available = imports.is_fp16_available

    @functools.wraps(is_available)
    def is_fp16_available():
        return is_available() and not os.environ.get("ACCELERATE_TORCH_DEVICE", "").startswith("tpu")

    imports.is_fp16_available = is_fp16_available


def choose_device(utils):
    """Let mmengine's `Runner` use `tpu` if there is an accelerator. mmengine chooses from a fixed list at import."""
    import pytpu as torch

    if utils.DEVICE == "cpu" and torch.accelerator.current_accelerator() is not None:
        utils.DEVICE = "tpu"


def leave_out_extension(utils):
    """Let torchaudio run without its C++ extension, as it does where the files of the extension are missing.

    It does not catch the error of loading them, and then no library that imports it could be imported. All but a few
    of its functions are written in Python.
    """
    utils._load_lib = lambda lib: False


def give_kernels(extension):
    """Give torchvision kernels of some of its operators: its own are in an extension that cannot be loaded."""
    from ._torchvision_kernels import register

    register()

    def _has_ops():
        # While torchvision is being imported, the answer is no: it would register gradients and rules of autocast for
        # the operators of its extension, which the kernels here have themselves.
        package = sys.modules.get("torchvision")
        return package is not None and not getattr(package.__spec__, "_initializing", False)

    extension._has_ops = _has_ops
    extension._assert_has_ops = lambda: None


def let_ranks_use_tpu(ddp):
    """Let Lightning's strategy `"ddp"` run on `tpu`. With numbers of devices it would make a CUDA stream."""
    strategy = ddp.DDPStrategy
    (name,) = (name for name in vars(strategy) if name.endswith("determine_ddp_device_ids"))
    numbers = getattr(strategy, name)

    @functools.wraps(numbers)
    def determine(self):
        return None if self.root_device.type == "tpu" else numbers(self)

    setattr(strategy, name, determine)


def register_in_trainer(connector):
    """Make `lightning.Trainer(accelerator="tpu")` train on the accelerator of `connector`'s Lightning."""
    _register(connector._AcceleratorConnector, connector.AcceleratorRegistry, connector.Accelerator, connector)


def register_in_fabric(connector):
    """Make `lightning.Fabric(accelerator="tpu")` run on the accelerator."""
    _register(connector._Connector, connector.ACCELERATOR_REGISTRY, connector.Accelerator, connector)


def _register(chooser, registry, base, connector):
    import pytpu as torch

    accelerator = _accelerator(base)
    # Lightning's own accelerator of this name needs torch_xla, and so do the strategy and the precision that it
    # selects.
    registry.register("tpu", accelerator, description="Device tpu of torch", override=True)
    choose, precision = chooser._choose_strategy, chooser._check_and_init_precision

    @functools.wraps(choose)
    def _choose_strategy(self):
        if not isinstance(self.accelerator, accelerator):
            return choose(self)
        if len(self._parallel_devices) > 1:
            return "ddp"
        return connector.SingleDeviceStrategy(device=self._parallel_devices[0])

    check = chooser._check_strategy_and_fallback

    @functools.wraps(check)
    def _check_strategy_and_fallback(self):
        # It allows strategy "fsdp" for CUDA only.
        flag = self._accelerator_flag
        try:
            self._accelerator_flag = "cuda" if flag == "tpu" else flag
            check(self)
        finally:
            self._accelerator_flag = flag

    @functools.wraps(precision)
    def _check_and_init_precision(self):
        # The Trainer and Fabric name these attributes differently.
        said = getattr(self, "_precision_flag", None) or getattr(self, "_precision_input", None)
        given = getattr(self, "_precision_plugin_flag", None) or getattr(self, "_precision_instance", None)
        is_alone = isinstance(self.strategy, connector.SingleDeviceStrategy)
        if (
            isinstance(self.accelerator, accelerator)
            and is_alone
            and given is None
            and said in ("16-mixed", "bf16-mixed")
        ):
            # Lightning would cast on "cuda", as for all devices that it does not know.
            return connector.MixedPrecision(said, "tpu")
        return precision(self)

    chooser._choose_strategy, chooser._check_and_init_precision = _choose_strategy, _check_and_init_precision
    chooser._check_strategy_and_fallback = _check_strategy_and_fallback

    choose_auto = chooser._choose_auto_accelerator

    @functools.wraps(choose_auto)
    def _choose_auto_accelerator():
        # Its list has CUDA, MPS, and the TPU of torch_xla.
        return "tpu" if torch.accelerator.current_accelerator() is not None else choose_auto()

    chooser._choose_auto_accelerator = staticmethod(_choose_auto_accelerator)


def _accelerator(base):
    import pytpu as torch

    class TpuAccelerator(base):
        """Device `tpu` for Lightning."""

        def setup_device(self, device):
            """Choose the device."""
            torch.tpu.set_device(device)

        def get_device_stats(self, device):
            """Return the bytes in use now, and their peak."""
            return torch.tpu.memory_stats(device)

        def teardown(self):
            """Return unused memory to the system."""
            torch.tpu.empty_cache()

        @staticmethod
        def parse_devices(devices):
            """Return the indices for `devices`: a count, -1 for all, or indices."""
            if isinstance(devices, str):
                devices = [int(index) for index in devices.split(",") if index] if "," in devices else int(devices)
            there = list(range(torch.tpu.device_count()))
            if isinstance(devices, int):
                wanted = there if devices == -1 else list(range(devices))
            else:
                wanted = list(devices)
            if not set(wanted) <= set(there):
                raise ValueError(
                    f"You requested tpu: {wanted}\n But your machine only has: {there}\n"
                    "note: if Lightning starts the processes itself, set LOCAL_WORLD_SIZE to their number"
                )
            return wanted

        @staticmethod
        def get_parallel_devices(devices):
            """Return the devices of these indices."""
            return [torch.device("tpu", index) for index in devices]

        @staticmethod
        def auto_device_count():
            """Return the number of devices."""
            return torch.tpu.device_count()

        @staticmethod
        def is_available():
            """Return whether there is a device."""
            return torch.tpu.is_available()

        @staticmethod
        def name():
            """Return the name that `accelerator=` takes."""
            return "tpu"

    return TpuAccelerator
