//! Tests of the axes of ops: for each axis of each call, the parts give the whole.

use crate::samples::{Call, close, every_call, row_major, tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use torchtpu::axes::{Axes, Combine, Dim, find, part};
use torchtpu::comm::Group;
use torchtpu::op::Prim;
use torchtpu::ops::collective::{Collective, Kind, Reduction};
use torchtpu::ops::inline::{Inline, Kernel};
use torchtpu::ops::linalg::Eig;
use torchtpu::ops::loss::{CtcLoss, CtcLossBackward};
use torchtpu::ops::matmul::Dot;
use torchtpu::ops::optim::{AdamW, Sgd};
use torchtpu::ops::pointwise::{Binary, BinaryKind, SmallDivisor, Unary, UnaryKind, binary};
use torchtpu::ops::random::{Pathwise, Proposal, RandomBits, Rejection};
use torchtpu::ops::reduce::{Reduce, ReduceKind};
use torchtpu::schema::Fill;
use torchtpu::{DType, Device, Dims, Meta, Result, Scalar, Tensor, dispatch, no_grad, ops};

/// Ops whose axes are not known. A new one needs a reason to be here.
const MOST_OPAQUE: usize = 1;

/// The next number differs from `x` by less than the tolerance of the test.
const NEARLY_LINEAR: &[&str] = &["nextafter"];

pub fn run(op: &Prim, x: &[Tensor]) -> Result<Vec<Tensor>> {
    let x: Vec<&Tensor> = x.iter().collect();
    no_grad(|| match op.is_view() {
        true => Ok(vec![row_major(&dispatch::call_view(op.clone(), x[0])?)?]),
        false => dispatch::call_n(op.clone(), &x)?.iter().map(row_major).collect(),
    })
}

pub fn metas(x: &[Tensor]) -> Vec<Meta> {
    x.iter().map(|x| *x.meta()).collect()
}

/// Return places `start..start + len` of an axis, or all of a tensor that lacks it.
fn cut(x: &Tensor, dims: &[Dim], axis: usize, start: usize, len: usize) -> Result<Tensor> {
    let Some((d, f)) = find(dims, axis) else { return Ok(x.clone()) };
    let at = dims[..d].iter().map(Vec::len).sum::<usize>() + f;
    let factors: Vec<i64> = dims.iter().flatten().map(|f| f.size as i64).collect();
    let sizes: Vec<i64> = part(dims, axis, len).iter().map(|n| *n as i64).collect();
    row_major(&x.reshape(&factors)?.narrow(at as i64, start as i64, len as i64)?.reshape(&sizes)?)
}

/// How far results may differ. Sums of 16-bit floats are rounded once in the whole, and once in each part.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 | DType::C128 => 1e-9,
        DType::BF16 => 4e-2,
        DType::F16 => 6e-3,
        _ => 1e-4,
    }
}

fn near(got: &Tensor, want: &Tensor) -> std::result::Result<(), String> {
    close(got, want, tolerance(want.dtype()))
}

/// Compute an axis in two parts, and compare what they give with the whole.
fn split(op: &Prim, x: &[Tensor], y: &[Tensor], axes: &Axes, axis: usize) -> std::result::Result<(), String> {
    let text = |e: torchtpu::Error| e.to_string();
    let (size, first) = (axes.sizes[axis], axes.sizes[axis].div_ceil(4));
    let once = axes.reduced.iter().filter(|r| r.axis == axis).fold(0, |m, r| m | r.once);
    let mut parts = Vec::new();
    for (k, (start, len)) in [(0, first), (first, size - first)].into_iter().enumerate() {
        let operand = |(i, x): (usize, &Tensor)| -> Result<Tensor> {
            let x = cut(x, &axes.operands[i], axis, start, len)?;
            if k > 0 && once >> i & 1 != 0 { Tensor::zeros_like_meta(x.meta()) } else { Ok(x) }
        };
        let x = x.iter().enumerate().map(operand).collect::<Result<Vec<_>>>().map_err(text)?;
        let sized = |(y, dims): (&Tensor, &Vec<Dim>)| y.meta().with_dims(part(dims, axis, len));
        let sizes: Vec<Meta> = y.iter().zip(&axes.results).map(sized).collect();
        let resized = op.resized(&metas(&x), &sizes);
        let got = match axes.indexed.is_some_and(|i| i.axis == axis) {
            true => no_grad(|| axes.call_indexed(resized, &x.iter().collect::<Vec<_>>(), start, len)),
            false => run(&resized, &x),
        };
        let got = got.map_err(|e| format!("a part: {e}"))?;
        for (i, (got, y)) in got.iter().zip(y).enumerate() {
            if find(&axes.results[i], axis).is_some() {
                near(got, &cut(y, &axes.results[i], axis, start, len).map_err(text)?)
                    .map_err(|e| format!("result {i} of part {k}: {e}"))?;
            }
        }
        parts.push(got);
    }
    for (i, y) in y.iter().enumerate().filter(|(i, _)| find(&axes.results[*i], axis).is_none()) {
        let (a, b) = (&parts[0][i], &parts[1][i]);
        let combined = match axes.reduced.iter().find(|r| r.axis == axis && r.result == i).map(|r| r.by) {
            None => near(a, b).map(|()| a.clone())?,
            Some(Combine::Sum) => a.add(b).map_err(text)?,
            Some(Combine::Product) => a.mul(b).map_err(text)?,
            Some(Combine::Max) => binary(BinaryKind::Maximum, a, b).map_err(text)?,
            Some(Combine::Min) => binary(BinaryKind::Minimum, a, b).map_err(text)?,
        };
        near(&combined, y).map_err(|e| format!("result {i}: {e}"))?;
    }
    Ok(())
}

