//! Tests of sharding: every call on the parts of simulated ranks, and every change of placements, gives the whole.

use crate::axes::{is_beyond, metas, other_calls, run, tolerance};
use crate::samples::{self, Call, close, every_call, row_major, tensor};
use std::collections::{BTreeMap, BTreeSet};
use torchtpu::distributed::ReduceOp;
use torchtpu::distributed::placement::{Placement, pieces, text};
use torchtpu::distributed::redistribute::{Exchange, route};
use torchtpu::distributed::shard::{Plan, propagate};
use torchtpu::distributed::spec::local_dims;
use torchtpu::op::Prim;
use torchtpu::ops::pointwise::{BinaryKind, binary};
use torchtpu::schema::Fill;
use torchtpu::{DType, Dims, Error, Result, Scalar, Tensor, no_grad};

/// Sizes of meshes. Three ranks divide few sizes evenly.
const MESHES: &[&[usize]] = &[&[2], &[3], &[2, 2], &[3, 2]];

/// A generator of small numbers, the same in each run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// The coordinates of all ranks of a mesh.
fn coordinates(mesh: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &n in mesh {
        all = all.iter().flat_map(|c: &Vec<usize>| (0..n).map(move |i| [&c[..], &[i]].concat())).collect();
    }
    all
}

fn reduced(op: ReduceOp, x: &[&Tensor]) -> Result<Tensor> {
    let mut y = x[0].clone();
    for x in &x[1..] {
        y = match op {
            ReduceOp::Sum | ReduceOp::Avg => y.add(x)?,
            ReduceOp::Product => y.mul(x)?,
            ReduceOp::Max => binary(BinaryKind::Maximum, &y, x)?,
            ReduceOp::Min => binary(BinaryKind::Minimum, &y, x)?,
            ReduceOp::BAnd | ReduceOp::BOr | ReduceOp::BXor => unreachable!("no test uses {op:?}"),
        };
    }
    if op == ReduceOp::Avg { y.div_scalar(x.len() as f64) } else { Ok(y) }
}

/// What rank `i` of a group gets from a collective.
fn exchanged(exchange: Exchange, x: &[&Tensor], i: usize) -> Result<Tensor> {
    assert!(x.iter().all(|t| t.dims() == x[0].dims()), "tensors of one collective have equal sizes: {x:?}");
    let block = |t: &Tensor, dim: usize| {
        assert!(t.dims()[dim].is_multiple_of(x.len()), "blocks have equal sizes");
        let size = t.dims()[dim] / x.len();
        t.narrow(dim as i64, (i * size) as i64, size as i64)
    };
    match exchange {
        Exchange::AllReduce(op) => reduced(op, x),
        Exchange::AllGather { dim } => Tensor::cat(x, dim as i64),
        Exchange::ReduceScatter { op, dim } => block(&reduced(op, x)?, dim),
        Exchange::AllToAll { split, concat } => {
            let blocks = x.iter().map(|x| block(x, split)).collect::<Result<Vec<_>>>()?;
            Tensor::cat(&blocks.iter().collect::<Vec<_>>(), concat as i64)
        }
    }
}

/// Change the placements of the parts of all ranks.
fn redistributed(
    mesh: &[usize],
    dims: &Dims,
    mut x: Vec<Tensor>,
    from: &[Placement],
    to: &[Placement],
) -> Result<Vec<Tensor>> {
    let all = coordinates(mesh);
    let routes: Vec<_> = all.iter().map(|c| route(dims, mesh, c, from, to)).collect();
    for k in 0..routes[0].len() {
        let steps: Vec<_> = routes.iter().map(|r| &r[k]).collect();
        assert!(steps.iter().all(|s| (s.mesh_dim, s.from, s.to) == (steps[0].mesh_dim, steps[0].from, steps[0].to)));
        let m = steps[0].mesh_dim;
        let before = steps.iter().zip(&x).map(|(s, x)| s.before(x)).collect::<Result<Vec<_>>>()?;
        for (r, c) in all.iter().enumerate() {
            let is_beside = |o: &Vec<usize>| (0..mesh.len()).all(|d| d == m || o[d] == c[d]);
            let group: Vec<&Tensor> = (0..all.len()).filter(|o| is_beside(&all[*o])).map(|o| &before[o]).collect();
            let got = match steps[r].exchange() {
                Some(exchange) => exchanged(exchange, &group, c[m])?,
                None => before[r].clone(),
            };
            x[r] = steps[r].after(&got)?;
        }
    }
    Ok(x)
}

