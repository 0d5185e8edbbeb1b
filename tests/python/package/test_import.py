"""The time and the side effects of `import pytpu`."""

import os
import subprocess
import sys

import pytest


def test_import_takes_less_than_150_ms():
    # Subtract NumPy's import. Take the fastest of several runs, because the machine is shared.
    code = "import numpy, time; t = time.perf_counter(); import pytpu; print(time.perf_counter() - t)"
    times = [float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(5)]
    assert min(times) < 0.150, f"import took {min(times) * 1e3:.0f} ms"


def test_import_does_not_load_the_compiler():
    code = "import pytpu; print('xla_cpu_pjrt' in open('/proc/self/maps').read())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_import_does_not_import_slow_modules():
    import pytpu as torch

    # Without `site`, whose `.pth` files may import any module. The package is then found by its folder only.
    folder = os.path.dirname(os.path.dirname(torch.__file__))
    code = f"import sys; before = set(sys.modules); sys.path.insert(0, {folder!r}); import pytpu; "
    code += "print(*sorted(set(sys.modules) - before))"
    imported = subprocess.check_output([sys.executable, "-S", "-c", code], text=True).split()
    assert "pytpu" in imported
    assert {"enum", "inspect", "numpy", "re", "typing"}.isdisjoint(imported)


@pytest.mark.parametrize("state", ["enable", "disable"])
def test_import_leaves_the_garbage_collector_on_or_off(state):
    code = f"import gc; gc.{state}(); import pytpu; print(gc.isenabled())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == str(state == "enable")


def test_settings_are_kept():
    import pytpu as torch

    assert torch.get_deterministic_debug_mode() == 0
    try:
        torch.set_deterministic_debug_mode("warn")
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(True)
        assert torch.get_deterministic_debug_mode() == 2
        with pytest.raises(RuntimeError, match="expected 0, 1, or 2, but got 3"):
            torch.set_deterministic_debug_mode(3)
    finally:
        torch.set_deterministic_debug_mode(0)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.is_signed(torch.ones(1)) and not torch.is_signed(torch.ones(1, dtype=torch.uint8))


def test_queries_about_other_accelerators():
    import pytpu as torch

    for other in (torch.cuda, torch.xpu, torch.mps):
        assert not other.is_available() and other.device_count() == 0
        other.manual_seed(0)
    torch.cuda.empty_cache()
    torch.xpu.empty_cache()
    with pytest.raises(RuntimeError, match=r"Cannot execute emptyCache\(\) without MPS backend\."):
        torch.mps.empty_cache()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_reserved(0) == 0
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.cuda.synchronize()
    assert torch.version.__version__ == torch.__version__ and torch.version.cuda is None


def test_the_version_is_that_of_the_interface():
    """The version is PyTorch's, followed by `+` and this package's version."""
    import pytpu as torch

    version = torch.__version__
    assert version >= "2.0" and version > (1, 13) and not version < "2.9" and version != "2.15"
    assert int(version.split(".")[0]) == 2 and version.split("+")[1] == f"pytpu.{torch.version.pytpu}"
    made = torch.torch_version.TorchVersion
    assert made("2.0.0a0") < "2.0" == made("2.0") and made("2.1.0.dev20230101") < "2.1" < made("2.1.0+cpu")
    assert made("2.0") < "parrot" and hash(made("2.0")) == hash("2.0")
