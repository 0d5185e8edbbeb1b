//! Tests of sharded tensors: every sample, forward and backward, on ranks that are threads.

use crate::samples::{Owned, arguments, call, close, every, leaves, plain, requiring_grad, tensor, tolerance};
use crate::shard::{Numbers, distributed, placements};
use std::sync::Arc;
use std::time::Duration;
use torchtpu::distributed::mesh::DeviceMesh;
use torchtpu::distributed::placement::{Placement, text};
use torchtpu::distributed::sharded::{Member, counts, from_local, full_tensor, spec};
use torchtpu::distributed::store::{HashStore, Store};
use torchtpu::distributed::transport::Network;
use torchtpu::distributed::transport::memory::Memory;
use torchtpu::distributed::{Options, ProcessGroup, tensors};
use torchtpu::schema::{Fill, Row};
use torchtpu::{Backward, DType, Device, Result, Scalar, Tensor, no_grad};

/// Limit of a collective. It is only reached when something is broken.
const PATIENT: Duration = Duration::from_secs(60);

/// The members of all ranks of a new mesh.
pub fn members(sizes: &[usize]) -> Vec<Arc<Member>> {
    let (store, network): (Arc<dyn Store>, Arc<dyn Network>) =
        (Arc::new(HashStore::new()), Arc::new(Memory::default()));
    let n = sizes.iter().product();
    let mesh = Arc::new(DeviceMesh::new((0..n).collect(), sizes, &[]).expect("a mesh"));
    on_ranks(&(0..n).collect::<Vec<_>>(), |&rank| {
        let options = Options { timeout: PATIENT, ..Options::default() };
        let world = ProcessGroup::new(store.clone(), network.clone(), rank, n, options).expect("a group");
        let along = |d| {
            let group = world.split_group(&mesh.groups(d), None).expect("groups").expect("a group of this rank");
            tensors::register(&group, mesh.groups(d)).expect("a group for tensors")
        };
        Member::new(mesh.clone(), rank, (0..sizes.len()).map(along).collect(), Device::CPU).expect("a member")
    })
}

/// Run `work` on a thread for each item, and return the results in order.
pub fn on_ranks<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|threads| {
        let started: Vec<_> = items.iter().map(|item| threads.spawn(|| work(item))).collect();
        started.into_iter().map(|t| t.join().expect("a rank does not panic")).collect()
    })
}

/// Results of a sample, and gradients of its operands.
struct Outcome {
    results: Vec<Tensor>,
    gradients: Vec<Option<Tensor>>,
}

fn outcome(row: &Row, args: &[Owned], has_gradient: bool, member: Option<&Arc<Member>>) -> Result<Outcome> {
    let whole = |t: &Tensor| match spec(t)? {
        Some(_) => no_grad(|| full_tensor(t)),
        None => Ok(t.detach()),
    };
    let y = call(row, args)?;
    let outputs: Vec<Tensor> = y.iter().filter(|y| y.requires_grad()).cloned().collect();
    if has_gradient && !outputs.is_empty() {
        let gradient = |y: &Tensor| -> Result<Option<Tensor>> {
            let g = tensor(y.dims(), Fill::Normal, 91, y.dtype())?;
            let Some(member) = member.filter(|p| p.place == y.place()) else { return Ok(Some(g)) };
            from_local(member, &g, &vec![Placement::Replicate; member.groups.len()], y.dims(), None).map(Some)
        };
        let g = outputs.iter().map(gradient).collect::<Result<Vec<_>>>()?;
        torchtpu::autograd::backward(&outputs, &g, None, false, None)?;
    }
    let gradients = requiring_grad(args).into_iter().map(|x| x.grad().map(|g| whole(&g)).transpose());
    let gradients = gradients.collect::<Result<_>>()?;
    Ok(Outcome { results: y.iter().map(whole).collect::<Result<_>>()?, gradients })
}

fn compared(got: &Outcome, want: &Outcome) -> std::result::Result<(), String> {
    if got.results.len() != want.results.len() {
        return Err(format!("{} results, not {}", got.results.len(), want.results.len()));
    }
    for (i, (got, want)) in got.results.iter().zip(&want.results).enumerate() {
        close(got, want, 3.0 * tolerance(want.dtype())).map_err(|e| format!("result {i}: {e}"))?;
    }
    for (i, (got, want)) in got.gradients.iter().zip(&want.gradients).enumerate() {
        match (got, want) {
            (Some(got), Some(want)) => {
                close(got, want, 10.0 * tolerance(want.dtype())).map_err(|e| format!("gradient {i}: {e}"))?;
            }
            (None, None) => {}
            _ => return Err(format!("gradient {i} is {got:?}, not {want:?}")),
        }
    }
    Ok(())
}