/// A part of a tensor along one mesh dimension, made without the code under test where that is possible.
fn part(x: &Tensor, p: Placement, ranks: usize, i: usize) -> Result<Tensor> {
    match p {
        Placement::Replicate => Ok(x.clone()),
        Placement::Shard(dim) => {
            let (n, size) = (x.dims()[dim], x.dims()[dim].div_ceil(ranks));
            let start = (i * size).min(n);
            x.narrow(dim as i64, start as i64, (size.min(n - start)) as i64)
        }
        Placement::StridedShard { dim, split_factor } => {
            let taken = pieces(x.dims()[dim], split_factor, ranks, i);
            let parts = taken.iter().map(|&(s, n)| x.narrow(dim as i64, s as i64, n as i64));
            let parts = parts.chain([x.narrow(dim as i64, 0, 0)]).collect::<Result<Vec<_>>>()?;
            Tensor::cat(&parts.iter().collect::<Vec<_>>(), dim as i64)
        }
        // Multiples of the value that are not rounded.
        Placement::Partial(ReduceOp::Sum) if ranks == 2 => x.mul_scalar(0.5),
        Placement::Partial(ReduceOp::Sum) => x.mul_scalar([0.5, 0.25, 0.25][i]),
        Placement::Partial(ReduceOp::Avg) => x.mul_scalar([2.0, 0.0][i]),
        Placement::Partial(op) => {
            let other = if op == ReduceOp::Max { -1.0 } else { 1.0 };
            if i == 1 { Ok(x.clone()) } else { x.add(&Tensor::full_meta(x.meta(), Scalar::Float(other))?) }
        }
    }
}

/// The parts of all ranks.
pub fn distributed(mesh: &[usize], x: &Tensor, placements: &[Placement]) -> Result<Vec<Tensor>> {
    let along = |c: Vec<usize>| {
        let mut y = x.clone();
        for m in 0..mesh.len() {
            y = part(&y, placements[m], mesh[m], c[m])?;
        }
        row_major(&y)
    };
    coordinates(mesh).into_iter().map(along).collect()
}

/// Any placements that a tensor may have.
pub fn placements(x: &Tensor, mesh: &[usize], numbers: &mut Numbers) -> Vec<Placement> {
    let rank = x.dims().len();
    // Sums of maxima depend on the order, so one kind of reduction is pending.
    let kinds = [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min];
    let kind = kinds[numbers.below(kinds.len())];
    // Twice a number may be too large, and a third is rounded.
    let is_small = |x: &Tensor| Ok::<_, Error>(samples::numbers(x)?.to_vec::<f64>()?.iter().all(|v| v.abs() < 1e30));
    let may_be = match kind {
        ReduceOp::Avg => mesh.iter().all(|n| *n == 2) && is_small(x).expect("numbers"),
        ReduceOp::Sum => true,
        _ => !x.dtype().is_complex(),
    };
    let any = |_: &usize| match numbers.below(6) {
        0 | 1 if rank > 0 => Placement::Shard(numbers.below(rank)),
        2 if rank > 0 => Placement::sharded(numbers.below(rank), 2 + numbers.below(2)),
        3 | 4 if x.dtype().is_inexact() && !x.dtype().is_stored() && may_be => Placement::Partial(kind),
        5 if rank > 0 => Placement::Shard(0),
        _ => Placement::Replicate,
    };
    mesh.iter().map(any).collect()
}

#[test]
fn every_change_of_placements_keeps_the_value() {
    let mut numbers = Numbers(7);
    let kinds = no_grad(|| -> Result<BTreeSet<String>> {
        let mut kinds = BTreeSet::new();
        for case in 0..1500 {
            let mesh = MESHES[case % MESHES.len()];
            let dims: Vec<usize> = (0..numbers.below(4)).map(|_| numbers.below(8)).collect();
            let x = tensor(&dims, Fill::Normal, case, DType::F64)?;
            let [from, to] = [0, 1].map(|_| placements(&x, mesh, &mut numbers));
            let what = format!("{} on {mesh:?}: {} to {}", x.dims(), text(&from), text(&to));
            let parts = redistributed(mesh, x.dims(), distributed(mesh, &x, &from)?, &from, &to)?;
            let steps = route(x.dims(), mesh, &vec![0; mesh.len()], &from, &to);
            kinds.extend(steps.iter().map(|s| format!("{:?}", s.exchange()).split([' ', '(']).take(2).collect()));
            for (c, x) in coordinates(mesh).iter().zip(&parts) {
                assert_eq!(*x.dims(), local_dims(&Dims::new(&dims), &to, mesh, c), "{what}");
            }
            let (want, got) = match to.iter().any(|p| p.partial().is_some()) {
                false => (distributed(mesh, &x, &to)?, parts),
                true => {
                    let whole = vec![Placement::Replicate; mesh.len()];
                    (vec![x.clone(); parts.len()], redistributed(mesh, x.dims(), parts, &to, &whole)?)
                }
            };
            for (got, want) in got.iter().zip(&want) {
                close(got, want, 1e-12).unwrap_or_else(|e| panic!("{what}: {e}"));
            }
        }
        Ok(kinds)
    });
    let kinds = kinds.expect("redistribution of a tensor");
    assert_eq!(kinds.len(), 5, "every collective occurs, and steps without one: {kinds:?}");
}

