"""Settings of the precision of ``float32`` products, and how they depend on one another, as in PyTorch 2.15."""

import subprocess
import sys
import warnings

import pytest

import pytpu as torch

B = torch.backends


pytestmark = pytest.mark.usefixtures("default_precision")


def test_float32_is_multiplied_as_float32_at_first():
    assert torch.get_float32_matmul_precision() == "highest"
    assert not B.cuda.matmul.allow_tf32 and B.cudnn.allow_tf32
    assert (B.fp32_precision, B.cuda.matmul.fp32_precision, B.cudnn.fp32_precision) == ("none", "none", "none")
    assert (B.cudnn.conv.fp32_precision, B.cudnn.rnn.fp32_precision) == ("tf32", "tf32")
    assert [part.fp32_precision for part in (B.mkldnn, B.mkldnn.matmul, B.mkldnn.conv, B.mkldnn.rnn)] == ["none"] * 4


@pytest.mark.parametrize(
    "setting, allowed, cuda, mkldnn",
    [("highest", False, "ieee", "ieee"), ("high", True, "tf32", "tf32"), ("medium", True, "tf32", "bf16")],
)
def test_the_setting_for_products_is_seen_by_backends(setting, allowed, cuda, mkldnn):
    torch.set_float32_matmul_precision(setting)
    assert torch.get_float32_matmul_precision() == setting
    assert B.cuda.matmul.allow_tf32 == allowed
    assert (B.cuda.matmul.fp32_precision, B.mkldnn.matmul.fp32_precision) == (cuda, mkldnn)
    assert (B.fp32_precision, B.cudnn.fp32_precision, B.mkldnn.conv.fp32_precision) == ("none", "none", "none")


def test_an_unknown_setting_warns_and_changes_nothing():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.set_float32_matmul_precision("low")
    assert "low is not one of 'highest', 'high', or 'medium'" in str(caught[0].message)
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(RuntimeError, match="set_float32_matmul_precision expects a str, but got int"):
        torch.set_float32_matmul_precision(3)


def test_allow_tf32_is_the_old_setting():
    B.cuda.matmul.allow_tf32 = True
    assert torch.get_float32_matmul_precision() == "high"
    assert (B.cuda.matmul.fp32_precision, B.mkldnn.matmul.fp32_precision) == ("tf32", "none")
    B.cuda.matmul.allow_tf32 = False
    assert torch.get_float32_matmul_precision() == "highest"
    assert B.cuda.matmul.fp32_precision == "ieee"
    with pytest.raises(RuntimeError, match="set_allow_tf32_cublas expects a bool, but got str"):
        B.cuda.matmul.allow_tf32 = "x"


def test_allow_tf32_of_cudnn_follows_its_parts():
    B.cudnn.allow_tf32 = False
    assert (B.cudnn.conv.fp32_precision, B.cudnn.rnn.fp32_precision) == ("none", "none")
    assert not B.cudnn.allow_tf32
    with B.cudnn.flags(allow_tf32=True):
        assert B.cudnn.allow_tf32 and B.cudnn.conv.fp32_precision == "tf32"
    assert not B.cudnn.allow_tf32


def test_parts_follow_the_whole():
    B.fp32_precision = "ieee"
    assert [p.fp32_precision for p in (B.cuda.matmul, B.cudnn, B.cudnn.conv, B.mkldnn, B.mkldnn.rnn)] == ["ieee"] * 5
    B.fp32_precision = "bf16"
    assert [p.fp32_precision for p in (B.cuda.matmul, B.cudnn, B.mkldnn, B.mkldnn.matmul)] == [
        "none",
        "none",
        "bf16",
        "bf16",
    ]
    B.fp32_precision = "tf32"
    B.cuda.matmul.fp32_precision = "ieee"
    assert (B.cuda.matmul.fp32_precision, B.cudnn.conv.fp32_precision) == ("ieee", "tf32")


def test_old_and_new_settings_that_disagree_are_an_error():
    B.cuda.matmul.fp32_precision = "tf32"
    with pytest.raises(RuntimeError, match="mix of the legacy and new APIs to set the matmul precision"):
        torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="mix of the legacy and new APIs to set the TF32 status for cublas matmul"):
        B.cuda.matmul.allow_tf32
    B.cuda.matmul.allow_tf32 = False
    assert torch.get_float32_matmul_precision() == "highest"
    B.cudnn.conv.fp32_precision = "ieee"
    with pytest.raises(RuntimeError, match="different TF32 flags"):
        B.cudnn.allow_tf32


def test_a_precision_must_be_one_that_the_backend_knows():
    with pytest.raises(RuntimeError, match="Unknown precision: xx"):
        B.fp32_precision = "xx"
    with pytest.raises(RuntimeError, match="backend 'cuda' does not support precision 'bf16'"):
        B.cuda.matmul.fp32_precision = "bf16"
    with pytest.raises(TypeError, match="incompatible function arguments"):
        B.fp32_precision = None
    with pytest.raises(AttributeError, match="Unknown attribute foo"):
        B.cuda.matmul.foo


def test_settings_change_no_program_of_xla_cpu():
    x = torch.randn(8, 8).to("tpu")
    image, kernel = torch.randn(1, 3, 8, 8).to("tpu"), torch.randn(4, 3, 3, 3).to("tpu")
    texts = set()
    for setting in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(setting)
        product, convolution = x @ x, torch.nn.functional.conv2d(image, kernel)
        texts.add(torch.tpu.dump_stablehlo(product) + torch.tpu.dump_stablehlo(convolution))
    assert len(texts) == 1 and "precision" not in texts.pop()


def test_the_notice_for_tpus_is_not_shown_on_xla_cpu():
    program = "import pytpu as torch; x = torch.randn(64, 64).to('tpu'); (x @ x).cpu()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "passes" not in done.stderr
