//! Table-driven suites: the same questions for every row of the table and its samples.
//!
//! There is no test code per op. Known gaps are rows of [`LIMITS`], each with its reason.

mod axes;
mod devices;
mod generated;
mod gradients;
mod narrow;
mod profiles;
mod samples;
mod shard;
mod sharded;
mod tpu;
mod wrong_values;

use samples::*;
use std::collections::BTreeSet;
use torchtpu::lazy::{EagerMode, Interpret};
use torchtpu::schema::{Arg, Args, InPlace, Ret, Schema, Ty};
use torchtpu::{DType, Device, Dims, Result, Tensor, ops};

#[test]
fn every_schema_parses_and_overloads_are_unique() {
    let mut seen = BTreeSet::new();
    for row in ops::rows() {
        let s = Schema::parse(row.schema).unwrap_or_else(|e| panic!("{e}"));
        assert!(seen.insert((s.name, s.overload)), "{} stands twice", row.schema);
        for sample in (row.samples)() {
            assert!(sample.args.len() <= s.params.len(), "{}: a sample has too many arguments", row.schema);
        }
    }
}

#[test]
fn inferred_results_equal_computed_ones() {
    every("infer", |row, schema, sample| {
        let args = arguments(schema, sample, plain(sample, DType::F32)).map_err(|e| e.to_string())?;
        let y = call(row, &args).map_err(|e| e.to_string())?;
        let meta = match on(&args, Device::META).and_then(|a| call(row, &a)) {
            Ok(m) => m,
            Err(e) if e.message().contains("meta") && limited(row, READS_VALUES) => return Ok(()),
            Err(e) => return Err(e.to_string()),
        };
        if y.len() != meta.len() {
            return Err(format!("{} results were inferred as {}", y.len(), meta.len()));
        }
        for (y, m) in y.iter().zip(&meta) {
            if y.dims() != m.dims() || steps(y) != steps(m) || y.dtype() != m.dtype() {
                return Err(format!("{y:?} was inferred as {m:?}"));
            }
        }
        Ok(())
    });
}

/// Compare the StableHLO of the first sample of every row with a snapshot per family.
#[test]
fn lowerings_equal_their_snapshots() {
    let _one_at_a_time = alone(EagerMode::Fused, Interpret::Never);
    let tpu = torchtpu::device("tpu").expect("a device name");
    let mut texts: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    // Ops on lists are lowered element by element, like the rows of single elements.
    for family in ops::FAMILIES.iter().filter(|family| family.name != "foreach") {
        for row in family.rows {
            let schema = Schema::parse(row.schema).expect("every schema parses");
            let Some(sample) = (row.samples)().into_iter().find(|s| !s.random) else { continue };
            let dtype = plain(&sample, DType::F32);
            let args = arguments(&schema, &sample, dtype).and_then(|a| on(&a, tpu)).expect("arguments");
            let y = call(row, &args).unwrap_or_else(|e| panic!("{}: {e}", row.schema));
            let text = texts.entry(family.name).or_default();
            for (i, y) in y.iter().filter(|y| y.device() == tpu).enumerate() {
                let program = match y.device_value().and_then(torchtpu::lazy::dump_stablehlo) {
                    Ok(p) => p,
                    // The result is a view of an argument or was read, so nothing is pending.
                    Err(e) => format!("({})\n", e.message()),
                };
                text.push_str(&format!(
                    "// {} result {i}\n{program}\n",
                    row.schema.split('(').next().unwrap_or_default()
                ));
            }
            torchtpu::lazy::mark_step();
        }
    }
    for (family, text) in texts {
        insta::assert_snapshot!(family, text);
    }
}

#[test]
fn in_place_forms_equal_functions() {
    every("in place", |row, schema, sample| {
        if !row.has_in_place() {
            return Ok(());
        }
        let args = arguments(schema, sample, plain(sample, DType::F32)).map_err(|e| e.to_string())?;
        let Owned::Tensor(x) = &args[0] else { return Ok(()) };
        let want = call(row, &args).map_err(|e| e.to_string())?.swap_remove(0);
        let target = x.copy().map_err(|e| e.to_string())?;
        let version = target.version();
        let mut a: Vec<Arg<'_>> = args.iter().map(Owned::as_arg).collect();
        let outcome = match row.in_place {
            InPlace::By(f) => {
                a[0] = Arg::Tensor(&target);
                f(&Args(&a)).map(drop)
            }
            _ => torchtpu::inplace::apply(&target, |alias| {
                let mut a: Vec<Arg<'_>> = args.iter().map(Owned::as_arg).collect();
                a[0] = Arg::Tensor(alias);
                match (row.call)(&Args(&a))? {
                    Ret::Tensor(t) => Ok(t),
                    other => panic!("{other:?}"),
                }
            })
            .map(drop),
        };
        if !torchtpu::can_cast(want.dtype(), x.dtype()) || (want.dims() != x.dims() && target.dims() == x.dims()) {
            // A result that does not fit must be refused, and the target must stay unchanged.
            return match outcome {
                Ok(()) => Err(format!("{want:?} was written into {x:?}")),
                Err(_) => close(&target, x, 0.0),
            };
        }
        outcome.map_err(|e| e.to_string())?;
        // Dropout with probability zero returns its input and writes nothing.
        let is_nothing = schema.name.ends_with("dropout") && want.shares_storage(x);
        if (target.version() == version) != is_nothing {
            return Err(format!("the version was {version} and is {}", target.version()));
        }
        close(&target, &want.to_dtype(x.dtype()).map_err(|e| e.to_string())?, 1e-6)
    });
}

