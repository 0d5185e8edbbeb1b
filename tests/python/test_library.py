"""Operators written in Python."""

from typing import List, Optional, Tuple

import pytest

import pytpu as torch


def doubled(x: torch.Tensor, k: int = 2) -> torch.Tensor:
    return x * k


@pytest.fixture
def op():
    made = torch.library.custom_op("tests::doubled", doubled, mutates_args=())
    made.register_fake(lambda x, k=2: torch.empty_like(x))
    return made


@pytest.mark.parametrize(
    ("annotation", "spelled"),
    [
        (torch.Tensor, "Tensor"),
        (Optional[torch.Tensor], "Tensor?"),
        (torch.Tensor | None, "Tensor?"),
        (List[torch.Tensor], "Tensor[]"),
        (List[Optional[torch.Tensor]], "Tensor?[]"),
        (Optional[List[int]], "SymInt[]?"),
        (int | float | bool, "Scalar"),
        (torch.dtype, "ScalarType"),
        (Optional[str], "str?"),
    ],
)
def test_schemas_spell_annotations(annotation, spelled):
    def f(x):
        pass

    f.__annotations__ = {"x": annotation, "return": Tuple[torch.Tensor, int]}
    assert torch.library.infer_schema(f, mutates_args=()) == f"({spelled} x) -> (Tensor, SymInt)"


def test_schemas_spell_defaults_and_writes():
    def f(
        x: torch.Tensor, *, k: float = 1.5, s: str = "a", d: Optional[int] = None, t: torch.dtype = torch.float32
    ) -> None:
        pass

    expected = '(Tensor(a0!) x, *, float k=1.5, str s="a", SymInt? d=None, ScalarType t=float32) -> ()'
    assert torch.library.infer_schema(f, mutates_args={"x"}) == expected


def test_schemas_need_annotations():
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        torch.library.infer_schema(lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="Parameter x has unsupported type <class 'dict'>"):

        def f(x: dict) -> torch.Tensor:
            pass

        torch.library.infer_schema(f, mutates_args=())


def test_an_operator_is_called_by_name(op):
    x = torch.ones(2)
    assert op(x).tolist() == torch.ops.tests.doubled(x).tolist() == [2.0, 2.0]
    assert torch.ops.tests.doubled.default(x, k=5).tolist() == [5.0, 5.0]
    assert (str(torch.ops.tests.doubled), repr(op)) == ("tests.doubled", "<CustomOpDef(tests::doubled)>")
    assert op(torch.ones(3, device="meta")).shape == (3,)
    with pytest.raises(AttributeError, match="'_OpNamespace' 'tests' object has no attribute 'absent'"):
        torch.ops.tests.absent


def test_an_operator_runs_on_tpu(op):
    assert op(torch.ones(2, device="tpu"), 3).cpu().tolist() == [3.0, 3.0]


def test_arguments_are_checked(op):
    with pytest.raises(
        RuntimeError, match="missing value for argument 'x'. Declaration: tests::doubled.Tensor x, SymInt k=2. ->"
    ):
        op()
    with pytest.raises(RuntimeError, match=r"expected at most 2 argument\(s\) but received 3 argument\(s\)"):
        op(torch.ones(1), 1, 2)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'z' for operator 'tests::doubled'"):
        op(torch.ones(1), z=2)
    with pytest.raises(
        RuntimeError, match="Expected a value of type 'int' for argument 'k' but instead found type 'str'"
    ):
        op(torch.ones(1), "a")


def test_gradients_are_those_registered(op):
    x = torch.ones(2, requires_grad=True)
    y = op(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="Trying to backward through tests.doubled.default but no autograd formula"):
        y.sum().backward()

    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]

    op.register_autograd(lambda ctx, grad: (grad * ctx.k * 10, None), setup_context=setup_context)
    torch.ops.tests.doubled(x, 3).sum().backward()
    assert x.grad.tolist() == [30.0, 30.0]


def test_gradients_of_lists_and_keywords():
    @torch.library.custom_op("tests::scaled", mutates_args=())
    def scaled(xs: List[torch.Tensor], *, k: float = 2.0) -> List[torch.Tensor]:
        return [x * k for x in xs]

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        assert len(inputs[0]) == len(output) == 2
        ctx.k = keyword_only_inputs["k"]

    scaled.register_autograd(lambda ctx, grads: [g * ctx.k for g in grads], setup_context=setup_context)
    x, y = torch.ones(2, requires_grad=True), torch.ones(3)
    out = scaled([x, y], k=4.0)
    assert [o.tolist() for o in out] == [[4.0] * 2, [4.0] * 3]
    out[0].sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_operators_that_write():
    @torch.library.custom_op("tests::increase", mutates_args={"x"})
    def increase(x: torch.Tensor) -> None:
        x.add_(1)

    x = torch.zeros(2)
    assert increase(x) is None
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        increase.register_autograd(lambda ctx: None)


def test_results_are_not_inputs():
    @torch.library.custom_op("tests::same", mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        same(torch.ones(1))


def test_kernels_are_for_devices():
    @torch.library.custom_op("tests::placed", mutates_args=(), device_types="cpu")
    def placed(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    assert placed(torch.zeros(1)).item() == 1
    with pytest.raises(
        NotImplementedError, match="Could not run 'tests::placed' with arguments from the 'TPU' backend"
    ):
        placed(torch.zeros(1, device="tpu"))
    placed.register_kernel("tpu", lambda x: x + 2)
    assert placed(torch.zeros(1, device="tpu")).item() == 2


def test_libraries_declare_operators():
    library = torch.library.Library("tests_library", "DEF")
    assert library.define("shifted(Tensor x, int k=2) -> Tensor") == "shifted"
    library.impl("shifted", lambda x, k=2: x + k, "CPU")
    x = torch.zeros(2, requires_grad=True)
    y = torch.ops.tests_library.shifted(x, 4)
    assert y.tolist() == [4.0, 4.0]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(NotImplementedError, match="attempted to run this operator with Meta tensors"):
        torch.ops.tests_library.shifted(torch.ones(1, device="meta"))
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        torch.library.Library("aten", "DEF")
