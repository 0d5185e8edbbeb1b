//! Tests of errors: PyTorch's messages on `cpu` and on `tpu`. Errors of shapes and dtypes appear at the call. Errors of
//! values may appear when a value is read. No error ends the process.

use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use torchtpu::nn::{self, Conv2d, Conv2dOptions, Embedding, Linear, MaxPool2d, Module};
use torchtpu::ops::concat::{cat, stack};
use torchtpu::ops::indexing::{gather, index_select};
use torchtpu::{DType, Device, Error, ErrorKind, Result, Tensor, lazy};

/// Lock, because an index out of range appears at the next read on any thread of the process. Tests run one at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

fn on_both(body: impl Fn(Device) -> Result<()>) {
    let _turn = turn();
    for name in ["cpu", "tpu"] {
        let device = torchtpu::device(name).unwrap();
        if let Err(e) = body(device) {
            panic!("on {name}: {e}");
        }
    }
}

#[track_caller]
fn assert_error<T>(r: Result<T>, kind: ErrorKind, message: &str) {
    let e = r.err().expect("this must be an error");
    assert_eq!(e.message(), message);
    assert_eq!(e.kind(), kind);
}

fn ones(dims: &[usize], d: Device) -> Tensor {
    Tensor::ones(dims, DType::F32, d).unwrap()
}