/// Other operands of the same kind.
fn others(x: &[Tensor], salt: usize) -> Result<Vec<Tensor>> {
    let other = |(i, x): (usize, &Tensor)| match x.dtype().is_inexact() {
        true => tensor(x.dims(), Fill::Normal, salt + i, x.dtype()),
        false => Ok(x.clone()),
    };
    x.iter().enumerate().map(other).collect()
}

/// Compare the results for a sum of operands with the sum of the results.
fn additive(op: &Prim, x: &[Tensor], y: &[Tensor], set: u64, salt: usize) -> std::result::Result<(), String> {
    let text = |e: torchtpu::Error| e.to_string();
    let (mut other, mut sum) = (x.to_vec(), x.to_vec());
    for (i, o) in others(x, salt).map_err(text)?.into_iter().enumerate().filter(|(i, _)| set >> i & 1 != 0) {
        sum[i] = x[i].add(&o).map_err(text)?;
        other[i] = o;
    }
    let (b, c) = (run(op, &other).map_err(text)?, run(op, &sum).map_err(text)?);
    // The sums of operands are rounded too.
    let rounded = |x: &Tensor| if x.dtype().is_inexact() { tolerance(x.dtype()) } else { 0.0 };
    let most = x.iter().chain(y).map(rounded).fold(0.0, f64::max);
    for (a, (b, c)) in y.iter().zip(b.iter().zip(&c)) {
        close(&a.add(b).map_err(text)?, c, most)?;
    }
    Ok(())
}

/// What is wrong with the axes of a call.
fn problems(op: &Prim, x: &[Tensor], axes: &Axes) -> Vec<String> {
    let y = match run(op, x) {
        Ok(y) => y,
        Err(e) => return vec![format!("the whole: {e}")],
    };
    if let Err(e) = axes.check(&metas(x), &metas(&y)) {
        return vec![e];
    }
    let sizes: Vec<String> = x.iter().map(|x| x.dims().to_string()).collect();
    let mut found = Vec::new();
    for axis in (0..axes.sizes.len()).filter(|a| axes.sizes[*a] > 1) {
        if let Err(e) = split(op, x, &y, axes, axis) {
            found.push(format!("{op:?} of {}: `{axes}`, axis {}: {e}", sizes.join(" "), axes.name(axis)));
        }
    }
    for &set in &axes.linear {
        if let Err(e) = additive(op, x, &y, set, 57) {
            found.push(format!("{op:?} of {}: not linear in {set:#b}: {e}", sizes.join(" ")));
        }
    }
    found
}

/// The rule's axes of a call.
fn axes_of(op: &Prim, x: &[Tensor]) -> Result<Axes> {
    Ok(op.axes(&metas(x), &metas(&run(op, x)?)))
}

fn normal(dims: &[usize], salt: usize, dtype: DType) -> Tensor {
    tensor(dims, Fill::Normal, salt, dtype).expect("a tensor")
}

fn full(dims: &[usize], v: f64) -> Tensor {
    Tensor::full(dims, v, DType::F64, Device::CPU).expect("a tensor")
}

