//! Sharding of calls: the placements that the operands of an op need, and those of its results.
//!
//! Both follow from the op's [`Axes`], the correspondence of the dimensions of operands and results. Along each mesh
//! dimension a call does one of three things:
//!
//! * It divides an axis. Operands and results that have the axis are sharded on it. A result that reduces it is
//!   partial.
//! * It is linear in operands that are partial. Its results are partial too.
//! * It is replicated: every rank computes the same.
//!
//! An axis is divided only if an operand is already sharded on it. Among all possibilities, the call takes the one
//! whose operands are redistributed with the fewest bytes.

use crate::ReduceOp;
use crate::placement::{Placement, length, pieces};
use crate::redistribute::bytes;
use crate::spec::{local_dims, local_pieces};
use torchtpu_tensor::axes::{Axes, Combine, Dim, Factor, find};
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::{Dims, Meta, Result, Tensor, dispatch};

/// How a call is divided over a mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The placements that each operand must have.
    pub operands: Vec<Vec<Placement>>,
    /// The placements of each result.
    pub results: Vec<Vec<Placement>>,
    /// Whether a sharded operand is replicated because the op has no rule to divide it.
    pub lacks_rule: bool,
    /// The axes, if the one that an operand has indices of is divided.
    indexed: Option<Box<Axes>>,
}

impl Plan {
    /// Run the op on the parts of the operands that the rank at a coordinate has. `xm` and `ym` describe the whole
    /// operands and results.
    ///
    /// # Errors
    /// The errors of the op.
    pub fn run(
        &self,
        op: &Prim,
        x: &[&Tensor],
        xm: &[Meta],
        ym: &[Meta],
        mesh: &[usize],
        coordinate: &[usize],
    ) -> Result<Vec<Tensor>> {
        if let Some(dims) = self.zeros(xm, ym, mesh, coordinate) {
            return dims.iter().zip(ym).map(|(d, y)| Tensor::zeros_like_meta(&y.with_dims(*d))).collect();
        }
        let op = self.local_op(op, xm, ym, mesh, coordinate);
        if op.is_view() {
            let x = x[0].resolve_conj()?.resolve_neg()?.contiguous()?;
            let op = match op {
                // The window is on the elements of the part, not on those of its base.
                Prim::AsStrided(mut window) => {
                    window.own = true;
                    Prim::AsStrided(window)
                }
                op => op,
            };
            let y = dispatch::call_view(op, &x)?;
            return Ok(vec![y.resolve_conj()?.resolve_neg()?]);
        }
        let Some(axes) = &self.indexed else { return Ok(dispatch::call_n(op, x)?.into_vec()) };
        let dim = axes.indexed.and_then(|i| find(&axes.operands[0], i.axis)).map_or(0, |(d, _)| d);
        // The axis is only divided into chunks, so a part is one piece.
        let part = local_pieces(&xm[0].dims, &self.operands[0], mesh, coordinate)[dim].first().copied();
        let (start, len) = part.unwrap_or_default();
        axes.call_indexed(op, x, start, len)
    }

    /// Return the op for the parts of the operands and results.
    fn local_op(&self, op: &Prim, x: &[Meta], y: &[Meta], mesh: &[usize], coordinate: &[usize]) -> Prim {
        let local = |metas: &[Meta], placements: &[Vec<Placement>]| -> Vec<Meta> {
            let of = |(m, p): (&Meta, &Vec<Placement>)| m.with_dims(local_dims(&m.dims, p, mesh, coordinate));
            metas.iter().zip(placements).map(of).collect()
        };
        op.resized(&local(x, &self.operands), &local(y, &self.results))
    }

    /// Return the sizes of the results on a rank that has no element of an operand, if they are all zeros: each is
    /// empty or a summand. Such a rank need not run the op, which may refuse empty operands.
    fn zeros(&self, x: &[Meta], y: &[Meta], mesh: &[usize], coordinate: &[usize]) -> Option<Vec<Dims>> {
        let local = |m: &Meta, p: &[Placement]| local_dims(&m.dims, p, mesh, coordinate);
        let is_emptied = |(m, p): (&Meta, &Vec<Placement>)| m.numel() > 0 && local(m, p).numel() == 0;
        if !x.iter().zip(&self.operands).any(is_emptied) {
            return None;
        }
        let zeros = |(m, p): (&Meta, &Vec<Placement>)| {
            let dims = local(m, p);
            let is_sum = p.iter().any(|p| p.partial().is_some())
                && p.iter().all(|p| matches!(p.partial(), None | Some(ReduceOp::Sum)));
            (dims.numel() == 0 || is_sum).then_some(dims)
        };
        y.iter().zip(&self.results).map(zeros).collect()
    }
}

