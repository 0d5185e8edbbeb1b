//! Comparisons of gradients with central differences.

use crate::samples::*;
use torchtpu::schema::{Fill, Row, Sample, Schema};
use torchtpu::{DType, Device, Result, Tensor, c128};

/// Compare the gradients of all floats among `args`, in order, with central differences of `value`.
fn equal_differences(
    args: &[Owned],
    got: &[Option<Tensor>],
    tolerance: f64,
    value: &dyn Fn(&[Owned]) -> Result<f64>,
) -> std::result::Result<(), String> {
    let text = |e: torchtpu::Error| e.to_string();
    let eps = 1e-6;
    let mut at = 0;
    for (which, leaf) in args.iter().enumerate() {
        for (inner, x) in leaf.tensors().into_iter().enumerate() {
            if !x.dtype().is_inexact() {
                continue;
            }
            let flat = |t: &Tensor| numbers(t).and_then(|t| t.to_vec::<f64>()).map_err(text);
            let base = flat(x)?;
            let found = match &got[at] {
                Some(g) if g.dtype() != x.dtype() => return Err(format!("gradient of {x:?} is {g:?}")),
                Some(g) => flat(g)?,
                None => vec![0.0; base.len()],
            };
            at += 1;
            let dims: Vec<usize> = x.dims().to_vec();
            let rebuilt = |v: &[f64]| -> Result<Tensor> {
                if !x.dtype().is_complex() {
                    return Tensor::from_slice(v, &dims);
                }
                let z: Vec<c128> = v.chunks(2).map(|z| c128::new(z[0], z[1])).collect();
                Tensor::from_slice(&z, &dims)
            };
            for i in 0..base.len() {
                let shifted = |d: f64| -> Result<f64> {
                    let mut v = base.clone();
                    v[i] += d;
                    let changed: Vec<Owned> = args
                        .iter()
                        .enumerate()
                        .map(|(k, a)| {
                            let mut seen = 0;
                            a.map(&mut |t| {
                                let here = k == which && seen == inner;
                                seen += 1;
                                if here { rebuilt(&v) } else { Ok(t.clone()) }
                            })
                        })
                        .collect::<Result<_>>()?;
                    value(&changed)
                };
                let n = (shifted(eps).map_err(text)? - shifted(-eps).map_err(text)?) / (2.0 * eps);
                if (found[i] - n).abs() > tolerance * (1.0 + n.abs()) {
                    return Err(format!("argument {which}.{inner} element {i}: {} against {n}", found[i]));
                }
            }
        }
    }
    Ok(())
}

/// Return the weighted sum of the results that carry gradients.
fn weighed(row: &Row, args: &[Owned], weights: &[Owned]) -> Result<Option<Tensor>> {
    let mut total: Option<Tensor> = None;
    let mut weights = weights.iter().flat_map(Owned::tensors);
    for y in call(row, args)?.iter().filter(|y| y.dtype().is_inexact()) {
        let w = weights.next().expect("a weight for every result");
        let part = numbers(y)?.to_dtype(DType::F64)?.mul(w)?.sum()?;
        total = Some(match total {
            None => part,
            Some(t) => t.add(&part)?,
        });
    }
    Ok(total)
}

fn weights(row: &Row, args: &[Owned]) -> Result<Vec<Owned>> {
    let y = call(row, args)?;
    let floats = y.iter().filter(|y| y.dtype().is_inexact()).enumerate();
    floats.map(|(k, y)| tensor(numbers(y)?.dims(), Fill::Normal, 91 + k, DType::F64).map(Owned::Tensor)).collect()
}

/// Compare the gradients of a sample in one dtype with differences.
fn first_gradients(row: &Row, schema: &Schema, sample: &Sample, dtype: DType) -> std::result::Result<(), String> {
    let args = arguments(schema, sample, dtype).map_err(|e| e.to_string())?;
    let w = weights(row, &args).map_err(|e| e.to_string())?;
    let leaves = leaves(&args).map_err(|e| e.to_string())?;
    let floats = requiring_grad(&leaves);
    if floats.is_empty() {
        return Ok(());
    }
    let Some(y) = weighed(row, &leaves, &w).map_err(|e| e.to_string())? else { return Ok(()) };
    if !y.requires_grad() {
        return Err("the result does not require a gradient".into());
    }
    let grads = torchtpu::autograd::grad(&[y], &floats, &[], None, false, true).map_err(|e| e.to_string())?;
    equal_differences(&args, &grads, 2e-5, &|args| {
        weighed(row, args, &w)?.expect("the same results as before").item_f64()
    })
}