/// Whether a window is on memory of the operand's base that a copy of the operand does not have.
pub fn is_beyond(call: &Call) -> bool {
    let Prim::AsStrided(w) = &call.op else { return false };
    let last: usize = w.dims.iter().zip(&w.strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
    w.offset + last >= call.x[0].numel().max(1)
}

/// Calls of nodes that no sample reaches, or whose samples have no axis.
pub fn other_calls() -> Vec<Call> {
    let of = |dims: &[usize], salt| normal(dims, salt, DType::F64);
    let bits: Vec<i64> = (0..12).map(|i: i64| i.wrapping_mul(0x2545_F491_4F6C_DD1D)).collect();
    let bits = Tensor::from_slice(&bits, &[3, 4]).unwrap();
    let state = Tensor::from_slice(&[5i64, 7], &[2]).unwrap();
    let mut calls = vec![
        Call { op: Prim::RandomBits(RandomBits { dims: Dims::new(&[4, 3]), wide: true }), x: vec![state] },
        Call {
            op: Prim::Rejection(Rejection(Proposal::Poisson)),
            x: vec![bits, full(&[3, 4], 4.0), full(&[3, 4], 4.0)],
        },
        Call { op: Prim::Pathwise(Pathwise::Gamma), x: vec![of(&[3, 4], 1), of(&[3, 4], 2)] },
        Call { op: Prim::Pathwise(Pathwise::Dirichlet), x: vec![of(&[3, 4], 1), of(&[3, 4], 2)] },
    ];
    for remainder in [false, true] {
        let x = vec![
            Tensor::from_slice(&[-9i64, 4, 7, 12], &[2, 2]).unwrap(),
            full(&[], 7.0).to_dtype(DType::I64).unwrap(),
        ];
        calls.push(Call { op: Prim::SmallDivisor(SmallDivisor { remainder }), x });
    }
    calls.push(Call { op: Prim::Eig(Eig { vectors: true }), x: vec![of(&[2, 3, 3], 1)] });
    let numbers = [0.01, 0.9, 0.1, 0.99, 0.01, 1e-8, 1e-3, 0.5];
    for decoupled in [false, true] {
        let moments = [of(&[3, 4], 1), of(&[3, 4], 2), of(&[3, 4], 3), of(&[3, 4], 4).square().unwrap()];
        let x = moments.into_iter().chain(numbers.map(|v| full(&[], v))).collect();
        calls.push(Call { op: Prim::AdamW(AdamW { decoupled, decays: true, maximize: false }), x });
    }
    for momentum in [false, true] {
        let arrays = (0..2 + usize::from(momentum)).map(|i| of(&[3, 4], i));
        let x = arrays.chain([0.1, 0.01, 0.9, 1.0].map(|v| full(&[], v))).collect();
        calls.push(Call {
            op: Prim::Sgd(Sgd { momentum, decays: true, nesterov: false, maximize: false, first: false }),
            x,
        });
    }
    // The trellis of the gradient is a result of the loss.
    let of = CtcLoss { blank: 0, zero_infinity: false };
    let ints = |v: &[i64], dims: &[usize]| Tensor::from_slice(v, dims).unwrap();
    let x = normal(&[5, 3, 4], 1, DType::F64).log_softmax(-1).unwrap();
    let targets = ints(&[1, 2, 3, 1, 2, 2], &[3, 2]);
    let x = vec![x, targets, ints(&[5, 4, 5], &[3]), ints(&[2, 1, 2], &[3])];
    let y = run(&Prim::CtcLoss(of), &x).unwrap();
    let x = [vec![normal(&[3], 5, DType::F64)], x, vec![y[1].clone()]].concat();
    calls.push(Call { op: Prim::CtcLossBackward(CtcLossBackward { of }), x });
    let group = Group::new(1, vec![vec![0]]);
    let kinds = [
        Kind::AllReduce(Reduction::Sum),
        Kind::AllReduce(Reduction::Max),
        Kind::Reduce { by: Reduction::Sum, to: 0 },
        Kind::Broadcast { from: 0 },
        Kind::AllGather,
        Kind::ReduceScatter(Reduction::Sum),
        Kind::AllToAll { sent: vec![3], received: vec![3] },
        Kind::Permute { pairs: vec![(0, 0)] },
    ];
    for kind in kinds {
        let op = Prim::Collective(Box::new(Collective { kind, group: group.clone() }));
        calls.push(Call { op, x: vec![normal(&[3, 4], 1, DType::F64), ints(&[0], &[])] });
    }
    calls
}

#[test]
fn parts_of_every_axis_give_the_whole() {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    let mut split: BTreeMap<&str, bool> = BTreeMap::new();
    // Operands in which every call of an op was linear, though no rule says so.
    let mut undeclared: BTreeMap<(&str, usize), bool> = BTreeMap::new();
    let (mut opaque, mut axes_seen, mut linear) = (BTreeMap::new(), 0, 0);
    let mut look = |call: Call| {
        let key = format!("{:?} {:?}", call.op, metas(&call.x));
        if !seen.insert(key) || is_beyond(&call) {
            return;
        }
        let axes = match axes_of(&call.op, &call.x) {
            Ok(axes) => axes,
            Err(e) => return found.push(format!("{:?}: {e}", call.op)),
        };
        let count = axes.sizes.iter().filter(|n| **n > 1).count();
        (axes_seen, linear) = (axes_seen + count, linear + axes.linear.len());
        *split.entry(call.op.node()).or_default() |= count > 0 || axes.reason.is_some();
        if axes.is_opaque() {
            opaque.insert(call.op.node(), axes.reason);
        }
        found.extend(problems(&call.op, &call.x, &axes));
        let Ok(y) = run(&call.op, &call.x) else { return };
        if y.iter().all(|y| y.dtype().is_inexact() && y.numel() > 1) {
            for i in (0..call.x.len().min(64)).filter(|i| call.x[*i].dtype().is_inexact()) {
                let entry = undeclared.entry((call.op.name(), i)).or_insert(true);
                let is_declared = axes.linear.contains(&(1 << i));
                // Small samples of one set of values may be linear by chance.
                let mut salts = 57..60;
                *entry &= !is_declared && salts.all(|s| additive(&call.op, &call.x, &y, 1 << i, s).is_ok());
            }
        }
    };
    every_call(&mut look);
    other_calls().into_iter().for_each(&mut look);
    println!("{} calls, {axes_seen} axes, {linear} linear sets", seen.len());
    // A user's program is not run here.
    let ty = "tensor<4xf32>";
    let program = format!("func.func @main(%x: {ty}) -> {ty} {{\n%0 = stablehlo.negate %x : {ty}\nreturn %0 : {ty} }}");
    let inline = Prim::Inline(Inline(Arc::new(Kernel::new("rust::negate", &program).unwrap())));
    let meta = [Meta::new(&[4], DType::F32, Device::CPU)];
    let axes = inline.axes(&meta, &meta);
    assert!(axes.is_opaque());
    split.insert(inline.node(), axes.reason.is_some());
    opaque.insert(inline.node(), axes.reason);
    println!("opaque: {opaque:?}");
    assert!(opaque.len() <= MOST_OPAQUE, "{opaque:?}");
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.join("\n"));
    // Every node is split in some call, or says why not.
    let never: Vec<_> = Prim::NODES.iter().map(|(n, _)| *n).filter(|n| split.get(n) != Some(&true)).collect();
    assert!(never.is_empty(), "no call has an axis: {never:?}");
    undeclared.retain(|(name, _), is_linear| *is_linear && !NEARLY_LINEAR.contains(name));
    assert!(undeclared.is_empty(), "linear, and not declared: {:?}", undeclared.keys());
}

