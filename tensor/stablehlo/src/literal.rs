//! Text of constants.
//!
//! MLIR needs a dot in every float. Infinity and NaN have no name, so their bits are written in hex, as wide as the
//! type. `dense<>` is only for tensors without elements.

use crate::ElementType;

/// Append `v` as an element of type `e`.
///
/// Integers take the integral part, as a cast does. A value that the type cannot hold is the caller's bug.
pub(crate) fn push_f64(out: &mut String, v: f64, e: ElementType) {
    use ElementType::*;
    match e {
        Pred => out.push_str(if v != 0.0 { "true" } else { "false" }),
        C64 | C128 => {
            out.push('(');
            push_f64(out, v, e.real_part());
            out.push_str(", 0.0)");
        }
        F16 | BF16 | F32 | F64 => push_float(out, v, e),
        _ if e.is_float8() => push_float(out, v, e),
        _ => {
            assert!(v.is_finite(), "constant (C1): {v} is not a value of {}", e.mlir());
            push_integer(out, v as i128, e);
        }
    }
}

/// Append `v` as an element of type `e`.
pub(crate) fn push_i64(out: &mut String, v: i64, e: ElementType) {
    if e.is_integer() {
        push_integer(out, i128::from(v), e);
    } else if e == ElementType::Pred {
        out.push_str(if v != 0 { "true" } else { "false" });
    } else {
        push_f64(out, v as f64, e);
    }
}

/// Append a complex number.
pub(crate) fn push_complex(out: &mut String, re: f64, im: f64, e: ElementType) {
    out.push('(');
    push_float(out, re, e.real_part());
    out.push_str(", ");
    push_float(out, im, e.real_part());
    out.push(')');
}

pub(crate) fn push_integer(out: &mut String, v: i128, e: ElementType) {
    let (low, high) = e.integer_range().expect("push_integer is called for integer types only");
    assert!(low <= v && v <= high, "constant (C1): {v} is not a value of {}", e.mlir());
    out.push_str(&v.to_string());
}

fn push_float(out: &mut String, v: f64, e: ElementType) {
    use ElementType::*;
    // From this number on, rounding to nearest gives infinity. The parser would refuse the decimal number.
    let overflow = match e {
        F16 => 65520.0,
        BF16 => f64::from_bits(0x47EF_F000_0000_0000),
        F32 => f64::from_bits(0x47EF_FFFF_F000_0000),
        _ => f64::INFINITY,
    };
    if v.is_nan() || v.abs() >= overflow {
        let [nan, inf, negative_inf] = match e {
            F16 => ["0x7E00", "0x7C00", "0xFC00"],
            BF16 => ["0x7FC0", "0x7F80", "0xFF80"],
            F32 => ["0x7FC00000", "0x7F800000", "0xFF800000"],
            _ => ["0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000"],
        };
        out.push_str(match () {
            () if v.is_nan() => nan,
            () if v > 0.0 => inf,
            () => negative_inf,
        });
        return;
    }
    // Use one text for all f64 that round to the same f32, so that equal constants are found.
    let digits = if e == F32 { format!("{:?}", f64::from(v as f32)) } else { format!("{v:?}") };
    match digits.find(['.', 'e']) {
        Some(at) if digits.as_bytes()[at] == b'e' => {
            out.push_str(&digits[..at]);
            out.push_str(".0");
            out.push_str(&digits[at..]);
        }
        _ => out.push_str(&digits),
    }
}

/// Append `dense<...>` of `numel` elements in `shape`, each written by `element`.
pub(crate) fn push_dense(out: &mut String, shape: &[usize], mut element: impl FnMut(&mut String, usize)) {
    fn nest(out: &mut String, shape: &[usize], at: &mut usize, element: &mut dyn FnMut(&mut String, usize)) {
        let Some((&size, rest)) = shape.split_first() else {
            element(out, *at);
            *at += 1;
            return;
        };
        out.push('[');
        for i in 0..size {
            if i > 0 {
                out.push_str(", ");
            }
            nest(out, rest, at, element);
        }
        out.push(']');
    }
    out.push_str("dense<");
    if !shape.contains(&0) {
        nest(out, shape, &mut 0, &mut element);
    }
    out.push('>');
}