/// Compare second derivatives with differences: gradients of gradients, by the arguments and by the output gradients.
fn second_gradients(row: &Row, schema: &Schema, sample: &Sample, dtype: DType) -> std::result::Result<(), String> {
    let args = arguments(schema, sample, dtype).map_err(|e| e.to_string())?;
    let count = args.len();
    let all: Vec<Owned> = args
        .into_iter()
        .chain(weights(row, &arguments(schema, sample, dtype).map_err(|e| e.to_string())?).map_err(|e| e.to_string())?)
        .collect();
    // Sum the gradients of all floats, times fixed weights, to one number that can be differentiated again.
    let first = |all: &[Owned], create_graph: bool| -> Result<Option<(Tensor, Vec<Tensor>)>> {
        let leaves = leaves(all)?;
        let floats = requiring_grad(&leaves[..count]);
        if floats.is_empty() {
            return Ok(None);
        }
        let Some(y) = weighed(row, &leaves[..count], &leaves[count..])? else { return Ok(None) };
        if !y.requires_grad() {
            return Ok(None);
        }
        let grads = torchtpu::autograd::grad(&[y], &floats, &[], None, create_graph, true)?;
        let mut total = Tensor::full(&[], 0.0, DType::F64, Device::CPU)?;
        for (k, g) in grads.iter().enumerate() {
            if let Some(g) = g {
                let g = numbers(g)?;
                total = total.add(&g.mul(&tensor(g.dims(), Fill::Normal, 37 + k, DType::F64)?)?.sum()?)?;
            }
        }
        Ok(Some((total, requiring_grad(&leaves))))
    };
    let Some((total, floats)) = first(&all, true).map_err(|e| e.to_string())? else { return Ok(()) };
    let found = if total.requires_grad() {
        torchtpu::autograd::grad(&[total], &floats, &[], None, false, true).map_err(|e| e.to_string())?
    } else {
        vec![None; floats.len()]
    };
    equal_differences(&all, &found, 1e-4, &|all| first(all, false)?.expect("the same results as before").0.item_f64())
}

#[test]
fn gradients_equal_central_differences() {
    every("gradient", |row, schema, sample| {
        if sample.gradient { first_gradients(row, schema, sample, plain(sample, DType::F64)) } else { Ok(()) }
    });
}

#[test]
fn second_gradients_equal_central_differences() {
    every("second gradient", |row, schema, sample| {
        if sample.gradient { second_gradients(row, schema, sample, plain(sample, DType::F64)) } else { Ok(()) }
    });
}

/// Run `ask` for every sample that supports complex numbers, and print their number.
fn every_complex(question: &str, ask: impl Fn(&Row, &Schema, &Sample, DType) -> std::result::Result<(), String>) {
    let mut taken = 0;
    every(question, |row, schema, sample| {
        let takes = arguments(schema, sample, DType::C128).and_then(|args| call(row, &args)).is_ok();
        if !sample.gradient || !takes {
            return Ok(());
        }
        taken += 1;
        ask(row, schema, sample, DType::C128)
    });
    println!("{question}: {taken} samples take complex numbers");
    let single = std::env::var_os("TORCHTPU_TEST_OP").is_some();
    assert!(single || taken > 0, "nothing takes complex numbers");
}

/// Check PyTorch's complex gradients: the derivative by the real part, plus `i` times the derivative by the imaginary
/// part.
#[test]
fn complex_gradients_equal_central_differences() {
    every_complex(COMPLEX, first_gradients);
}

#[test]
fn complex_second_gradients_equal_central_differences() {
    every_complex(COMPLEX_SECOND, second_gradients);
}
