//! Tests of complex tensors on both devices: views of parts and conjugates, promotion, casts, printing, errors.

use torchtpu::ops::complex::{complex, polar};
use torchtpu::ops::pointwise::{BinaryKind, arith, result_type};
use torchtpu::schema::Operand;
use torchtpu::{Backward, DType, Device, ErrorKind, Result, Scalar, Tensor, c64, c128, can_cast, promote_types};

fn on_both(body: impl Fn(Device) -> Result<()>) {
    for name in ["cpu", "tpu"] {
        let device = torchtpu::device(name).unwrap();
        if let Err(e) = body(device) {
            panic!("on {name}: {e}");
        }
    }
}

fn z(data: &[(f32, f32)], dims: &[usize], d: Device) -> Tensor {
    let v: Vec<c64> = data.iter().map(|&(re, im)| c64::new(re, im)).collect();
    Tensor::from_slice_on(&v, dims, d).unwrap()
}

fn v(x: &Tensor) -> Vec<(f32, f32)> {
    x.to_vec::<c64>().unwrap().into_iter().map(|z| (z.re, z.im)).collect()
}

#[test]
fn real_and_imaginary_parts_are_views_for_reading_and_writing() {
    on_both(|d| {
        let x = z(&[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (7.0, 8.0)], &[2, 2], d);
        let (re, im, pairs) = (x.real()?, x.imag()?, x.view_as_real()?);
        assert!(re.shares_storage(&x) && im.is_view() && pairs.dims()[..] == [2, 2, 2]);
        assert_eq!(im.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
        im.add_(&Tensor::full(&[], 1.0, DType::F32, d)?)?;
        re.select(0, 1)?.copy_(&Tensor::full(&[], 0.0, DType::F32, d)?)?;
        assert_eq!(v(&x), [(1.0, 3.0), (3.0, 5.0), (0.0, 7.0), (0.0, 9.0)]);
        assert_eq!(pairs.to_vec::<f32>()?, [1.0, 3.0, 3.0, 5.0, 0.0, 7.0, 0.0, 9.0]);
        let back = pairs.transpose(0, 1)?.view_as_complex()?;
        back.select(0, 0)?.copy_(&z(&[(-1.0, -2.0)], &[1], d))?;
        assert_eq!(v(&x), [(-1.0, -2.0), (3.0, 5.0), (-1.0, -2.0), (0.0, 9.0)]);
        assert_eq!(pairs.as_strided(&[2], &[5], Some(1))?.to_vec::<f32>()?, [-2.0, 0.0]);
        Ok(())
    });
}

#[test]
fn conjugates_are_views_until_an_op_reads_them() {
    on_both(|d| {
        let x = z(&[(1.0, 2.0), (3.0, -4.0)], &[2], d);
        let y = x.conj()?;
        assert!(y.is_conj() && y.is_view() && y.shares_storage(&x) && y.has_contiguous_strides());
        assert!(
            y.select(0, 0)?.is_conj() && !y.conj()?.is_conj() && !y.add(&x)?.is_conj() && !y.resolve_conj()?.is_conj()
        );
        assert_eq!(v(&y), [(1.0, -2.0), (3.0, 4.0)]);
        assert_eq!(v(&y.mul(&x)?), [(5.0, 0.0), (25.0, 0.0)]);
        y.select(0, 0)?.copy_(&z(&[(0.5, 1.5)], &[], d))?;
        y.mul_(&z(&[(0.0, 1.0)], &[], d))?;
        assert_eq!(v(&y), [(-1.5, 0.5), (-4.0, 3.0)]);
        assert_eq!(v(&x), [(-1.5, -0.5), (-4.0, -3.0)]);
        let im = y.imag()?;
        assert!(im.is_neg() && !y.real()?.is_neg() && !im.resolve_neg()?.is_neg());
        assert_eq!(im.to_vec::<f32>()?, [0.5, 3.0]);
        im.add_(&Tensor::full(&[], 1.0, DType::F32, d)?)?;
        assert_eq!(v(&x), [(-1.5, -1.5), (-4.0, -4.0)]);
        let e = y.view_as_real().unwrap_err();
        assert!(e.to_string().starts_with("view_as_real doesn't work on unresolved conjugated tensors."));
        Ok(())
    });
}

#[test]
fn gradients_reach_through_parts_and_conjugates() {
    on_both(|d| {
        let x = z(&[(1.0, 2.0), (3.0, -4.0)], &[2], d);
        x.requires_grad_(true)?;
        // z|^2 has gradient 2z.
        x.conj()?.mul(&x)?.real()?.sum()?.backward()?;
        assert_eq!(v(&x.grad().unwrap()), [(2.0, 4.0), (6.0, -8.0)]);
        x.set_grad(None)?;
        let y = x.mul_scalar(1.0)?;
        y.imag()?.mul_(&Tensor::full(&[], 3.0, DType::F32, d)?)?;
        y.view_as_real()?.sum()?.backward()?;
        assert_eq!(v(&x.grad().unwrap()), [(1.0, 3.0), (1.0, 3.0)]);
        // The gradient of a real tensor is real.
        let r = Tensor::from_slice_on(&[2.0f32, 3.0], &[2], d)?;
        r.requires_grad_(true)?;
        r.mul(&x.detach())?.abs()?.sum()?.backward()?;
        let g = r.grad().unwrap();
        assert_eq!(g.dtype(), DType::F32);
        for (got, want) in g.to_vec::<f32>()?.iter().zip([5f32.sqrt(), 5.0]) {
            assert!((got - want).abs() < 1e-5);
        }
        let e = x.sum()?.backward().unwrap_err();
        assert_eq!(
            e.to_string(),
            "grad can be implicitly created only for real scalar outputs but got torch.complex64"
        );
        Ok(())
    });
}

#[test]
fn promotion_equals_pytorchs() {
    use DType::*;
    for (a, b, want) in [
        (Bool, C64, C64),
        (I64, C64, C64),
        (F16, C64, C64),
        (F32, C64, C64),
        (F64, C64, C128),
        (C64, C128, C128),
        (I64, C128, C128),
        (F64, C128, C128),
    ] {
        assert_eq!((promote_types(a, b), promote_types(b, a)), (want, want));
    }
    assert!(can_cast(F64, C64) && can_cast(C128, C64) && !can_cast(C64, F64));
    let t = |dims: &[usize], d: DType| Tensor::zeros(dims, d, Device::CPU).unwrap();
    let of = |a: &Tensor, b: &Tensor| result_type(Operand::Tensor(a), Operand::Tensor(b));
    let with = |a: &Tensor, s: Scalar| result_type(Operand::Tensor(a), Operand::Scalar(s));
    let i = Scalar::Complex(0.0, 1.0);
    assert_eq!(with(&t(&[1], F64), i), C128);
    assert_eq!(with(&t(&[1], F32), i), C64);
    assert_eq!(with(&t(&[1], I64), i), C64);
    assert_eq!(with(&t(&[1], C128), i), C128);
    assert_eq!(of(&t(&[1], F32), &t(&[], C128)), C64);
    assert_eq!(of(&t(&[1], F64), &t(&[], C64)), C128);
    assert_eq!(of(&t(&[1], C64), &t(&[], F64)), C64);
    assert_eq!(of(&t(&[1], I64), &t(&[], C128)), C128);
    assert_eq!(of(&t(&[], F64), &t(&[1], I64)), F64);
}

#[test]
fn casts_give_real_parts_and_truth_values() {
    on_both(|d| {
        let x = z(&[(1.75, 2.0), (0.0, -4.0), (0.0, 0.0)], &[3], d);
        assert_eq!(x.to_dtype(DType::F32)?.to_vec::<f32>()?, [1.75, 0.0, 0.0]);
        assert_eq!(x.to_dtype(DType::I64)?.to_vec::<i64>()?, [1, 0, 0]);
        assert_eq!(x.to_dtype(DType::Bool)?.to_vec::<bool>()?, [true, true, false]);
        assert_eq!(x.to_dtype(DType::C128)?.to_vec::<c128>()?[1], c128::new(0.0, -4.0));
        let up = Tensor::from_slice_on(&[3i64, -1], &[2], d)?.to_dtype(DType::C64)?;
        assert_eq!(v(&up), [(3.0, 0.0), (-1.0, 0.0)]);
        assert_eq!(x.select(0, 1)?.item()?, Scalar::Complex(0.0, -4.0));
        let wide = z(&[(1.5, -2.5)], &[], d).to_dtype(DType::C128)?.mul_scalar((0.0, 2.0))?;
        assert_eq!(wide.item()?, Scalar::Complex(5.0, 3.0));
        Ok(())
    });
}

#[test]
fn numbers_with_imaginary_parts_do_not_fit_real_tensors() {
    on_both(|d| {
        let x = Tensor::zeros(&[2], DType::F32, d)?;
        let e = Tensor::full(&[2], (0.0, 1.0), DType::F32, d).unwrap_err();
        assert_eq!(e.to_string(), "value cannot be converted to type float without overflow");
        let e = x.add_(&z(&[(1.0, 1.0)], &[1], d)).unwrap_err();
        assert_eq!(e.to_string(), "result type ComplexFloat can't be cast to the desired output type Float");
        Ok(())
    });
}

#[test]
fn ops_undefined_for_complex_numbers_are_refused() {
    on_both(|d| {
        let x = z(&[(1.0, 2.0), (3.0, -4.0)], &[2], d);
        let not = |e: torchtpu::Error, text: &str| {
            assert_eq!((e.kind(), e.message()), (ErrorKind::NotImplemented, text));
        };
        not(x.lt(&x).unwrap_err(), "\"lt_cpu\" not implemented for 'ComplexFloat'");
        not(x.floor().unwrap_err(), "floor is not supported for complex inputs");
        not(x.relu().unwrap_err(), "clamp is not supported for complex types");
        not(x.floor_divide(&x).unwrap_err(), "\"div_floor_cpu\" not implemented for 'ComplexFloat'");
        not(x.erf().unwrap_err(), "\"erf_vml_cpu\" not implemented for 'ComplexFloat'");
        let e = x.sort(0, false).unwrap_err();
        assert_eq!((e.kind(), e.message()), (ErrorKind::Type, " Sort does not support complex dtypes on CPU"));
        let e = x.maximum(&x).unwrap_err();
        assert_eq!((e.kind(), e.message()), (ErrorKind::Type, "maximum not implemented for complex tensors."));
        let e = x.argmax(None, false).unwrap_err();
        assert_eq!((e.kind(), e.message()), (ErrorKind::Type, "argmax(): does not support complex input"));
        assert_eq!(x.abs_().unwrap_err().to_string(), "In-place abs is not supported for complex tensors.");
        Ok(())
    });
}

#[test]
fn complex_and_polar_join_parts() {
    on_both(|d| {
        let (a, b) = (Tensor::from_slice_on(&[2.0f32, 1.0], &[2], d)?, Tensor::from_slice_on(&[0.0f32], &[1], d)?);
        assert_eq!(v(&complex(&a, &b)?), [(2.0, 0.0), (1.0, 0.0)]);
        assert_eq!(v(&polar(&a, &b)?), [(2.0, 0.0), (1.0, 0.0)]);
        let e = complex(&a, &b.to_dtype(DType::F64)?).unwrap_err();
        assert_eq!(
            e.to_string(),
            "Expected object of scalar type Float but got scalar type Double for second argument"
        );
        Ok(())
    });
}

#[test]
fn arithmetic_at_zero_and_infinity_equals_pytorchs() -> Result<()> {
    let one = z(&[(1.0, 1.0)], &[1], Device::CPU);
    let (zero, inf) = (z(&[(0.0, 0.0)], &[1], Device::CPU), z(&[(f32::INFINITY, 0.0)], &[1], Device::CPU));
    assert_eq!(v(&one.div(&zero)?), [(f32::INFINITY, f32::INFINITY)]);
    assert_eq!(v(&one.div(&inf)?), [(0.0, 0.0)]);
    let r = v(&zero.reciprocal()?);
    assert!(r[0].0 == f32::INFINITY && r[0].1.is_nan());
    assert_eq!(v(&zero.sgn()?), [(0.0, 0.0)]);
    assert_eq!(v(&arith(BinaryKind::Pow, Operand::Tensor(&one), Operand::Scalar(Scalar::Int(2)))?), [(0.0, 2.0)]);
    Ok(())
}

#[test]
fn printing_aligns_parts() {
    let d = Device::CPU;
    assert_eq!(z(&[(1.0, 2.0), (3.0, -4.0)], &[2], d).to_string(), "tensor([1.+2.j, 3.-4.j])");
    assert_eq!(
        z(&[(1.0, 2.0), (-3.5, 1.0), (100.0, 2.0), (1000.5, -2.0)], &[2, 2], d).to_string(),
        "tensor([[ 1.0000e+00+2.j, -3.5000e+00+1.j],\n        [ 1.0000e+02+2.j,  1.0005e+03-2.j]])"
    );
    assert_eq!(z(&[(f32::INFINITY, -1.5), (2.0, 2.0)], &[2], d).to_string(), "tensor([inf-1.5000j, 2.+2.0000j])");
    assert_eq!(z(&[(1.5, -2.0)], &[], d).to_string(), "tensor(1.5000-2.j)");
    assert_eq!(z(&[], &[0], d).to_string(), "tensor([], dtype=torch.complex64)");
    assert_eq!(z(&[(1.0, 2.0)], &[1], d).conj().unwrap().to_string(), "tensor([1.-2.j])");
    assert_eq!(
        z(&[(1.0, 2.0)], &[1], d).to_dtype(DType::C128).unwrap().to_string(),
        "tensor([1.+2.j], dtype=torch.complex128)"
    );
}