#[test]
fn wrong_axes_are_found() {
    let (x, w) = (normal(&[3, 3], 1, DType::F64), normal(&[3, 3], 2, DType::F64));
    let dot = Prim::Dot(Dot { ta: false, tb: false, wide: false, of_narrow: false });
    let sum = Prim::Reduce(Reduce { kind: ReduceKind::Sum, mask: 0b10 });
    let softmax = Prim::Softmax(ops::norm::Softmax { log: false, dim: 1 });
    let multiply = Prim::Binary(Binary(BinaryKind::Mul));
    let exp = Prim::Unary(Unary(UnaryKind::Exp));
    let pair = [x.clone(), w];
    let one = [x];
    let rule = |op: &Prim, x: &[Tensor], text: &str| Axes::parse(text, &metas(x), &metas(&run(op, x).unwrap()));
    let right = rule(&dot, &pair, "m k, k n -> m n").reduces("k", Combine::Sum).linear(&[0b01, 0b10]);
    assert_eq!(problems(&dot, &pair, &right), Vec::<String>::new());
    let cases: Vec<(&Prim, &[Tensor], Axes)> = vec![
        // Swapped.
        (&dot, &pair, rule(&dot, &pair, "m k, k n -> n m").reduces("k", Combine::Sum)),
        (&dot, &pair, rule(&dot, &pair, "k m, k n -> m n").reduces("k", Combine::Sum)),
        // Combined wrongly, or not at all.
        (&dot, &pair, rule(&dot, &pair, "m k, k n -> m n").reduces("k", Combine::Max)),
        (&dot, &pair, rule(&dot, &pair, "m k, k n -> m n")),
        (&sum, &one, rule(&sum, &one, "a b -> a").reduces("b", Combine::Product)),
        // Whole in truth.
        (&softmax, &one, rule(&softmax, &one, "... -> ...")),
        // Not linear.
        (&multiply, &pair, rule(&multiply, &pair, "... -> ...").linear(&[0b11])),
        (&exp, &one, rule(&exp, &one, "... -> ...").linear(&[0b1])),
    ];
    for (op, x, axes) in cases {
        assert!(!problems(op, x, &axes).is_empty(), "{op:?} may not have `{axes}`");
    }
}

