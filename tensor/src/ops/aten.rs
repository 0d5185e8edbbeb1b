//! Ops as calls of aten operators, for code that reads calls: modes and classes with `__torch_dispatch__`.
//!
//! Rows of the op table are such calls already. This file is for ops that Rust calls by itself: gradient formulas, and
//! the parts of rows that autograd sees one by one.

use crate::op::{Layout, Prim};
use crate::ops::indexing::ScatterKind;
use crate::ops::scan::ScanKind;
use crate::{DType, Dims, Scalar, Tensor};

/// An argument of a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    None,
    /// The operand at this position.
    Operand(usize),
    /// The operands from this position on, as a list.
    Rest(usize),
    /// A number.
    Number(Scalar),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of booleans.
    Bools(Vec<bool>),
    /// A dtype.
    DType(DType),
    /// A text.
    Text(&'static str),
}

/// A call of an aten operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The operator and its overload, as in `add.Tensor`.
    pub name: String,
    /// Arguments by position.
    pub args: Vec<Value>,
    /// Arguments by name.
    pub keywords: Vec<(&'static str, Value)>,
}

impl Call {
    fn new(name: impl Into<String>, args: Vec<Value>) -> Call {
        Call { name: name.into(), args, keywords: Vec::new() }
    }
    fn with(mut self, name: &'static str, value: Value) -> Call {
        self.keywords.push((name, value));
        self
    }
}

fn int(v: usize) -> Value {
    Value::Number(Scalar::Int(v as i64))
}

fn boolean(v: bool) -> Value {
    Value::Number(Scalar::Bool(v))
}

fn ints(v: &[usize]) -> Value {
    Value::Ints(v.iter().map(|&n| n as i64).collect())
}

/// The number that an operand is, if this library made it from a number and no user has seen it as a tensor.
fn number(x: &Tensor) -> Option<Value> {
    let is_own = x.dims().is_empty() && x.place().in_memory() && x.pyobject().is_null() && !x.requires_grad();
    is_own.then(|| x.item().ok().map(Value::Number)).flatten()
}

fn bits(mask: u64, dims: &Dims) -> Value {
    Value::Ints((0..dims.len() as i64).filter(|i| mask >> i & 1 == 1).collect())
}