#[test]
fn samples_reach_every_node() {
    // Forward and backward of all samples must record every kind of node at least once.
    let mut reached: BTreeSet<&'static str> = BTreeSet::new();
    every_call(&mut |call| {
        reached.insert(call.op.node());
    });
    let missing: Vec<_> =
        ops::Prim::NODES.iter().map(|(n, _)| *n).filter(|n| !reached.contains(n) && !NOT_SAMPLED.contains(n)).collect();
    assert!(missing.is_empty(), "no sample reaches {missing:?}");
}

/// Nodes that no sample reaches: users define them, their results are random, they work in place, they need other
/// ranks, they are for accelerators, or their gradient is not the slope of the formula. They have their own tests.
const NOT_SAMPLED: &[&str] =
    &["RandomBits", "Rejection", "Pathwise", "AdamW", "Sgd", "CtcLossBackward", "Inline", "Collective", "SmallDivisor"];

#[test]
fn broadcasting_follows_numpy() {
    let d = |v: &[usize]| Dims::new(v);
    assert_eq!(torchtpu::op::broadcast_dims(&d(&[2, 1, 3]), &d(&[4, 1])).unwrap(), d(&[2, 4, 3]));
    let e = torchtpu::op::broadcast_dims(&d(&[2, 3]), &d(&[4, 3])).unwrap_err();
    assert_eq!(
        e.to_string(),
        "The size of tensor a (2) must match the size of tensor b (4) at non-singleton dimension 0"
    );
}

#[test]
fn rejection_sampling_is_equal_in_kernels_and_programs() {
    use torchtpu::ops::random::{Proposal, Rejection};
    let _one_at_a_time = alone(EagerMode::Fused, Interpret::Never);
    let tpu = torchtpu::device("tpu").expect("a device name");
    let bits: Vec<i64> = (0..64).map(|i: i64| i.wrapping_mul(0x2545_F491_4F6C_DD1D)).collect();
    let bits = Tensor::from_slice_on(&bits, &[64], Device::CPU).unwrap();
    for (kind, a, b) in [
        (Proposal::Gamma, 1.5, 1.5),
        (Proposal::Poisson, 4.0, 4.0),
        (Proposal::Poisson, 40.0, 40.0),
        (Proposal::Binomial, 12.0, 0.25),
        (Proposal::Binomial, 300.0, 0.25),
    ] {
        let draw = |device: Device| {
            let full = |v: f64| Tensor::from_slice_on(&[v; 64], &[64], device).unwrap();
            let x = [bits.to_device(device).unwrap(), full(a), full(b)];
            let op = ops::Prim::Rejection(Rejection(kind));
            let y = torchtpu::dispatch::call(op, &[&x[0], &x[1], &x[2]]).unwrap();
            y.to_device(Device::CPU).unwrap().to_vec::<f64>().unwrap()
        };
        let (host, program) = (draw(Device::CPU), draw(tpu));
        let near = host.iter().zip(&program).all(|(h, p)| (h - p).abs() <= 1e-9 * h.abs());
        assert!(near, "{kind:?}: {host:?} {program:?}");
        assert!(host.iter().any(|&v| v != host[0]), "{kind:?}");
    }
}

#[test]
fn random_results_have_inferred_types_and_repeat_with_the_seed() {
    let _one_at_a_time = alone(EagerMode::Fused, Interpret::Never);
    let tpu = torchtpu::device("tpu").expect("a device name");
    every(RANDOM, |row, schema, sample| {
        let draw = |device: Device, seed: u64| -> Result<Tensor> {
            torchtpu::random::manual_seed(seed);
            let args = on(&arguments(schema, sample, DType::F32)?, device)?;
            let args: Vec<Arg<'_>> = args
                .iter()
                .zip(&schema.params)
                .map(|(a, p)| if p.ty == Ty::Device { Arg::Device(device.into()) } else { a.as_arg() })
                .collect();
            match (row.call)(&Args(&args))? {
                Ret::Tensor(t) => Ok(t),
                other => panic!("{other:?}"),
            }
        };
        let described = draw(Device::META, 1).map_err(|e| format!("meta: {e}"))?;
        for device in [Device::CPU, tpu] {
            let get =
                |seed| draw(device, seed).and_then(|y| y.to_device(Device::CPU)).map_err(|e| format!("{device}: {e}"));
            let (a, b, c) = (get(7)?, get(7)?, get(8)?);
            if a.dims() != described.dims() || a.dtype() != described.dtype() {
                return Err(format!("{a:?} on {device}, {described:?} on meta"));
            }
            close(&a, &b, 0.0).map_err(|e| format!("{device}: the same seed: {e}"))?;
            if close(&a, &c, 0.0).is_ok() {
                return Err(format!("{device}: another seed gives the same numbers"));
            }
        }
        Ok(())
    });
}

/// `help(torch.softmax)` shows the text of the first row of a name.
#[test]
fn every_op_has_a_help_text_of_its_own() {
    let (mut seen, mut problems) = (std::collections::BTreeMap::new(), Vec::new());
    let mut names = BTreeSet::new();
    for row in ops::rows() {
        let is_first = names.insert(row.name());
        match (is_first, row.doc.is_empty()) {
            (true, true) => problems.push(format!("{}: the first row has no text", row.name())),
            (false, false) => problems.push(format!("{}: a later row has a text, which nobody sees", row.schema)),
            (false, true) => continue,
            _ => {}
        }
        if row.doc.starts_with("Alias of ") {
            continue;
        }
        // Texts that differ in the name only say nothing.
        let text = row.doc.replace(row.name(), "_");
        if let Some(other) = seen.insert(text, row.name()) {
            problems.push(format!("{} and {other} have the same text", row.name()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