/// What a call does along one mesh dimension: the placements of its operands and results.
struct Strategy {
    operands: Vec<Placement>,
    results: Vec<Placement>,
    /// The axis that is divided, and its `split_factor`, as in [`Placement::StridedShard`].
    divided: Option<(usize, usize)>,
}

/// The sizes that ranks have of an axis, each once.
type Sizes = Vec<usize>;

fn divide(sizes: &Sizes, split: usize, ranks: usize) -> Sizes {
    let mut all: Sizes =
        sizes.iter().flat_map(|&n| (0..ranks).map(move |i| length(&pieces(n, split, ranks, i)))).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The placement of a tensor along a mesh dimension, if it has one, or an error.
type Divided = std::result::Result<Option<Placement>, ()>;

/// The placement of a tensor along a mesh dimension that divides an axis. `None` if the tensor lacks the axis, and an
/// error if no placement says how its dimension would be divided.
fn along(dims: &[Dim], axis: usize, split: usize, ranks: usize, local: &[Sizes]) -> Divided {
    let Some((d, f)) = find(dims, axis) else { return Ok(None) };
    let size = |f: &Factor| f.axis.map_or_else(|| vec![f.size], |a| local[a].clone());
    let mut outer = 1;
    for f in &dims[d][..f] {
        let [n] = size(f)[..] else { return Err(()) };
        outer *= n;
    }
    let is_innermost = dims[d][f + 1..].iter().all(|f| size(f) == [1]);
    let divides = |by: usize| matches!(local[axis][..], [n] if n.is_multiple_of(by));
    let is_exact = (is_innermost || divides(split * ranks)) && (outer == 1 || split == 1 || divides(split));
    if outer == 0 || !is_exact { Err(()) } else { Ok(Some(Placement::sharded(d, outer * split))) }
}

/// The axis that the placement of an operand divides, and its chunks.
fn divided(dims: &[Dim], placement: Placement, ranks: usize, local: &[Sizes]) -> Option<(usize, usize)> {
    let (d, split) = placement.shard()?;
    let axis = |f: &Factor| {
        let axis = f.axis?;
        let at = |split| along(dims, axis, split, ranks, local);
        let Ok(Some(whole)) = at(1) else {
            // More chunks may fit.
            return (at(split) == Ok(Some(placement))).then_some((axis, split));
        };
        let (_, outer) = whole.shard()?;
        let inner = split.is_multiple_of(outer).then_some(split / outer)?;
        (at(inner) == Ok(Some(placement))).then_some((axis, inner))
    };
    // A placement may fit the axes of size one too, so the largest axis is taken.
    let fits = dims[d].iter().filter_map(axis);
    fits.max_by_key(|(axis, _)| local[*axis].iter().max().copied())
}

/// Return how a call is divided over a mesh of these sizes. `now` has the placements of each operand.
///
/// ```
/// use torchtpu_distributed::ReduceOp;
/// use torchtpu_distributed::placement::Placement::{Partial, Replicate, Shard};
/// use torchtpu_distributed::shard::propagate;
/// use torchtpu_tensor::axes::{Axes, Combine};
/// use torchtpu_tensor::{DType, Device, Meta};
///
/// let meta = |dims: &[usize]| Meta::new(dims, DType::F32, Device::META);
/// let (x, y) = ([meta(&[8, 4]), meta(&[4, 6])], [meta(&[8, 6])]);
/// let axes = Axes::parse("m k, k n -> m n", &x, &y).reduces("k", Combine::Sum);
/// let plan = propagate(&axes, &x, &y, &[2, 2], &[vec![Shard(0), Replicate], vec![Replicate, Shard(0)]]);
/// assert_eq!(plan.operands, [[Shard(0), Shard(1)], [Replicate, Shard(0)]]);
/// assert_eq!(plan.results, [[Shard(0), Partial(ReduceOp::Sum)]]);
/// ```
pub fn propagate(axes: &Axes, x: &[Meta], y: &[Meta], mesh: &[usize], now: &[Vec<Placement>]) -> Plan {
    let mut plan = Plan {
        operands: vec![Vec::new(); x.len()],
        results: vec![Vec::new(); y.len()],
        lacks_rule: false,
        indexed: None,
    };
    let mut local: Vec<Sizes> = axes.sizes.iter().map(|n| vec![*n]).collect();
    for (m, &ranks) in mesh.iter().enumerate() {
        let now_here: Vec<Placement> = now.iter().map(|p| p[m]).collect();
        // The bytes of an operand if it was replicated along this mesh dimension.
        let whole = |i: usize| {
            let others = (0..mesh.len()).filter(|k| *k != m && now[i][*k].shard().is_some());
            (x[i].numel() * x[i].dtype.size_bytes()) as f64 / others.map(|k| mesh[k]).product::<usize>() as f64
        };
        let whole: Vec<f64> = (0..x.len()).map(whole).collect();
        let mut strategies = divisions(axes, &now_here, ranks, &local);
        let is_divided = !strategies.is_empty();
        strategies.extend(linear(axes, &now_here, y.len()));
        strategies.push(Strategy {
            operands: vec![Placement::Replicate; x.len()],
            results: vec![Placement::Replicate; y.len()],
            divided: None,
        });
        let cost =
            |s: &Strategy| -> f64 { (0..x.len()).map(|i| bytes(now_here[i], s.operands[i], ranks, whole[i])).sum() };
        let costs: Vec<f64> = strategies.iter().map(cost).collect();
        let best = (0..costs.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).expect("one replicates all");
        let chosen = &strategies[best];
        plan.lacks_rule |= !is_divided && now_here.iter().any(|p| p.shard().is_some());
        if let Some((axis, split)) = chosen.divided {
            local[axis] = divide(&local[axis], split, ranks);
            if axes.indexed.is_some_and(|i| i.axis == axis) {
                plan.indexed = Some(Box::new(axes.clone()));
            }
        }
        plan.operands.iter_mut().zip(&chosen.operands).for_each(|(all, p)| all.push(*p));
        plan.results.iter_mut().zip(&chosen.results).for_each(|(all, p)| all.push(*p));
    }
    plan
}

/// The strategies that divide an axis on which an operand is sharded. Those that reduce no axis come first.
fn divisions(axes: &Axes, now: &[Placement], ranks: usize, local: &[Sizes]) -> Vec<Strategy> {
    let mut candidates: Vec<(usize, usize)> = Vec::new();
    for (dims, p) in axes.operands.iter().zip(now) {
        candidates.extend(divided(dims, *p, ranks, local).filter(|c| !candidates.contains(c)));
    }
    let mut found: Vec<Strategy> = candidates.iter().filter_map(|&c| division(axes, c, now, ranks, local)).collect();
    found.sort_by_key(|s| s.results.iter().any(|p| p.partial().is_some()));
    found
}

fn division(
    axes: &Axes,
    divided: (usize, usize),
    now: &[Placement],
    ranks: usize,
    local: &[Sizes],
) -> Option<Strategy> {
    let (axis, split) = divided;
    if split != 1 && axes.indexed.is_some_and(|i| i.axis == axis) {
        return None;
    }
    let reduced = || axes.reduced.iter().filter(|r| r.axis == axis);
    let once = reduced().fold(0, |mask, r| mask | r.once);
    let is_once = |i: usize| i < 64 && once >> i & 1 != 0;
    // A rank without elements has no maximum. It gives zeros to a sum, and so no summand of what is added once.
    let needs_elements = reduced().any(|r| matches!(r.by, Combine::Max | Combine::Min))
        || now.iter().enumerate().any(|(i, p)| is_once(i) && p.partial().is_some());
    if needs_elements && divide(&local[axis], split, ranks).contains(&0) {
        return None;
    }
    let operand = |(i, dims): (usize, &Vec<Dim>)| match along(dims, axis, split, ranks, local).ok()? {
        Some(p) => Some(p),
        None if is_once(i) => Some(Placement::Partial(ReduceOp::Sum)),
        None => Some(Placement::Replicate),
    };
    let result = |(i, dims): (usize, &Vec<Dim>)| match along(dims, axis, split, ranks, local).ok()? {
        Some(p) => Some(p),
        None => Some(reduced().find(|r| r.result == i).map_or(Placement::Replicate, |r| {
            Placement::Partial(match r.by {
                Combine::Sum => ReduceOp::Sum,
                Combine::Product => ReduceOp::Product,
                Combine::Max => ReduceOp::Max,
                Combine::Min => ReduceOp::Min,
            })
        })),
    };
    Some(Strategy {
        operands: axes.operands.iter().enumerate().map(operand).collect::<Option<_>>()?,
        results: axes.results.iter().enumerate().map(result).collect::<Option<_>>()?,
        divided: Some(divided),
    })
}

/// The strategies that keep a pending sum, or mean, of operands in which the call is linear.
fn linear(axes: &Axes, now: &[Placement], results: usize) -> Vec<Strategy> {
    let mut found = Vec::new();
    for op in [ReduceOp::Sum, ReduceOp::Avg] {
        let pending = Placement::Partial(op);
        for &set in &axes.linear {
            let is_in = |i: usize| i < 64 && set >> i & 1 != 0;
            if !now.iter().enumerate().any(|(i, p)| is_in(i) && *p == pending) {
                continue;
            }
            let operand = |i| if is_in(i) { pending } else { Placement::Replicate };
            found.push(Strategy {
                operands: (0..now.len()).map(operand).collect(),
                results: vec![pending; results],
                divided: None,
            });
        }
    }
    found
}