/// The call of an aten operator that computes an op with one result, or with results in the operator's order. `None` if
/// there is none. Ops that consist of others are better called as these.
pub fn call(op: &Prim, x: &[&Tensor]) -> Option<Call> {
    use Value::{None as Nothing, Operand as At};
    let dims = |i: usize| x[i].dims();
    Some(match op {
        Prim::Unary(_) => {
            let name = op.name();
            super::find(name).ok()?;
            Call::new(format!("{name}.default"), vec![At(0)])
        }
        Prim::Binary(_) => {
            let name = op.name();
            let (a, b) = match (number(x[0]), number(x[1])) {
                (Some(_), Some(_)) => (None, None),
                numbers => numbers,
            };
            let overload = match (name, &a, &b) {
                ("pow", None, None) => "Tensor_Tensor",
                ("pow", Some(_), _) => "Scalar",
                ("pow", _, Some(_)) => "Tensor_Scalar",
                _ => "Tensor",
            };
            let overloaded = format!("{name}.{overload}");
            let args = vec![a.unwrap_or(At(0)), b.unwrap_or(At(1))];
            match super::find(&overloaded) {
                Ok(_) if matches!(args[0], At(_)) || name == "pow" => Call::new(overloaded, args),
                Ok(_) => Call::new(overloaded, vec![At(0), args[1].clone()]),
                Err(_) => {
                    super::find(name).ok()?;
                    Call::new(format!("{name}.default"), vec![At(0), At(1)])
                }
            }
        }
        Prim::Compare(_) => match number(x[1]) {
            Some(b) => Call::new(format!("{}.Scalar", op.name()), vec![At(0), b]),
            None => Call::new(format!("{}.Tensor", op.name()), vec![At(0), At(1)]),
        },
        Prim::Power(p) => {
            let exponent = p.exponent();
            let number = match x[0].dtype().is_inexact() {
                true => Scalar::Float(exponent),
                false => Scalar::Int(exponent as i64),
            };
            Call::new("pow.Tensor_Scalar", vec![At(0), Value::Number(number)])
        }
        Prim::Select(_) => Call::new("where.self", vec![At(0), At(1), At(2)]),
        Prim::Cast(to) => Call::new("_to_copy.default", vec![At(0)]).with("dtype", Value::DType(to.0)),
        // A clone of conjugates may be conjugates again.
        Prim::Copy(_) if x[0].is_lazy() => return None,
        Prim::Copy(_) => Call::new("clone.default", vec![At(0)]),
        Prim::Cat(c) => Call::new("cat.default", vec![Value::Rest(0), int(c.dim)]),
        Prim::Stack(c) => Call::new("stack.default", vec![Value::Rest(0), int(c.dim)]),
        Prim::Flip(f) => Call::new("flip.default", vec![At(0), bits(f.mask, dims(0))]),
        Prim::Reduce(r) => {
            let over = bits(r.mask, dims(0));
            let one = match &over {
                Value::Ints(v) if v.len() == 1 => Some(Value::Number(Scalar::Int(v[0]))),
                _ => None,
            };
            match (op.name(), one) {
                ("sum", _) => Call::new("sum.dim_IntList", vec![At(0), over]),
                (name @ ("amax" | "amin"), _) => Call::new(format!("{name}.default"), vec![At(0), over]),
                (name @ ("any" | "all"), _) => Call::new(format!("{name}.dims"), vec![At(0), over]),
                ("prod", Some(dim)) => Call::new("prod.dim_int", vec![At(0), dim]),
                _ => return None,
            }
        }
        Prim::ArgReduce(a) => {
            Call::new(if a.max { "argmax.default" } else { "argmin.default" }, vec![At(0), int(a.dim)])
        }
        Prim::Scan(s) => {
            let name = match s.kind {
                ScanKind::Sum => "cumsum.default",
                ScanKind::Prod => "cumprod.default",
                ScanKind::LogSumExp => "logcumsumexp.default",
            };
            Call::new(name, vec![At(0), int(s.dim)])
        }
        Prim::Gather(g) => Call::new("gather.default", vec![At(0), int(g.dim), At(1)]),
        Prim::IndexSelect(s) => Call::new("index_select.default", vec![At(0), int(s.dim), At(1)]),
        Prim::IndexAdd(s) if dims(2).len() == dims(0).len() => {
            let name = if s.accumulate { "index_add.default" } else { "index_copy.default" };
            Call::new(name, vec![At(0), int(s.dim), At(1), At(2)])
        }
        Prim::Scatter(s) => {
            let dim = int(s.dim);
            match (s.kind, number(x[2])) {
                (ScatterKind::Set, Some(v)) => Call::new("scatter.value", vec![At(0), dim, At(1), v]),
                (ScatterKind::Set, None) => Call::new("scatter.src", vec![At(0), dim, At(1), At(2)]),
                (ScatterKind::Add, None) if s.include_self => {
                    Call::new("scatter_add.default", vec![At(0), dim, At(1), At(2)])
                }
                (kind, None) => {
                    let reduce = match kind {
                        ScatterKind::Set => return None,
                        ScatterKind::Add => "sum",
                        ScatterKind::Mul => "prod",
                        ScatterKind::Max => "amax",
                        ScatterKind::Min => "amin",
                        ScatterKind::Mean => "mean",
                    };
                    Call::new("scatter_reduce.two", vec![At(0), dim, At(1), At(2), Value::Text(reduce)])
                        .with("include_self", boolean(s.include_self))
                }
                _ => return None,
            }
        }
        Prim::Pad(p) => {
            let (pad, value) = (p.by_dimension()?, number(x[1])?);
            Call::new("constant_pad_nd.default", vec![At(0), Value::Ints(pad), value])
        }
        Prim::SliceUpdate(s) => {
            let (s, end) = (&s.0, s.0.start + s.0.len.saturating_sub(1) * s.0.step + usize::from(s.0.len > 0));
            Call::new("slice_scatter.default", vec![At(0), At(1), int(s.dim), int(s.start), int(end), int(s.step)])
        }
        Prim::Index(_) => Call::new("index.Tensor", vec![At(0), Value::Rest(1)]),
        Prim::Sort(s) => Call::new("sort.stable", vec![At(0)])
            .with("stable", boolean(s.stable))
            .with("dim", int(s.dim))
            .with("descending", boolean(s.descending)),
        Prim::TopK(t) => {
            Call::new("topk.default", vec![At(0), int(t.k), int(t.dim), boolean(t.largest), boolean(t.sorted)])
        }
        Prim::Permute(p) if p.0[..] == [1, 0] => Call::new("t.default", vec![At(0)]),
        Prim::Permute(p) => Call::new("permute.default", vec![At(0), ints(&p.0)]),
        Prim::Expand(e) => Call::new("expand.default", vec![At(0), ints(&e.0)]),
        Prim::Slice(s) => {
            let end = if s.len == 0 { s.start } else { s.start + (s.len - 1) * s.step + 1 };
            let mut args = vec![At(0), int(s.dim), int(s.start), int(end)];
            if s.step != 1 {
                args.push(int(s.step));
            }
            Call::new("slice.Tensor", args)
        }
        Prim::Reshape(r) => {
            let is_view = op.layout(&Layout::of(x[0])).is_ok();
            Call::new(if is_view { "view.default" } else { "reshape.default" }, vec![At(0), ints(&r.0)])
        }
        Prim::AsStrided(s) if s.own && !x[0].is_contiguous() => return None,
        Prim::AsStrided(s) => {
            let offset = s.offset + if s.own { x[0].storage_offset() } else { 0 };
            Call::new("as_strided.default", vec![At(0), ints(&s.dims), ints(&s.strides), int(offset)])
        }
        Prim::Bits(b) => Call::new("view.dtype", vec![At(0), Value::DType(b.to)]),
        Prim::AsReal(_) => Call::new("view_as_real.default", vec![At(0)]),
        Prim::AsComplex(_) => Call::new("view_as_complex.default", vec![At(0)]),
        Prim::Conj(_) => Call::new("_conj.default", vec![At(0)]),
        Prim::Negative(_) => Call::new("_neg_view.default", vec![At(0)]),
        Prim::Dot(d) if !d.ta && !d.tb && !d.wide && !d.of_narrow => match (dims(0).len(), dims(1).len()) {
            (2, 2) => Call::new("mm.default", vec![At(0), At(1)]),
            (3, 3) => Call::new("bmm.default", vec![At(0), At(1)]),
            _ => return None,
        },
        Prim::Softmax(s) => {
            let name = if s.log { "_log_softmax.default" } else { "_softmax.default" };
            Call::new(name, vec![At(0), int(s.dim), boolean(false)])
        }
        Prim::SoftmaxBackward(s) => {
            let name = if s.log { "_log_softmax_backward_data.default" } else { "_softmax_backward_data.default" };
            Call::new(name, vec![At(0), At(1), int(s.dim), Value::DType(x[0].dtype())])
        }
        Prim::ThresholdBackward(_) => {
            Call::new("threshold_backward.default", vec![At(0), At(1), Value::Number(Scalar::Int(0))])
        }
        Prim::Gelu(g) if g.tanh => Call::new("gelu.default", vec![At(0)]).with("approximate", Value::Text("tanh")),
        Prim::Gelu(_) => Call::new("gelu.default", vec![At(0)]),
        Prim::GeluBackward(g) if g.tanh => {
            Call::new("gelu_backward.default", vec![At(0), At(1)]).with("approximate", Value::Text("tanh"))
        }
        Prim::GeluBackward(_) => Call::new("gelu_backward.default", vec![At(0), At(1)]),
        Prim::Silu(_) => Call::new("silu.default", vec![At(0)]),
        Prim::SiluBackward(_) => Call::new("silu_backward.default", vec![At(0), At(1)]),
        Prim::Embedding(e) => {
            let mut args = vec![At(0), At(1)];
            if let Some(row) = e.padding {
                args.push(int(row));
            }
            Call::new("embedding.default", args)
        }
        Prim::LayerNorm(n) if !n.rms => {
            let weight = if n.weight { At(1) } else { Nothing };
            let bias = if n.bias { At(1 + usize::from(n.weight)) } else { Nothing };
            let eps = Value::Number(Scalar::Float(n.eps.get()));
            Call::new("native_layer_norm.default", vec![At(0), ints(&n.shape), weight, bias, eps])
        }
        Prim::Conv(c) if c.0.pad.iter().all(|p| p.0 == p.1) && !c.0.reverse => {
            let (s, n) = (&c.0, c.0.spatial);
            if s.x_dilation[..n].iter().any(|d| *d != 1) {
                return None;
            }
            let pad = Value::Ints(s.pad[..n].iter().map(|p| p.0).collect());
            let zero = Value::Ints(vec![0; n]);
            let (stride, dilation) = (ints(&s.stride[..n]), ints(&s.w_dilation[..n]));
            let groups = int(s.groups);
            let bias = if x.len() > 2 { At(2) } else { Nothing };
            let args = vec![At(0), At(1), bias, stride, pad, dilation, boolean(false), zero, groups];
            Call::new("convolution.default", args)
        }
        _ => return None,
    })
}

/// Whether an op consists of no others but itself on the host: factorizations of matrices, and what is made of them.
pub fn is_whole(op: &Prim) -> bool {
    matches!(
        op,
        Prim::SolveTriangular(_)
            | Prim::CholeskySolve(_)
            | Prim::Solve(_)
            | Prim::Inverse(_)
            | Prim::Det(_)
            | Prim::Slogdet(_)
            | Prim::Cholesky(_)
            | Prim::LuFactor(_)
            | Prim::Permutation(_)
            | Prim::Geqrf(_)
            | Prim::Qr(_)
            | Prim::Eigh(_)
            | Prim::Eig(_)
            | Prim::Svd(_)
            | Prim::Pinv(_)
            | Prim::LdlFactor(_)
            | Prim::LdlSolve(_)
            | Prim::MatrixExp(_)
    )
}