#[test]
fn wrong_shapes_are_refused() {
    use ErrorKind::{Runtime, Value};
    on_both(|d| {
        let x = |dims: &[usize]| ones(dims, d);
        assert_error(
            x(&[2, 3]).matmul(&x(&[4, 5])),
            Runtime,
            "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        );
        assert_error(
            x(&[2, 3]).add(&x(&[2, 4])),
            Runtime,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        );
        assert_error(x(&[6]).view_as_sizes(&[4, 2]), Runtime, "shape '[4, 2]' is invalid for input of size 6");
        assert_error(x(&[6]).view_as_sizes(&[-1, -1]), Runtime, "only one dimension can be inferred");
        assert_error(x(&[6]).reshape(&[-1, 4]), Runtime, "shape '[-1, 4]' is invalid for input of size 6");
        assert_error(
            x(&[2, 3]).expand(&[4, 3]),
            Runtime,
            "The expanded size of the tensor (4) must match the existing size (2) at non-singleton dimension 0.  \
            Target sizes: [4, 3].  Tensor sizes: [2, 3]",
        );
        assert_error(
            cat(&[&x(&[2, 3]), &x(&[2, 4])], 0),
            Runtime,
            "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in \
            the list.",
        );
        assert_error(
            stack(&[&x(&[2]), &x(&[3])], 0),
            Runtime,
            "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
        );
        assert_error(x(&[2, 3]).bmm(&x(&[2, 3, 4])), Runtime, "batch1 must be a 3D tensor");
        assert_error(
            x(&[2, 3, 4]).bmm(&x(&[2, 3, 4])),
            Runtime,
            "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3].",
        );
        assert_error(x(&[2]).item(), Runtime, "a Tensor with 2 elements cannot be converted to Scalar");
        let linear = Linear::new(3, 2)?;
        linear.to(d)?;
        assert_error(
            linear.forward(&x(&[4, 5])),
            Runtime,
            "addmm: mat1 and mat2 shapes cannot be multiplied (4x5 and 3x2)",
        );
        let conv = Conv2d::new(3, 4, [3, 3], Conv2dOptions::default())?;
        conv.to(d)?;
        assert_error(
            conv.forward(&x(&[1, 2, 8, 8])),
            Runtime,
            "Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 2, 8, 8] to have 3 channels, but got 2 \
            channels instead",
        );
        assert_error(
            conv.forward(&x(&[1, 3, 2, 2])),
            Runtime,
            "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater \
            than actual input size",
        );
        assert_error(
            MaxPool2d::new(4).forward(&x(&[1, 1, 2, 2])),
            Runtime,
            "Given input size: (1x2x2). Calculated output size: (1x0x0). Output size is too small",
        );
        let target = Tensor::zeros(&[3], DType::I64, d)?;
        assert_error(
            nn::cross_entropy(&x(&[2, 5]), &target),
            Value,
            "Expected input batch_size (2) to match target batch_size (3).",
        );
        Ok(())
    });
}

#[test]
fn missing_dimensions_and_indices_are_refused() {
    use ErrorKind::{Index, Runtime};
    on_both(|d| {
        let x = ones(&[2, 3], d);
        assert_error(
            x.sum_dim(&[2], false),
            Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
        );
        assert_error(x.softmax(-3), Index, "Dimension out of range (expected to be in range of [-2, 1], but got -3)");
        assert_error(x.sum_dim(&[0, 0], false), Runtime, "dim 0 appears multiple times in the list of dims");
        assert_error(x.select(0, 2), Index, "select(): index 2 out of range for tensor of size [2, 3] at dimension 0");
        assert_error(x.narrow(1, 2, 2), Runtime, "start (2) + length (2) exceeds dimension size (3).");
        assert_error(x.slice(0, None, None, 0), Runtime, "slice step must be positive");
        assert_error(x.permute(&[0, 0]), Runtime, "permute(): duplicate dims are not allowed.");
        assert_error(x.flatten(1, 0), Runtime, "flatten() has invalid args: start_dim cannot come after end_dim");
        Ok(())
    });
}

#[test]
fn wrong_dtypes_are_refused() {
    use ErrorKind::Runtime;
    on_both(|d| {
        let (f, i) = (ones(&[2, 2], d), Tensor::ones(&[2, 2], DType::I64, d)?);
        let b = i.gt_scalar(0i64)?;
        let g = f.to_dtype(DType::F64)?;
        assert_error(f.matmul(&g), Runtime, "expected m1 and m2 to have the same dtype, but got: float != double");
        assert_error(
            b.sub(&b),
            ErrorKind::NotImplemented,
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` \
            operator instead.",
        );
        assert_error(
            i.mean(),
            ErrorKind::NotImplemented,
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: \
            Long",
        );
        assert_error(i.pow_scalar(-1i64), Runtime, "Integers to negative integer powers are not allowed.");
        assert_error(i.copy()?.div_(&f), Runtime, "result type Float can't be cast to the desired output type Long");
        assert_error(
            nn::cross_entropy(&f, &Tensor::zeros(&[2], DType::I32, d)?),
            Runtime,
            "expected target dtype to be Long or Byte, but got Int",
        );
        Ok(())
    });
}

#[test]
fn different_or_missing_devices_are_refused() {
    let _turn = turn();
    use ErrorKind::Runtime;
    let tpu = torchtpu::device("tpu").unwrap();
    let (a, b) = (ones(&[2], tpu), ones(&[2], Device::CPU));
    let message = "Expected all tensors to be on the same device, but found at least two devices, tpu:0 and cpu!";
    assert_error(a.add(&b), Runtime, message);
    // A 0-d tensor on the host combines with any device.
    assert_eq!(a.add(&ones(&[], Device::CPU)).unwrap().device(), tpu);
    assert_error(
        Device::parse("gpu"),
        Runtime,
        "Expected one of cpu, tpu, meta device type at start of device string: gpu",
    );
    assert_error(Device::parse("tpu:x"), Runtime, "Invalid device string: 'tpu:x'");
    let e = b.to_device(Device::parse("tpu:7").unwrap()).unwrap_err();
    assert!(e.message().contains("invalid device ordinal 7"), "{e}");
    assert_error(
        ones(&[2], Device::META).to_device(Device::CPU),
        ErrorKind::NotImplemented,
        "Cannot copy out of meta tensor; no data!",
    );
}

#[test]
fn out_of_memory_is_an_error() {
    let _turn = turn();
    // The number of bytes exceeds 64 bits.
    let tpu = torchtpu::device("tpu").unwrap();
    for device in [Device::CPU, tpu] {
        let e = Tensor::zeros(&[1 << 40, 1 << 40], DType::F32, device).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Runtime);
        assert_eq!(e.message(), "Storage size calculation overflowed with sizes=[1099511627776, 1099511627776]");
    }
    // More memory than any machine has.
    let e = Tensor::zeros(&[1 << 46], DType::F32, Device::CPU).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory);
    assert_eq!(
        e.message(),
        format!("DefaultCPUAllocator: can't allocate memory: you tried to allocate {} bytes", 4u64 << 46)
    );
    // The process continues.
    assert_eq!(ones(&[2], Device::CPU).sum().unwrap().item_f64().unwrap(), 2.0);
    assert_eq!(ones(&[2], tpu).sum().unwrap().item_f64().unwrap(), 2.0);
}

#[test]
fn indices_out_of_range_fail_at_the_call_on_cpu() {
    let _turn = turn();
    let x = ones(&[3, 2], Device::CPU);
    let at = Tensor::from_slice(&[0i64, 3], &[2]).unwrap();
    assert_error(index_select(&x, 0, &at), ErrorKind::Index, "index out of range in self");
    assert_error(Embedding::new(3, 2).unwrap().forward(&at), ErrorKind::Index, "index out of range in self");
    let at = Tensor::from_slice(&[0i64, -1], &[1, 2]).unwrap();
    let e = gather(&x, 0, &at).unwrap_err();
    assert!(e.message().contains("out of bounds for dimension 0 with size 3"), "{e}");
    let target = Tensor::from_slice(&[0i64, 1, 2], &[3]).unwrap();
    assert_error(nn::cross_entropy(&x, &target), ErrorKind::Index, "Target 2 is out of bounds.");
}

/// Return the error of a call, or of reading its result.
fn error_now_or_at_read(r: Result<Tensor>) -> Error {
    match r {
        Err(e) => e,
        Ok(y) => y.to_vec::<f32>().expect_err("an index out of range must be an error"),
    }
}

#[test]
fn indices_out_of_range_fail_at_the_read_on_tpu_and_name_the_op() {
    let _turn = turn();
    let d = torchtpu::device("tpu").unwrap();
    let x = ones(&[3, 2], d);
    let at = Tensor::from_slice_on(&[0i64, 3], &[2], d).unwrap();
    let e = error_now_or_at_read(index_select(&x, 0, &at));
    assert_eq!((e.kind(), e.op()), (ErrorKind::Index, "index_select"), "{e:?}");
    assert_eq!(e.message(), "index out of range in self");
    let at = Tensor::from_slice_on(&[0i64, -1], &[1, 2], d).unwrap();
    let e = error_now_or_at_read(gather(&x, 0, &at));
    assert_eq!((e.kind(), e.op()), (ErrorKind::Runtime, "gather"), "{e:?}");
    assert!(e.message().starts_with("index -1 is out of bounds for dimension 0"), "{e}");
    let target = Tensor::from_slice_on(&[0i64, 7], &[2], d).unwrap();
    let e = error_now_or_at_read(nn::cross_entropy(&ones(&[2, 3], d), &target));
    assert_eq!((e.kind(), e.message()), (ErrorKind::Index, "Target 7 is out of bounds."));
    // An ignored target may have any value.
    let target = Tensor::from_slice_on(&[0i64, -100], &[2], d).unwrap();
    assert!(nn::cross_entropy(&ones(&[2, 3], d), &target).unwrap().item_f64().unwrap().is_finite());
    // Unread errors are kept, and each is reported once.
    let at = Tensor::from_slice_on(&[5i64], &[1], d).unwrap();
    for _ in 0..200 {
        index_select(&x, 0, &at).unwrap();
        lazy::mark_step();
    }
    let mut told = 0;
    while let Err(e) = lazy::synchronize() {
        assert_eq!(e.notes(), ["an index is 5, in a dimension of size 3"]);
        told += 1;
        assert!(told <= 200, "an error is told twice");
    }
    assert!(told > 0);
    // Values that do not depend on the error are correct.
    assert_eq!(x.sum().unwrap().item_f64().unwrap(), 6.0);
}

/// Set in the process that [`without_a_plugin_tpu_is_an_error_and_cpu_works`] starts.
const CHILD: &str = "TORCHTPU_TEST_WITHOUT_PLUGIN";

#[test]
fn without_a_plugin_tpu_is_an_error_and_cpu_works() {
    if std::env::var_os(CHILD).is_some() {
        return report_without_a_plugin();
    }
    let program = std::env::current_exe().unwrap();
    let out = Command::new(program)
        .args(["--exact", "without_a_plugin_tpu_is_an_error_and_cpu_works", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("TORCHTPU_PJRT_PLUGIN", "/nowhere/libbogus.so")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("device tpu is not available"), "{text}");
    assert!(text.contains("/nowhere/libbogus.so"), "{text}");
    assert!(text.contains("cpu goes on: 3"), "{text}");
}

/// Print errors and results in the process without a plugin.
fn report_without_a_plugin() {
    let tpu = torchtpu::device("tpu").unwrap();
    assert!(!lazy::is_available());
    let x = ones(&[3], Device::CPU);
    for _ in 0..2 {
        println!("{}", x.to_device(tpu).unwrap_err());
        println!("{}", Tensor::zeros(&[2], DType::F32, tpu).unwrap_err());
    }
    println!("{}", lazy::device_name().unwrap_err());
    println!("cpu goes on: {}", x.sum().unwrap().item_f64().unwrap());
}
