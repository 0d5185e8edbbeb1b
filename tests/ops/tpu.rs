//! Comparisons of device `tpu` with `cpu`, and compilation by libtpu.

use crate::samples::*;
use torchtpu::lazy::{self, EagerMode, Interpret};
use torchtpu::schema::{Arg, Args, Fill, Ret, Row, Schema, Ty};
use torchtpu::{DType, Device, Result, Tensor, ops};

/// Check that no program was compiled if all programs are interpreted.
fn check_interpreted(interpret: Interpret, launched: u64) {
    let compiled = lazy::metrics().segments_executed - launched;
    match interpret {
        Interpret::Always => assert_eq!(compiled, 0, "programs have ops that kernels refuse"),
        _ => assert!(compiled > 0, "nothing was compiled"),
    }
}

/// Compare `cpu` kernels with XLA:CPU, in every mode and dtype of the sample.
fn equals_cpu(mode: EagerMode, interpret: Interpret) {
    let _one_at_a_time = alone(mode, interpret);
    let launched = lazy::metrics().segments_executed;
    let tpu = torchtpu::device("tpu").expect("a device name");
    every("tpu equals cpu", |row, schema, sample| {
        let mut dtypes = if sample.only { vec![] } else { vec![DType::F32] };
        dtypes.extend_from_slice(sample.dtypes);
        for dtype in dtypes {
            let args = arguments(schema, sample, dtype).map_err(|e| e.to_string())?;
            let want = call(row, &args).map_err(|e| format!("{}: cpu: {e}", dtype.name()))?;
            let there = on(&args, tpu).map_err(|e| e.to_string())?;
            let got = call(row, &there).map_err(|e| format!("{}: tpu: {e}", dtype.name()))?;
            if want.len() != got.len() {
                return Err(format!("{} results against {}", got.len(), want.len()));
            }
            for (g, w) in got.iter().zip(&want) {
                if steps(g) != steps(w) {
                    return Err(format!("{}: strides {} against {}", dtype.name(), g.strides(), w.strides()));
                }
                let g = g.to_device(Device::CPU).map_err(|e| format!("{}: {e}", dtype.name()))?;
                close(&g, w, tolerance(dtype)).map_err(|e| format!("{}: {e}", dtype.name()))?;
            }
        }
        Ok(())
    });
    check_interpreted(interpret, launched);
}

/// Compare every row with complex arguments, even if it does not support them: both devices must give the same values,
/// or the same error.
fn complex_equals_cpu(interpret: Interpret) {
    let _one_at_a_time = alone(EagerMode::Fused, interpret);
    let launched = lazy::metrics().segments_executed;
    let tpu = torchtpu::device("tpu").expect("a device name");
    every("complex: tpu equals cpu", |row, schema, sample| {
        let args = arguments(schema, sample, DType::C64).map_err(|e| e.to_string())?;
        let there = on(&args, tpu).map_err(|e| e.to_string())?;
        let want = match call(row, &args) {
            Ok(y) => y,
            Err(e) => {
                return match call(row, &there) {
                    Err(t) if t.to_string() == e.to_string() => Ok(()),
                    Err(t) => Err(format!("tpu: {t}; cpu: {e}")),
                    Ok(_) => Err(format!("accepted on tpu; cpu: {e}")),
                };
            }
        };
        let got = call(row, &there).map_err(|e| format!("tpu: {e}"))?;
        for (g, w) in got.iter().zip(&want) {
            let g = g.to_device(Device::CPU).map_err(|e| e.to_string())?;
            close(&g, w, 1e-4)?;
        }
        Ok(())
    });
    check_interpreted(interpret, launched);
}

#[test]
fn complex_numbers_on_tpu_equal_those_on_cpu() {
    complex_equals_cpu(Interpret::Never);
}

#[test]
fn gradients_on_tpu_equal_those_on_cpu() {
    gradients_equal_cpu(Interpret::Never);
}

/// Compare kernels called by a recorded program with kernels called directly.
#[test]
fn interpreted_programs_equal_cpu() {
    equals_cpu(EagerMode::Fused, Interpret::Always);
}

#[test]
fn interpreted_complex_numbers_equal_those_on_cpu() {
    complex_equals_cpu(Interpret::Always);
}

#[test]
fn interpreted_gradients_equal_those_on_cpu() {
    gradients_equal_cpu(Interpret::Always);
}