/// Samples that need the elements in memory, or read the device of their operands.
const NOT_SHARDED: &[&str] = &[];

#[test]
fn every_sample_on_sharded_tensors_gives_the_whole() {
    let sizes = [3];
    let (mut all, mut numbers, before) = (members(&sizes), Numbers(11), counts());
    every("sharded", |row, schema, sample| {
        if NOT_SHARDED.contains(&row.name()) {
            return Ok(());
        }
        let args = arguments(schema, sample, plain(sample, DType::F32)).map_err(|e| e.to_string())?;
        let fresh = || {
            if sample.gradient { leaves(&args) } else { args.iter().map(|a| a.map(&mut |t| Ok(t.detach()))).collect() }
        };
        let want = fresh().and_then(|args| outcome(row, &args, sample.gradient, None)).map_err(|e| e.to_string())?;
        // The parts of each tensor on each rank.
        let tensors: Vec<&Tensor> = args.iter().flat_map(Owned::tensors).collect();
        let chosen: Vec<_> = tensors.iter().map(|t| placements(t, &sizes, &mut numbers)).collect();
        let parts: Vec<Vec<Tensor>> =
            tensors.iter().zip(&chosen).map(|(t, p)| no_grad(|| distributed(&sizes, t, p)).expect("parts")).collect();
        let results = on_ranks(&all, |member| {
            let rank = member.coordinate[0];
            let mut i = 0;
            let mut shard = |t: &Tensor| {
                i += 1;
                from_local(member, &parts[i - 1][rank], &chosen[i - 1], t.dims(), None)
            };
            let run = || -> Result<Outcome> {
                let args = args.iter().map(|a| a.map(&mut shard)).collect::<Result<Vec<_>>>()?;
                let args = if sample.gradient { leaves(&args)? } else { args };
                outcome(row, &args, sample.gradient, Some(member))
            };
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let result = caught.map_err(|_| "panic".to_string()).and_then(|r| r.map_err(|e| e.to_string()));
            if let Err(e) = &result {
                member.groups.iter().for_each(|g| tensors::abort(g, e));
            }
            result.and_then(|got| compared(&got, &want))
        });
        let is_broken = results.iter().any(std::result::Result::is_err);
        if is_broken {
            all = members(&sizes);
        }
        let how: Vec<_> = tensors.iter().zip(&chosen).map(|(t, p)| format!("{} {}", t.dims(), text(p))).collect();
        let first = results.into_iter().filter_map(std::result::Result::err).min_by_key(|e| e.contains("abort"));
        first.map_or(Ok(()), |e| Err(format!("{e}, of {}", how.join(", "))))
    });
    let after = counts();
    println!(
        "{} ops on parts, {} without a rule",
        after.calls - before.calls,
        after.without_rule - before.without_rule
    );
}

/// Inputs, targets, and weights and biases of two layers.
fn problem() -> Result<Vec<Tensor>> {
    let sizes: [&[usize]; 6] = [&[8, 6], &[8, 5], &[16, 6], &[16], &[5, 16], &[5]];
    sizes.iter().enumerate().map(|(i, dims)| tensor(dims, Fill::Unit, i, DType::F64)).collect()
}

/// Train for three steps. Return the loss of each step, and the parameters.
fn trained(x: &Tensor, y: &Tensor, parameters: Vec<Tensor>) -> Result<(Vec<f64>, Vec<Tensor>)> {
    use torchtpu::nn::Parameter;
    use torchtpu::nn::optim::{AdamOptions, AdamW, Optimizer};
    let p = parameters.into_iter().map(Parameter::new).collect::<Result<Vec<_>>>()?;
    let mut optimizer = AdamW::new(p.clone(), AdamOptions { lr: 0.05, ..AdamOptions::adamw() })?;
    let mut losses = Vec::new();
    for _ in 0..3 {
        optimizer.zero_grad()?;
        let t: Vec<Tensor> = p.iter().map(Parameter::tensor).collect();
        let hidden = torchtpu::ops::matmul::linear(x, &t[0], Some(&t[1]))?.tanh()?;
        let loss = torchtpu::ops::matmul::linear(&hidden, &t[2], Some(&t[3]))?.sub(y)?.square()?.mean()?;
        loss.backward()?;
        optimizer.step()?;
        losses.push(loss.item_f64()?);
    }
    Ok((losses, p.iter().map(|p| p.tensor().detach()).collect()))
}

