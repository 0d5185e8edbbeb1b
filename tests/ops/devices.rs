//! Operands on two devices: each row refuses them, or computes the right result. It never reads memory that is not
//! there.

use crate::samples::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use torchtpu::lazy::{EagerMode, Interpret};
use torchtpu::schema::{Arg, Args, Row, Schema};
use torchtpu::{Device, Result, Tensor};

/// Put tensor `n` of `args`, which are on `cpu`, on `device`, and the others on `home`. Lists count.
fn with_one_on(args: &[Owned], n: usize, home: Device, device: Device) -> Result<Vec<Owned>> {
    let mut at = 0;
    let mut moved = |t: &Tensor| {
        at += 1;
        t.to_device(if at - 1 == n { device } else { home })
    };
    args.iter().map(|a| a.map(&mut moved)).collect()
}

/// Call the row and read its results. A refusal is no result.
fn results(row: &Row, args: &[Owned]) -> Option<Vec<Tensor>> {
    call(row, args).ok()?.iter().map(|y| y.to_device(Device::CPU)).collect::<Result<_>>().ok()
}

fn in_place(row: &Row, args: &[Owned]) -> Option<Tensor> {
    let mut a: Vec<Arg<'_>> = args.iter().map(Owned::as_arg).collect();
    let Owned::Tensor(x) = &args[0] else { return None };
    let x = x.copy().ok()?;
    a[0] = Arg::Tensor(&x);
    row.call_in_place(&Args(&a)).ok()?;
    x.to_device(Device::CPU).ok()
}

fn ask(row: &Row, schema: &Schema, sample: &torchtpu::schema::Sample, tpu: Device) -> std::result::Result<(), String> {
    let cpu = arguments(schema, sample, plain(sample, torchtpu::DType::F32)).map_err(|e| e.to_string())?;
    let count = cpu.iter().map(|a| a.tensors().len()).sum();
    if count < 2 {
        return Ok(());
    }
    let want = results(row, &cpu).unwrap_or_default();
    for home in [Device::CPU, tpu, Device::META] {
        for other in [Device::CPU, tpu, Device::META].into_iter().filter(|d| *d != home) {
            for n in 0..count {
                let at = |what: &str| format!("{home}, tensor {n} on {other}: {what}");
                let mixed = with_one_on(&cpu, n, home, other).map_err(|e| e.to_string())?;
                let got = catch_unwind(AssertUnwindSafe(|| {
                    if row.has_in_place() {
                        in_place(row, &mixed);
                    }
                    results(row, &mixed)
                }));
                let got = got.map_err(|p| at(p.downcast_ref::<String>().map_or("a panic", String::as_str)))?;
                let is_known = !sample.random && home != Device::META && other != Device::META;
                for (y, w) in got.iter().flatten().zip(&want).filter(|_| is_known) {
                    close(y, w, 1e-4).map_err(|e| at(&e))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn operands_on_two_devices_are_refused_or_computed() {
    let _one_at_a_time = alone(EagerMode::Fused, Interpret::Always);
    let tpu = torchtpu::device("tpu").expect("a device name");
    every("two devices", |row, schema, sample| ask(row, schema, sample, tpu));
    every(RANDOM, |row, schema, sample| ask(row, schema, sample, tpu));
}