/// Compare random results of every sample: the numbers must not depend on whether a program is compiled.
#[test]
fn interpreted_and_compiled_programs_draw_equal_numbers() {
    let _one_at_a_time = alone(EagerMode::Fused, Interpret::Never);
    let tpu = torchtpu::device("tpu").expect("a device name");
    every(RANDOM, |row, schema, sample| {
        let draw = |interpret: Interpret| -> Result<Vec<Tensor>> {
            lazy::set_interpret(interpret);
            torchtpu::random::manual_seed(3);
            let args = on(&arguments(schema, sample, DType::F32)?, tpu)?;
            let args: Vec<Arg<'_>> = args
                .iter()
                .zip(&schema.params)
                .map(|(a, p)| if p.ty == Ty::Device { Arg::Device(tpu.into()) } else { a.as_arg() })
                .collect();
            match (row.call)(&Args(&args))? {
                Ret::Tensor(t) => Ok(vec![t.to_device(Device::CPU)?]),
                other => panic!("{other:?}"),
            }
        };
        let compiled = draw(Interpret::Never).map_err(|e| format!("compiled: {e}"))?;
        let before = lazy::metrics().segments_executed;
        let interpreted = draw(Interpret::Always).map_err(|e| format!("interpreted: {e}"))?;
        if lazy::metrics().segments_executed > before {
            return Err("a kernel refused".to_string());
        }
        compiled.iter().zip(&interpreted).try_for_each(|(c, i)| close(i, c, 1e-5))
    });
}

#[test]
fn tpu_fused_equals_cpu() {
    equals_cpu(EagerMode::Fused, Interpret::Never);
}

#[test]
fn tpu_strict_equals_cpu() {
    equals_cpu(EagerMode::Strict, Interpret::Never);
}

#[test]
fn tpu_debug_equals_cpu() {
    equals_cpu(EagerMode::Debug, Interpret::Never);
}

fn gradients_equal_cpu(interpret: Interpret) {
    let _one_at_a_time = alone(EagerMode::Fused, interpret);
    let launched = lazy::metrics().segments_executed;
    let tpu = torchtpu::device("tpu").expect("a device name");
    every("tpu gradient equals cpu", |row, schema, sample| {
        if !sample.gradient {
            return Ok(());
        }
        let args = arguments(schema, sample, plain(sample, DType::F32)).map_err(|e| e.to_string())?;
        let run = |device: Device| -> Result<Vec<Option<Tensor>>> {
            let leaves = leaves(&on(&args, device)?)?;
            let floats = requiring_grad(&leaves);
            let y: Vec<Tensor> = call(row, &leaves)?.into_iter().filter(Tensor::requires_grad).collect();
            if y.is_empty() || floats.is_empty() {
                return Ok(vec![]);
            }
            let g: Vec<Option<Tensor>> = y
                .iter()
                .enumerate()
                .map(|(k, y)| tensor(y.dims(), Fill::Normal, 91 + k, y.dtype())?.to_device(device).map(Some))
                .collect::<Result<_>>()?;
            torchtpu::autograd::grad(&y, &floats, &g, None, false, true)
        };
        let want = run(Device::CPU).map_err(|e| format!("cpu: {e}"))?;
        let got = run(tpu).map_err(|e| format!("tpu: {e}"))?;
        for (g, w) in got.iter().zip(&want) {
            match (g, w) {
                (Some(g), Some(w)) => {
                    let g = g.to_device(Device::CPU).map_err(|e| e.to_string())?;
                    close(&g, w, 1e-4)?;
                }
                (None, None) => {}
                _ => return Err("a gradient is missing on one device".into()),
            }
        }
        Ok(())
    });
    check_interpreted(interpret, launched);
}

