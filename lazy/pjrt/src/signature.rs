//! Parameter types of a program's entry function.
//!
//! XLA checks arguments by aborting, or not at all, and PJRT has no entry that returns the parameters of an executable.
//! So this module reads them from the StableHLO text. If XLA partitions the program and its parameters, it reads them
//! from the optimised program.

use crate::error::{Error, Result};
use crate::options::proto;
use crate::tensor_type::{ElementType, TensorType};

/// Read the parameter types of `@main` from StableHLO text. Returns `Ok(None)` if the text is not in the usual pretty
/// form; the compiler then reports what is wrong with it.
///
/// # Errors
///
/// Fails with `InvalidArgument` for a parameter that has an unbounded dimension. libtpu would abort the process.
pub(crate) fn parameters_of_text(text: &str) -> Result<Option<Vec<TensorType>>> {
    let Some(parameters) = main_parameters(text) else { return Ok(None) };
    let mut types = Vec::new();
    for parameter in split_at_commas(parameters) {
        let Some((name, rest)) = parameter.split_once(':') else { return Ok(None) };
        match parse_tensor(rest.trim_start()) {
            Parsed::Type(tensor) => types.push(tensor),
            Parsed::Unbounded => {
                let message = format!(
                    "parameter {} of @main: {}: a dimension without a bound; give it a size or a bound",
                    name.trim(),
                    rest.trim()
                );
                return Err(Error::invalid("compile", message));
            }
            Parsed::Unknown => return Ok(None),
        }
    }
    Ok(Some(types))
}

/// Read the parameter types from an optimised program in the format `hlo_with_config`.
pub(crate) fn parameters_of_hlo(bytes: &[u8]) -> Option<Vec<TensorType>> {
    let program = <proto::HloModuleWithConfig as prost::Message>::decode(bytes).ok()?;
    let shape = program.hlo_module?.host_program_shape?;
    shape
        .parameters
        .iter()
        .map(|shape| Some(TensorType::new(hlo_element_type(shape.element_type)?, &shape.dimensions)))
        .collect()
}

/// Convert XLA's `PrimitiveType`, whose numbers differ from those of the C API.
fn hlo_element_type(primitive_type: i32) -> Option<ElementType> {
    use ElementType::*;
    Some(match primitive_type {
        1 => PRED,
        2 => S8,
        3 => S16,
        4 => S32,
        5 => S64,
        6 => U8,
        7 => U16,
        8 => U32,
        9 => U64,
        10 => F16,
        11 => F32,
        12 => F64,
        15 => C64,
        16 => BF16,
        18 => C128,
        19 => F8E5M2,
        20 => F8E4M3FN,
        _ => return None,
    })
}

/// Return the text between the parentheses of `@main(...)`.
fn main_parameters(text: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(found) = text[from..].find("@main") {
        let after = &text[from + found + "@main".len()..];
        let rest = after.trim_start();
        let line = text[..from + found].rsplit('\n').next().unwrap_or_default();
        if rest.starts_with('(') && line.contains("func.func") && !line.contains("//") {
            let end = matching_end(rest)?;
            return Some(&rest[1..end]);
        }
        from += found + "@main".len();
    }
    None
}

/// Return the position that closes the bracket at the start of `text`.
fn matching_end(text: &str) -> Option<usize> {
    scan(text).find(|&(_, byte, depth)| depth == 0 && matches!(byte, b')' | b']' | b'}' | b'>')).map(|(i, ..)| i)
}

/// Split at commas outside of all brackets. Empty text gives no parts.
fn split_at_commas(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (i, byte, depth) in scan(text) {
        if byte == b',' && depth == 0 {
            pieces.push(&text[start..i]);
            start = i + 1;
        }
    }
    if !text[start..].trim().is_empty() {
        pieces.push(&text[start..]);
    }
    pieces
}

/// Iterate over the bytes outside of string literals, with the depth of brackets after each. The `>` of `->` is not a
/// bracket.
fn scan(text: &str) -> impl Iterator<Item = (usize, u8, i32)> + '_ {
    let bytes = text.as_bytes();
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    bytes.iter().enumerate().filter_map(move |(i, &byte)| {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            return None;
        }
        match byte {
            b'"' => in_string = true,
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if i > 0 && bytes[i - 1] == b'-' => {}
            b')' | b']' | b'}' | b'>' => depth -= 1,
            _ => {}
        }
        Some((i, byte, depth))
    })
}

enum Parsed {
    Type(TensorType),
    Unbounded,
    Unknown,
}

/// Parse `tensor<2x?xf32, #stablehlo.bounds<?, 8>>`, ignoring the text after it.
fn parse_tensor(text: &str) -> Parsed {
    let Some(rest) = text.strip_prefix("tensor") else { return Parsed::Unknown };
    let Some(end) = matching_end(rest) else { return Parsed::Unknown };
    let mut parts = split_at_commas(&rest[1..end]).into_iter();
    let Some(shape) = parts.next() else { return Parsed::Unknown };
    let bounds: Vec<&str> = match parts.next().and_then(|encoding| encoding.split_once("bounds<")) {
        Some((_, bounds)) => bounds.split(['>', ',']).map(str::trim).collect(),
        None => Vec::new(),
    };
    let mut dims = Vec::new();
    let mut shape = shape.trim();
    while let Some((dim, rest)) = shape.split_once('x') {
        // An element type may contain an `x`.
        if dim == "?" {
            match bounds.get(dims.len()).and_then(|bound| bound.parse().ok()) {
                Some(bound) => dims.push(bound),
                None => return Parsed::Unbounded,
            }
        } else if let Ok(dim) = dim.parse::<i64>() {
            dims.push(dim);
        } else {
            break;
        }
        shape = rest;
    }
    match ElementType::from_stablehlo_name(shape) {
        Some(element_type) => Parsed::Type(TensorType::new(element_type, &dims)),
        None => Parsed::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let types = parameters_of_text(text).unwrap().expect("a readable signature");
        types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn plain_parameters_are_read() {
        assert_eq!(
            shown("func.func public @main(%a: tensor<2x3xf32>, %b : tensor<i1>) -> tensor<f32> {"),
            "tensor<2x3xf32> tensor<i1>"
        );
        assert_eq!(shown("func.func @main() -> tensor<f32> {"), "");
        assert_eq!(shown("func.func @main(%a: tensor<4xcomplex<f32>>)"), "tensor<4xcomplex<f32>>");
    }

    #[test]
    fn attributes_and_strings_are_skipped() {
        let text = r#"module @main_module {
        // func.func @main(%no: tensor<f64>)
        func.func private @main_helper(%x: tensor<9xf32>) -> tensor<9xf32>
        func.func public @main(%a: tensor<8xf32> {jax.buffer_donor = true, mhlo.sharding = "{devices=[2]<=[2], (x\""},
                               %b: tensor<?x4xbf16, #stablehlo.bounds<16, ?>> loc("b")) -> (tensor<8xf32>) {"#;
        assert_eq!(shown(text), "tensor<8xf32> tensor<16x4xbf16>");
    }

    #[test]
    fn an_unbounded_parameter_is_refused() {
        let error = parameters_of_text("func.func @main(%a: tensor<?x4xf32>)").unwrap_err();
        assert!(error.message().contains("%a"), "{error}");
    }

    #[test]
    fn unknown_forms_are_left_to_the_compiler() {
        for text in
            ["", "nonsense", "func.func @main(%a", "func.func @main(%a: !alias)", "func.func @main(tensor<f32>)"]
        {
            assert!(parameters_of_text(text).unwrap().is_none(), "{text}");
        }
    }
}