#[test]
fn sharded_training_equals_that_of_one_process() {
    use Placement::{Replicate as R, Shard};
    let whole = problem().expect("tensors");
    let copies = whole[2..].iter().map(Tensor::copy).collect::<Result<_>>().expect("copies");
    let (losses, want) = trained(&whole[0], &whole[1], copies).expect("training");
    let (s0, s1) = (Shard(0), Shard(1));
    // Placements of inputs, targets, weights and biases: by data, by parameters, by tensors, and by both.
    let plans: [(&[usize], [Vec<Placement>; 6]); 4] = [
        (&[3], [vec![s0], vec![s0], vec![R], vec![R], vec![R], vec![R]]),
        (&[3], [vec![s0], vec![s0], vec![s0], vec![s0], vec![s0], vec![s0]]),
        (&[2], [vec![R], vec![R], vec![s0], vec![s0], vec![s1], vec![R]]),
        (&[2, 2], [vec![s0, R], vec![s0, R], vec![s0, s0], vec![s0, s0], vec![s0, s1], vec![s0, R]]),
    ];
    for (sizes, placements) in plans {
        on_ranks(&members(sizes), |member| {
            let rank = member
                .mesh
                .ranks_with(0)
                .expect("rank 0")
                .iter()
                .position(|r| member.mesh.coordinate(*r).as_deref() == Some(&member.coordinate[..]));
            let rank = rank.expect("a rank of the mesh");
            let sharded = |(t, p): (&Tensor, &Vec<Placement>)| {
                from_local(member, &distributed(sizes, t, p)?[rank], p, t.dims(), None)
            };
            let t = whole.iter().zip(&placements).map(sharded).collect::<Result<Vec<_>>>().expect("sharded tensors");
            let (got_losses, got) = trained(&t[0], &t[1], t[2..].to_vec()).expect("sharded training");
            for (a, b) in got_losses.iter().zip(&losses) {
                assert!((a - b).abs() < 1e-9, "{sizes:?}: losses {got_losses:?}, not {losses:?}");
            }
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let spec = spec(got).expect("a spec").expect("a sharded tensor");
                assert_eq!(spec.placements, placements[i + 2], "a step keeps the placements of a parameter");
                close(&full_tensor(got).expect("the whole"), want, 1e-9).expect("the parameter of one process");
            }
        });
    }
}

#[test]
fn writes_keep_the_placements() {
    on_ranks(&members(&[2]), |member| {
        let whole = tensor(&[5, 4], Fill::Normal, 1, DType::F64).expect("a tensor");
        let shards = [Placement::Shard(0)];
        let x = from_local(
            member,
            &distributed(&[2], &whole, &shards).expect("parts")[member.coordinate[0]],
            &shards,
            &[5, 4],
            None,
        );
        let (x, y) = (x.expect("a sharded tensor"), whole.copy().expect("a copy"));
        for t in [&x, &y] {
            let number = Tensor::number(Scalar::Float(3.0), DType::F64).expect("a number");
            t.narrow(1, 1, 2).and_then(|v| v.mul_(&number).map(drop)).expect("a write through a view");
            let other = Tensor::full(&[5, 4], 2, DType::F64, t.place()).expect("a fill");
            t.copy_(&t.add(&other).expect("a sum")).expect("a copy into it");
        }
        assert_eq!(spec(&x).expect("a spec").expect("sharded").placements, shards);
        close(&full_tensor(&x).expect("the whole"), &y, 1e-12).expect("the same elements");
        // A replicated value that is written over it is cut.
        let z =
            Tensor::zeros(&[5, 4], DType::F64, Device::CPU).expect("zeros").to_device(x.place()).expect("replicated");
        x.copy_(&z).expect("a copy into it");
        assert_eq!(spec(&x).expect("a spec").expect("sharded").placements, shards);
    });
}
