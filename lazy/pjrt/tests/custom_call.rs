//! Tests of functions of this process that programs call on XLA:CPU.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use torchtpu_pjrt::{CallFrame, Client, CompileOptions, CustomCall, ElementType, Executable, Plugin};

static CLIENT: LazyLock<Arc<Client>> =
    LazyLock::new(|| Client::create(&Plugin::find(Some("cpu")).unwrap(), &[]).unwrap());

static CALLS: AtomicUsize = AtomicUsize::new(0);
static TASKS: AtomicUsize = AtomicUsize::new(0);

/// A function with `f32` operands. `kernel` tells it to add the operands listed in `numbers`, to fail, or to panic.
struct Sum;

impl CustomCall for Sum {
    const TARGET: &'static str = "test.sum";

    fn call(mut frame: CallFrame<'_>) -> Result<(), String> {
        match frame.kernel {
            "sum" => {}
            "fail" => return Err("the kernel\0 refuses".into()),
            _ => panic!("no kernel {:?}", frame.kernel),
        }
        CALLS.fetch_add(1, Ordering::Relaxed);
        assert_eq!(frame.results[0].dims, frame.operands[0].dims);
        for (i, out) in frame.results[0].bytes.chunks_exact_mut(4).enumerate() {
            let sum: f32 = frame.numbers.iter().map(|&n| floats(frame.operands[n as usize].bytes)[i]).sum();
            out.copy_from_slice(&sum.to_ne_bytes());
        }
        // The task may run only after the call, because there may be just one thread. A panicking task must do no harm.
        frame.threads.schedule(Box::new(|| panic!("a task panics")));
        frame.threads.schedule(Box::new(|| {
            TASKS.fetch_add(1, Ordering::Relaxed);
        }));
        Ok(())
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

fn compile(kernel: &str) -> Executable {
    CLIENT.register_custom_call::<Sum>().unwrap();
    CLIENT.register_custom_call::<Sum>().expect("again");
    let layout = "dense<[1, 0]> : tensor<2xindex>";
    let text = format!(
        "func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x3xf32> {{
            %t = stablehlo.transpose %b, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
            %0 = stablehlo.custom_call @\"test.sum\"(%a, %t) {{api_version = 4 : i32,
                backend_config = {{kernel = \"{kernel}\", numbers = array<i64: 0, 1, 1>}},
                operand_layouts = [{layout}, {layout}], result_layouts = [{layout}]}}
                : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            return %0 : tensor<2x3xf32>
        }}"
    );
    CLIENT.compile(&text, &CompileOptions::default()).unwrap()
}

fn run(executable: &Executable) -> torchtpu_pjrt::Result<Vec<f32>> {
    let buffer = |dims: &[i64], from: f32| {
        let bytes: Vec<u8> = (0..6).flat_map(|i| (from + i as f32).to_ne_bytes()).collect();
        CLIENT.buffer_from_host(&bytes, ElementType::F32, dims).unwrap()
    };
    let outputs = executable.execute(&[&buffer(&[2, 3], 1.0), &buffer(&[3, 2], 10.0)], &[])?;
    Ok(floats(&outputs[0].to_vec()?))
}

#[test]
fn programs_call_functions_with_row_major_arrays() {
    let executable = compile("sum");
    let before = CALLS.load(Ordering::Relaxed);
    let expected = [21.0, 26.0, 31.0, 26.0, 31.0, 36.0];
    assert_eq!(run(&executable).unwrap(), expected);
    let again = CLIENT.deserialize(&executable.serialize().unwrap()).unwrap();
    assert_eq!(run(&again).unwrap(), expected);
    assert!(CALLS.load(Ordering::Relaxed) >= before + 2);
    let start = Instant::now();
    while TASKS.load(Ordering::Relaxed) < before + 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "scheduled tasks run");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn errors_and_panics_become_errors_of_the_execution() {
    let error = run(&compile("fail")).unwrap_err();
    assert!(error.message().contains("the kernel  refuses"), "{error}");
    let error = run(&compile("nothing")).unwrap_err();
    assert!(error.message().contains("no kernel \"nothing\""), "{error}");
}

#[test]
fn a_program_that_calls_an_unknown_function_is_refused() {
    let text = "func.func @main(%a: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.custom_call @\"test.nobody\"(%a) {api_version = 4 : i32} : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
    }";
    let error = CLIENT.compile(text, &CompileOptions::default()).map(|_| ()).unwrap_err();
    assert!(error.message().contains("test.nobody"), "{error}");
}