#[test]
fn axes_that_do_not_fit_are_refused() {
    let meta = |dims: &[usize]| Meta::new(dims, DType::F32, Device::META);
    let (x, y) = ([meta(&[2, 3])], [meta(&[2, 3])]);
    let refused = |axes: Axes| axes.check(&x, &y).unwrap_err();
    assert!(refused(Axes::parse("a a -> a a", &x, &y)).contains("sizes"));
    assert!(refused(Axes::parse("a _ -> a _", &x, &[meta(&[2, 4])])).contains("sizes"));
    assert!(refused(Axes::parse("a b -> a _", &x, &y)).contains("neither has nor reduces b"));
    let square = [meta(&[2, 2])];
    assert!(Axes::parse("a a -> a _", &square, &square).check(&square, &square).unwrap_err().contains("twice"));
}

#[test]
fn texts_are_read_as_they_are_written() {
    let meta = |dims: &[usize]| Meta::new(dims, DType::F32, Device::META);
    let of = |text: &str, x: &[&[usize]], y: &[&[usize]]| -> Axes {
        let metas = |d: &[&[usize]]| d.iter().map(|d| meta(d)).collect::<Vec<_>>();
        let axes = Axes::parse(text, &metas(x), &metas(y)).reduces("i", Combine::Sum);
        axes.check(&metas(x), &metas(y)).unwrap();
        axes
    };
    // Broadcast from the right.
    let axes = of("... -> ...", &[&[4, 1, 3], &[2, 1], &[]], &[&[4, 2, 3]]);
    assert_eq!(axes.to_string(), "...2 1 ...0, ...1 1,  -> ...2 ...1 ...0");
    // A size that stands in a product only.
    let axes = of("n (g i) _, (g o) i _ -> n (g o) _", &[&[2, 6, 5], &[4, 3, 2]], &[&[2, 4, 4]]);
    assert_eq!(axes.sizes, [2, 2, 3, 2]);
    assert_eq!(axes.to_string(), "n (g i) _, (g o) i _ -> n (g o) _");
    // A reshape is taken apart where sizes divide one another.
    let reshape = |from: &[usize], to: &[usize]| {
        let axes = Prim::Reshape(ops::shape::Reshape(Dims::new(to))).axes(&[meta(from)], &[meta(to)]);
        axes.check(&[meta(from)], &[meta(to)]).unwrap();
        axes.to_string()
    };
    assert_eq!(reshape(&[6, 4], &[24]), "d0 d1 -> (d0 d1)");
    assert_eq!(reshape(&[6, 1, 4], &[2, 12]), "(d0 d1) 1 d2 -> d0 (d1 d2)");
    assert_eq!(reshape(&[6, 4, 5], &[4, 6, 5]), "_ _ d0 -> _ _ d0");
    assert_eq!(reshape(&[0, 4], &[2, 0]), "_ _ -> _ _");
    let scalar = Tensor::full(&[], Scalar::Int(1), DType::I64, Device::CPU).unwrap();
    assert_eq!(axes_of(&Prim::Unary(Unary(UnaryKind::Neg)), &[scalar]).unwrap().to_string(), " -> ");
}