/// Run a call on the parts of all ranks, and compare what they give with the whole.
fn sharded(
    op: &Prim,
    x: &[Tensor],
    y: &[Tensor],
    mesh: &[usize],
    now: &[Vec<Placement>],
) -> std::result::Result<Plan, String> {
    let text = |e: Error| e.to_string();
    let (xm, ym) = (metas(x), metas(y));
    let plan = propagate(&op.axes(&xm, &ym), &xm, &ym, mesh, now);
    let mut operands = Vec::new();
    for (i, x) in x.iter().enumerate() {
        let parts = distributed(mesh, x, &now[i]).map_err(text)?;
        operands.push(redistributed(mesh, x.dims(), parts, &now[i], &plan.operands[i]).map_err(text)?);
    }
    let mut results = vec![Vec::new(); y.len()];
    for (r, c) in coordinates(mesh).iter().enumerate() {
        let local: Vec<Tensor> = operands.iter().map(|x| row_major(&x[r])).collect::<Result<_>>().map_err(text)?;
        let got = plan.run(op, &local.iter().collect::<Vec<_>>(), &xm, &ym, mesh, c);
        let got = got.and_then(|y| y.iter().map(row_major).collect::<Result<Vec<_>>>());
        let got = got.map_err(|e| format!("rank {c:?}: {e} in {plan:?}"))?;
        for (i, got) in got.into_iter().enumerate() {
            let want = local_dims(&ym[i].dims, &plan.results[i], mesh, c);
            if *got.dims() != want {
                return Err(format!("rank {c:?}: result {i} has sizes {}, not {want}, in {plan:?}", got.dims()));
            }
            results[i].push(got);
        }
    }
    let whole = vec![Placement::Replicate; mesh.len()];
    for (i, parts) in results.into_iter().enumerate() {
        for got in redistributed(mesh, &ym[i].dims, parts, &plan.results[i], &whole).map_err(text)? {
            close(&got, &y[i], 3.0 * tolerance(ym[i].dtype)).map_err(|e| format!("result {i}: {e} in {plan:?}"))?;
        }
    }
    Ok(plan)
}

/// Counts of calls with a sharded operand.
#[derive(Default)]
struct Count {
    calls: usize,
    without_rule: usize,
}

#[test]
fn every_call_on_shards_gives_the_whole() {
    let (mut numbers, mut seen, mut found) = (Numbers(3), BTreeSet::new(), Vec::new());
    let (mut counts, mut partial): (BTreeMap<&str, Count>, usize) = (BTreeMap::new(), 0);
    let mut look = |call: Call| {
        if !seen.insert(format!("{:?} {:?}", call.op, metas(&call.x))) || is_beyond(&call) {
            return;
        }
        let y = run(&call.op, &call.x).unwrap_or_else(|e| panic!("{:?}: {e}", call.op));
        for _ in 0..2 {
            let mesh = MESHES[numbers.below(MESHES.len())];
            let now: Vec<_> = call.x.iter().map(|x| placements(x, mesh, &mut numbers)).collect();
            match no_grad(|| sharded(&call.op, &call.x, &y, mesh, &now)) {
                Ok(plan) => {
                    let count = counts.entry(call.op.node()).or_default();
                    count.calls += usize::from(now.iter().flatten().any(|p| p.shard().is_some()));
                    count.without_rule += usize::from(plan.lacks_rule);
                    partial += usize::from(plan.results.iter().flatten().any(|p| p.partial().is_some()));
                }
                Err(e) => {
                    let operands: Vec<_> =
                        call.x.iter().zip(&now).map(|(x, p)| format!("{} {}", x.dims(), text(p))).collect();
                    found.push(format!("{:?} of {} on {mesh:?}: {e}", call.op, operands.join(", ")));
                }
            }
        }
    };
    every_call(&mut look);
    other_calls().into_iter().for_each(&mut look);
    let calls: usize = counts.values().map(|c| c.calls).sum();
    let without: usize = counts.values().map(|c| c.without_rule).sum();
    println!("{calls} calls with a sharded operand, {without} without a rule; {partial} with a partial result");
    for (node, count) in counts.iter().filter(|(_, c)| c.without_rule > 0) {
        println!("{node}: {} of {} calls without a rule", count.without_rule, count.calls);
    }
    assert!(calls > 0 && without * 4 < calls, "most calls have a rule: {without} of {calls} have none");
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found[..found.len().min(40)].join("\n"));
}
