//! Wrong values on device `tpu`: each result that depends on one raises its error when it is read, and so does each
//! gradient.

use crate::samples::*;
use torchtpu::lazy::{self, EagerMode, Interpret};
use torchtpu::schema::{Arg, Args, Fill, Row, Sample, Schema};
use torchtpu::{DType, Device, Error, Result, Tensor, ops};

/// Words of the errors of [`wrong`].
const WORDS: [&str; 2] = ["index out of range in self", "ZeroDivisionError"];

/// Return a value on `tpu` with the sizes and the dtype of `x`, one element of which was computed from an index that is
/// out of range, or by a division by zero.
fn wrong(x: &Tensor, tpu: Device) -> Result<Tensor> {
    let there = x.to_device(tpu)?;
    if there.numel() == 0 {
        return Ok(there);
    }
    if x.dtype().is_int() && x.dtype() != DType::U8 {
        let mut ones = vec![1i64; x.numel()];
        ones[0] = 0;
        let divisor = Tensor::from_slice(&ones, x.dims())?.to_dtype(x.dtype())?.to_device(tpu)?;
        return there.floor_divide(&divisor);
    }
    let mut places: Vec<i64> = (0..x.numel() as i64).collect();
    places[0] = x.numel() as i64;
    let places = Tensor::from_slice(&places, &[x.numel()])?.to_device(tpu)?;
    ops::indexing::index_select(&there.reshape(&[-1])?, 0, &places)?.reshape(&dims(x))
}

fn dims(x: &Tensor) -> Vec<i64> {
    x.dims().iter().map(|&n| n as i64).collect()
}

fn is_of_the_value(e: &Error) -> bool {
    WORDS.iter().any(|w| e.message().contains(w))
}

/// Results that keep their old value instead: running statistics, by row and number of the result.
const KEPT: &[(&str, &[usize])] =
    &[("_native_batch_norm_legit_functional", &[3, 4]), ("_batch_norm_with_update_functional", &[4, 5])];

fn is_kept(row: &Row, k: usize) -> bool {
    let name = row.schema.split('(').next().unwrap_or_default();
    KEPT.iter().any(|(of, results)| *of == name && results.contains(&k))
}

