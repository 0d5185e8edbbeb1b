//! The memory that in-place writes of some elements take. The counters are those of the whole process, so this is a
//! program of its own with one test.

use torchtpu_kernels::memory;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{DType, Device, Result, Scalar, Tensor, ops};

const ROWS: usize = 8192;
/// Bytes of the tensor that is written.
const BYTES: usize = ROWS * 1024 * 4;

#[test]
fn a_write_of_a_row_takes_no_memory_of_the_size_of_the_tensor() -> Result<()> {
    let x = Tensor::zeros(&[ROWS, 1024], DType::F32, Device::CPU)?;
    let columns = x.transpose(0, 1)?;
    let i = Tensor::from_slice(&[3i64], &[1])?;
    let row = Tensor::ones(&[1, 1024], DType::F32, Device::CPU)?;
    let one = Tensor::ones(&[1], DType::F32, Device::CPU)?;
    let at = Tensor::full(&[1, 1024], 3, DType::I64, Device::CPU)?;
    let (mask, mask_of_rows) = (x.eq_scalar(1.0)?, Tensor::zeros(&[ROWS], DType::Bool, Device::CPU)?);
    let (rows, masked) = ([Some(i.clone())], [Some(mask_of_rows)]);
    let t = Arg::Tensor;
    let n = |v: i64| Arg::Scalar(Scalar::Int(v));
    let calls: Vec<(&str, Vec<Arg<'_>>)> = vec![
        ("index_copy_", vec![t(&x), n(0), t(&i), t(&row)]),
        ("index_add_", vec![t(&x), n(0), t(&i), t(&row)]),
        ("index_fill_.int_Scalar", vec![t(&x), n(0), t(&i), n(1)]),
        ("index_reduce_", vec![t(&x), n(0), t(&i), t(&row), Arg::Str("mean")]),
        ("index_put_", vec![t(&x), Arg::Tensors(&rows), t(&row)]),
        ("index_put_", vec![t(&columns), Arg::Tensors(&rows), t(&one)]),
        ("index_put_", vec![t(&x), Arg::Tensors(&masked), t(&row)]),
        ("scatter_.src", vec![t(&x), n(0), t(&at), t(&row)]),
        ("scatter_add_", vec![t(&x), n(0), t(&at), t(&row)]),
        ("scatter_reduce_.two", vec![t(&x), n(0), t(&at), t(&row), Arg::Str("mean")]),
        ("put_", vec![t(&columns), t(&i), t(&one)]),
        ("masked_fill_.Scalar", vec![t(&x), t(&mask), n(1)]),
        ("masked_scatter_", vec![t(&x), t(&mask), t(&row)]),
    ];
    for (name, args) in calls {
        memory::reset_peak();
        let before = memory::stats().peak_bytes;
        ops::call(name, &args)?;
        let taken = memory::stats().peak_bytes - before;
        assert!(taken < BYTES / 8, "{name} took {taken} bytes");
    }
    Ok(())
}
