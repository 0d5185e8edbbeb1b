//! Tests of autocast from Rust.

mod common;

use torchtpu::autocast::{autocast, is_enabled};
use torchtpu::nn::{Linear, Module};
use torchtpu::{Backward, DType, DeviceKind, Result, Tensor};

#[test]
fn modules_compute_in_16_bits_inside_a_block() -> Result<()> {
    for device in common::devices() {
        let layer = Linear::new(4, 3)?;
        layer.to(device)?;
        let x = Tensor::ones(&[2, 4], DType::F32, device)?;
        let block = autocast(device.kind, DType::BF16)?;
        let y = layer.forward(&x)?;
        assert_eq!(y.dtype(), DType::BF16);
        assert_eq!(x.t()?.matmul(&y)?.dtype(), DType::BF16);
        assert_eq!(y.to_dtype(DType::F64)?.matmul(&y.t()?.to_dtype(DType::F64)?)?.dtype(), DType::F64);
        // Backward runs inside the block, and computes in the dtypes of forward.
        y.sum()?.backward()?;
        drop(block);
        assert_eq!(layer.forward(&x)?.dtype(), DType::F32);
        for p in layer.parameters() {
            assert_eq!(p.grad().expect("a gradient").dtype(), DType::F32);
        }
    }
    Ok(())
}

#[test]
fn blocks_nest_and_end_on_panic() -> Result<()> {
    let kind = DeviceKind::Cpu;
    let outer = autocast(kind, DType::F16)?;
    let result = std::panic::catch_unwind(|| {
        let _inner = autocast(kind, DType::BF16).expect("a block");
        panic!("within");
    });
    assert!(result.is_err());
    let x = Tensor::ones(&[2, 2], DType::F32, torchtpu::Device::CPU)?;
    assert_eq!(x.matmul(&x)?.dtype(), DType::F16);
    assert!(std::thread::spawn(move || !is_enabled(kind)).join().expect("a thread"));
    drop(outer);
    assert!(!is_enabled(kind));
    assert_eq!(x.matmul(&x)?.dtype(), DType::F32);
    Ok(())
}

#[test]
fn devices_and_dtypes_without_autocast_are_refused() {
    assert!(autocast(DeviceKind::Meta, DType::BF16).is_err());
    let e = autocast(DeviceKind::Cpu, DType::F64).err().expect("an error");
    assert_eq!(e.message(), "autocast only supports dtypes of bfloat16, float16, not float64");
}