/// Return `args` with `f` of tensor `n`. Lists count.
fn with_one(args: &[Owned], n: usize, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<Owned>> {
    let mut at = 0;
    let mut changed = |t: &Tensor| {
        at += 1;
        if at - 1 == n { f(t) } else { Ok(t.clone()) }
    };
    args.iter().map(|a| a.map(&mut changed)).collect()
}

/// Return other values of the same dtype. Computed from them, a result that depends on `x` differs.
fn others(x: &Tensor) -> Result<Vec<Tensor>> {
    Ok(match x.dtype() {
        DType::Bool => vec![x.logical_not()?],
        d if d.is_inexact() => vec![x.mul_scalar(0.75)?, x.neg()?],
        _ => vec![x.flip(&(0..x.dims().len() as i64).collect::<Vec<_>>())?, x.mul_scalar(0)?],
    })
}

/// The results of a row, and of its in-place form.
fn results(row: &Row, args: &[Owned]) -> Result<Vec<Tensor>> {
    torchtpu::random::manual_seed(5);
    call(row, args)
}

fn in_place(row: &Row, args: &[Owned]) -> Result<Vec<Tensor>> {
    let mut a: Vec<Arg<'_>> = args.iter().map(Owned::as_arg).collect();
    let Some(Owned::Tensor(x)) = args.first() else { return Ok(vec![]) };
    let x = x.copy()?;
    a[0] = Arg::Tensor(&x);
    torchtpu::random::manual_seed(5);
    row.call_in_place(&Args(&a))?;
    Ok(vec![x])
}

fn gradients(row: &Row, args: &[Owned]) -> Result<Vec<Tensor>> {
    let leaves = leaves(args)?;
    let floats = requiring_grad(&leaves);
    let y: Vec<Tensor> = call(row, &leaves)?.into_iter().filter(Tensor::requires_grad).collect();
    if y.is_empty() || floats.is_empty() {
        return Ok(vec![]);
    }
    let g: Vec<Option<Tensor>> = y
        .iter()
        .enumerate()
        .map(|(k, y)| tensor(y.dims(), Fill::Normal, 91 + k, y.dtype())?.to_device(y.device()).map(Some))
        .collect::<Result<_>>()?;
    let grads = torchtpu::autograd::grad(&y, &floats, &g, None, false, true)?;
    grads.into_iter().zip(&floats).map(|(g, x)| g.map_or_else(|| x.mul_scalar(0), Ok)).collect()
}

/// A way to compute with a row.
type Form = (&'static str, fn(&Row, &[Owned]) -> Result<Vec<Tensor>>);

/// Return the results that could be read although they depend on tensor `n` of `args`.
fn missed(row: &Row, form: &Form, args: &[Owned], n: usize, tpu: Device) -> std::result::Result<Vec<usize>, String> {
    let there = on(args, tpu).map_err(|e| e.to_string())?;
    let there = with_one(&there, n, &mut |x| wrong(&x.to_device(Device::CPU)?, tpu)).map_err(|e| e.to_string())?;
    let y = match form.1(row, &there) {
        Ok(y) => y,
        Err(e) if is_of_the_value(&e) => return Ok(vec![]),
        // The form does not exist for these sizes.
        Err(_) if form.1(row, args).is_err() => return Ok(vec![]),
        Err(e) => return Err(format!("the call failed: {e}")),
    };
    let mut read = Vec::new();
    for (k, y) in y.iter().enumerate() {
        match y.to_device(Device::CPU).and_then(|y| y.to_bytes()) {
            Ok(_) => read.push(k),
            Err(e) if is_of_the_value(&e) => {}
            Err(e) => return Err(format!("another error: {e}")),
        }
    }
    if read.is_empty() {
        return Ok(read);
    }
    // What does not depend on the operand may be read.
    let Ok(want) = form.1(row, args) else { return Ok(vec![]) };
    let mut dependent = vec![];
    let x = args.iter().flat_map(Owned::tensors).nth(n).expect("an operand");
    for other in others(x).map_err(|e| e.to_string())? {
        let changed = with_one(args, n, &mut |_| Ok(other.clone())).map_err(|e| e.to_string())?;
        let Ok(y) = form.1(row, &changed) else { continue };
        dependent.extend(
            read.iter().copied().filter(|&k| k < y.len() && !is_kept(row, k) && close(&y[k], &want[k], 0.0).is_err()),
        );
    }
    Ok(dependent)
}

/// Ask of each form, with checks that are settled early and late.
fn ask(row: &Row, schema: &Schema, sample: &Sample, tpu: Device) -> std::result::Result<(), String> {
    let args = arguments(schema, sample, plain(sample, DType::F32)).map_err(|e| e.to_string())?;
    let mut forms: Vec<Form> = vec![("result", results)];
    if row.has_in_place() {
        forms.push(("in place", in_place));
    }
    if sample.gradient {
        forms.push(("gradient", gradients));
    }
    let mut wrongs = vec![];
    for n in 0..args.iter().map(|a| a.tensors().len()).sum() {
        for form in &forms {
            // A check that is settled early marks the operand, so one form shows it.
            let both: &[bool] = if form.0 == "result" { &[true, false] } else { &[false] };
            for &early in both {
                lazy::set_early_checks(early);
                match missed(row, form, &args, n, tpu) {
                    Ok(k) if k.is_empty() => {}
                    Ok(k) => wrongs.push(format!("{} {k:?} of tensor {n} (early {early}) was read", form.0)),
                    Err(e) => wrongs.push(format!("{} of tensor {n} (early {early}): {e}", form.0)),
                }
                lazy::set_early_checks(true);
                let _ = lazy::synchronize();
            }
        }
    }
    if wrongs.is_empty() { Ok(()) } else { Err(wrongs.join("; ")) }
}

fn all(mode: EagerMode, interpret: Interpret) {
    let _one_at_a_time = alone(mode, interpret);
    let tpu = torchtpu::device("tpu").expect("a device name");
    let mut last = "";
    let mut first_of_each = |row: &Row, schema: &Schema, sample: &Sample| {
        if std::mem::replace(&mut last, row.schema) == row.schema {
            return Ok(());
        }
        ask(row, schema, sample, tpu)
    };
    every("wrong values", &mut first_of_each);
    every(RANDOM, &mut first_of_each);
}

#[test]
fn results_of_wrong_values_raise_their_errors() {
    all(EagerMode::Fused, Interpret::Always);
}

#[test]
fn results_of_wrong_values_raise_their_errors_op_by_op() {
    all(EagerMode::Strict, Interpret::Always);
}