/// Compile the first sample of every row with libtpu, with the samples of a family in one program. Without libtpu, the
/// compiler must report that it is missing.
#[test]
fn libtpu_compiles_the_lowerings() {
    use torchtpu::lazy;
    const MACHINE: &str = "v5e:2x2";
    let _one_at_a_time = alone(EagerMode::Fused, Interpret::Never);
    let tpu = torchtpu::device("tpu").expect("a device name");
    let one = Tensor::ones(&[2], DType::F32, tpu).and_then(|t| t.add_scalar(1.0)).expect("an op");
    if let Err(e) = lazy::aot::compile_values(&[one.device_value().expect("a value")], MACHINE) {
        assert!(e.message().contains("needs libtpu"), "{e}");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "libtpu is missing: pip install libtpu");
        println!("libtpu is not installed; the lowerings were not compiled for a TPU");
        return;
    }
    let results = |row: &Row| -> Vec<Tensor> {
        let schema = Schema::parse(row.schema).expect("every schema parses");
        let Some(sample) = (row.samples)().into_iter().next() else { return vec![] };
        let args =
            arguments(&schema, &sample, plain(&sample, DType::F32)).and_then(|a| on(&a, tpu)).expect("arguments");
        let y = call(row, &args).unwrap_or_else(|e| panic!("{}: {e}", row.schema));
        y.into_iter().filter(|y| y.device() == tpu).collect()
    };
    // A computed value, or a view of an argument, has no program.
    let pending = |y: &[Tensor]| -> Vec<u64> {
        y.iter().filter_map(|y| y.device_value().ok()).filter(|h| lazy::dump_graph(*h).is_ok()).collect()
    };
    // A row that reads values cuts the segment, so compile it in its own program.
    let reads = |row: &Row| {
        let before = [Tensor::ones(&[2], DType::F32, tpu).and_then(|t| t.add_scalar(1.0)).expect("an op")];
        results(row);
        pending(&before).is_empty()
    };
    let mut groups: std::collections::VecDeque<Vec<&Row>> = std::collections::VecDeque::new();
    for family in ops::FAMILIES {
        let (alone, together): (Vec<&Row>, Vec<&Row>) =
            family.rows.iter().filter(|r| !limited(r, "libtpu")).partition(|r| reads(r));
        groups.push_back(together);
        groups.extend(alone.into_iter().map(|r| vec![r]));
    }
    let (mut compiled, mut failures) = (0, Vec::new());
    while let Some(rows) = groups.pop_front() {
        lazy::mark_step();
        let y: Vec<Tensor> = rows.iter().flat_map(|r| results(r)).collect();
        let handles = pending(&y);
        if handles.is_empty() {
            continue;
        }
        match lazy::aot::compile_values(&handles, MACHINE) {
            Ok(_) => compiled += handles.len(),
            Err(e) if rows.len() == 1 => {
                let name = rows[0].schema.split('(').next().unwrap_or_default();
                failures.push(format!("{name}: {}", e.message().lines().next().unwrap_or_default()));
            }
            // Compile one by one, to name the rows that are refused.
            Err(_) => groups.extend(rows.into_iter().map(|r| vec![r])),
        }
    }
    println!("libtpu compiled {compiled} results");
    assert!(compiled > 300, "only {compiled} results were compiled");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Check that attention of 16-bit floats requests one pass over `bfloat16` from a TPU, forward and backward, although
/// it computes in `f32`.
#[test]
fn attention_of_16_bit_floats_requests_one_pass() {
    use torchtpu::lazy::{self, Precision};
    use torchtpu::ops::attention::{AttentionArgs, scaled_dot_product_attention};
    let _one_at_a_time = alone(EagerMode::Fused, Interpret::Never);
    let tpu = torchtpu::device("tpu").expect("a device name");
    let settings = AttentionArgs { mask: None, dropout: 0.0, is_causal: true, scale: None, enable_gqa: false };
    let asked = |dtype: DType| -> Vec<String> {
        let run = || -> Result<Tensor> {
            let q = Tensor::ones(&[1, 2, 4, 8], dtype, tpu)?.add_scalar(1.0)?;
            q.requires_grad_(true)?;
            let y = scaled_dot_product_attention(&q, &q, &q, &settings)?.sum()?;
            let g = torchtpu::autograd::grad(&[y], std::slice::from_ref(&q), &[], None, false, true)?;
            g.into_iter().next().flatten().ok_or_else(|| torchtpu::Error::runtime("no gradient"))
        };
        let gradient = run().expect("a gradient");
        let text = lazy::aot::text_of_value(gradient.device_value().expect("a value")).expect("a program");
        let precision =
            |line: &str| line.split("precision = [").nth(1).map(|p| p.split(',').next().unwrap_or("").to_string());
        text.lines().filter(|l| l.contains("dot_general")).map(|l| precision(l).unwrap_or_default()).collect()
    };
    for (setting, wanted) in
        [(Precision::Highest, "HIGHEST"), (Precision::High, "HIGH"), (Precision::Medium, "DEFAULT")]
    {
        lazy::set_matmul_precision(setting);
        for (dtype, wanted) in [(DType::F32, wanted), (DType::BF16, "DEFAULT"), (DType::F16, "DEFAULT")] {
            let asked = asked(dtype);
            assert!(asked.len() >= 4 && asked.iter().all(|p| p == wanted), "{setting:?} {}: {asked:?}", dtype.name());
        }
    }
    lazy::set_matmul_precision(Precision::Highest);
}
