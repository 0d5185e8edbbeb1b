//! Calls of kernels as a compiled program makes them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use torchtpu_tensor::lower::kernel_call::{Array, Lender, run};
use torchtpu_tensor::{DType, Dims};

/// Runs everything here.
struct Nobody;
impl Lender for Nobody {
    fn lend(&self, _: Box<dyn FnOnce() + Send>) {}
}

/// Calls a kernel on an array of `0..n`, twice, for a result of 2 x 2.
fn call(kernel: &str, numbers: &[i64], n: usize) -> Result<[f32; 4], String> {
    let elements: Vec<f32> = (0..n).map(|i| i as f32).collect();
    // SAFETY: numbers are plain bytes, here and below.
    let bytes = unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), 4 * n) };
    let mut result = [0f32; 4];
    let x: [Array<&[u8]>; 2] = std::array::from_fn(|_| Array { dtype: DType::F32, sizes: Dims::new(&[n]), bytes });
    // SAFETY: as above.
    let to = unsafe { std::slice::from_raw_parts_mut(result.as_mut_ptr().cast::<u8>(), 16) };
    let mut y = [Array { dtype: DType::F32, sizes: Dims::new(&[2, 2]), bytes: to }];
    run(kernel, numbers, &x, &mut y, &Nobody)?;
    Ok(result)
}

/// Numbers of a product of windows, `[operand, offset, rank, sizes.., strides..]` each, the second transposed.
fn product(windows: &[&[i64]]) -> Vec<i64> {
    let windows = windows.concat();
    [&[0, 1], &windows[..], &[windows.len() as i64]].concat()
}

const A: &[i64] = &[0, 3, 2, 2, 3, 6, 1];
const B: &[i64] = &[1, 1, 2, 2, 3, 1, 4];

#[test]
fn kernels_see_windows_on_operands() {
    // Rows [3 4 5] and [9 10 11] times rows [1 5 9] and [2 6 10].
    let got = call("matmul.windows", &product(&[A, B]), 12);
    assert_eq!(got, Ok([68.0, 80.0, 158.0, 188.0]));
}

#[test]
fn numbers_that_no_lowering_writes_are_refused() {
    let whole = product(&[A, B]);
    let unfinished: &[&[i64]] = &[&[], &[0, 1], &whole[..whole.len() - 1], &whole[1..], &[0, 1, 99]];
    for numbers in unfinished {
        let error = call("matmul.windows", numbers, 12).unwrap_err();
        assert!(error.contains("no kernel matmul.windows with attributes"), "{numbers:?}: {error}");
    }
    // Operands that are none, or have no windows; sizes and ranks that are none.
    let others: [(&str, &[i64]); 4] = [
        ("matmul.windows", &[2, 0, 2, 2, 3, 3, 1]),
        ("gelu.windows", &[0, 0, 1, 4, 1]),
        ("matmul.windows", &[0, 0, 2, -2, 3, 3, 1]),
        ("matmul.windows", &[0, 0, i64::MAX, 2, 3, 3, 1]),
    ];
    for (kernel, window) in others {
        assert!(call(kernel, &product(&[window]), 12).is_err(), "{kernel} {window:?}");
    }
    let far: &[i64] = &[0, 100, 2, 2, 3, 6, 1];
    assert_eq!(call("matmul.windows", &product(&[far, B]), 12), Err("a window beyond its array".to_string()));
    // A window that begins within its array and ends beyond it, perhaps beyond all memory.
    for stride in [10, i64::MAX] {
        let long: &[i64] = &[0, 3, 2, 2, 3, stride, 1];
        let caught = catch_unwind(AssertUnwindSafe(|| call("matmul.windows", &product(&[long, B]), 12)));
        assert!(caught.is_err(), "a stride of {stride}");
    }
}
