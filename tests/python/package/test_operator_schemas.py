"""Schemas of operators: ``torch.ops.aten.add.Tensor._schema``. The texts are PyTorch's."""

import pytest

import pytpu as torch
from pytpu import _C
from pytpu._schema import FunctionSchema, parse_schema

aten = torch.ops.aten

SCHEMAS = """
aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
aten::div_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) -> Tensor(a!)
aten::floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor
aten::pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)
aten::bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
aten::special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor
aten::mm(Tensor self, Tensor mat2) -> Tensor
aten::t(Tensor(a) self) -> Tensor(a)
aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_zero_(Tensor(a!)[] self) -> ()
aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)
aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding="valid", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor
aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
aten::celu_(Tensor(a!) self, Scalar alpha=1.) -> Tensor(a!)
aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)
aten::linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)
aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
aten::alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)
aten::linalg_matrix_norm.str_ord(Tensor self, str ord="fro", int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
""".strip().split("\n")  # noqa: E501


@pytest.mark.parametrize("text", SCHEMAS)
def test_schemas_are_those_of_pytorch(text):
    name, _, overload = text.partition("(")[0].partition("::")[2].partition(".")
    found = getattr(getattr(aten, name), overload or "default")
    assert str(found._schema) == text
    assert str(parse_schema(text)) == text
    assert found._schema == parse_schema(text)
    assert found.name() == text.partition("(")[0]


def test_every_overload_of_the_table_has_a_schema():
    count = 0
    for name in dir(_C._ops):
        if not _C._schemas(name):
            continue
        packet = getattr(aten, name)
        for overload in packet.overloads():
            schema = getattr(packet, overload)._schema
            assert (schema.name, schema.overload_name or "default") == (f"aten::{name}", overload)
            assert str(FunctionSchema(str(schema))) == str(schema)
            is_in_place = name.endswith("_") and not name.endswith("__")
            assert schema.is_mutable or not is_in_place, schema
            count += 1
    assert count > 1000


def test_arguments_say_their_types_defaults_and_aliases():
    schema = aten.add_.Tensor._schema
    assert [a.name for a in schema.arguments] == ["self", "other", "alpha"]
    assert [a.type for a in schema.arguments] == ["Tensor", "Tensor", "number"]
    own, other, alpha = schema.arguments
    assert own.alias_info.is_write and own.alias_info.before_set == {"a"} and other.alias_info is None
    assert alpha.kwarg_only and alpha.has_default_value() and alpha.default_value == 1 and not alpha.is_out
    assert schema.is_mutable and not aten.add.Tensor._schema.is_mutable
    stride = aten.conv2d.default._schema.arguments[3]
    assert (stride.type, stride.N, stride.default_value) == ("List[int]", 2, [1, 1])
    assert aten.conv2d.default._schema.arguments[2].type == "Optional[Tensor]"
    out = parse_schema("aten::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)").arguments[1]
    assert out.is_out


@pytest.mark.parametrize(
    ("overload", "expected"),
    [("t.default", True), ("split.Tensor", True), ("relu_.default", False), ("add.Tensor", False)],
)
def test_overloads_know_whether_they_make_views(overload, expected):
    name, _, kind = overload.partition(".")
    assert getattr(getattr(aten, name), kind).is_view is expected


def test_overloads_that_take_numbers_are_called():
    x = torch.ones(2)
    assert aten.add.Scalar(x, 2, 3).tolist() == [7, 7]
    assert aten.mul.Scalar(x, 2).tolist() == [2, 2]
    assert aten.pow.Tensor_Scalar(x + 1, 3).tolist() == [8, 8]
    assert aten.bitwise_left_shift.Scalar_Tensor(1, torch.tensor([2])).tolist() == [4]
    assert aten.add_.Scalar(x, 1) is x and x.tolist() == [2, 2]
    with pytest.raises(AttributeError, match="has no overload name 'Other'"):
        aten.add.Other


def test_operators_of_a_library_have_schemas():
    torch.library.define("of_schemas::twice", "(Tensor x, int k=2) -> Tensor")
    schema = torch.ops.of_schemas.twice.default._schema
    assert str(schema) == "of_schemas::twice(Tensor x, int k=2) -> Tensor"


def test_text_that_is_no_schema_is_refused():
    with pytest.raises(RuntimeError, match="no schema"):
        parse_schema("f(Tensor")
