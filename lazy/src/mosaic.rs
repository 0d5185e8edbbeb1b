//! Kernels for the TPU's compiler as text: a module with one `tpu_custom_call`.
//!
//! The body of such a call is a program in Mosaic, the compiler's own dialect. libtpu takes it as text, in MLIR's
//! generic form with the operations of `stable_mosaic`, which keep their meaning from version to version.

use std::fmt::Write as _;
use torchtpu_stablehlo::Type;

/// The cost of a kernel, for the compiler's schedule and its estimates.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: u64,
    /// Exponentials, logarithms and the like.
    pub transcendentals: u64,
    /// Bytes read and written.
    pub bytes_accessed: u64,
}

/// Return the StableHLO module that calls a Mosaic program with row-major arrays.
pub fn module(name: &str, body: &str, args: &[Type], results: &[Type], cost: Option<Cost>) -> String {
    let estimate = cost.map_or(String::new(), |c| {
        format!(
            r#""cost_estimate": {{"flops": {}, "transcendentals": {}, "bytes_accessed": {}}}, "#,
            c.flops, c.transcendentals, c.bytes_accessed
        )
    });
    let format = r#""serialization_format": 1, "needs_layout_passes": true"#;
    let body = base64(body.as_bytes());
    let config = format!(r#"{{"custom_call_config": {{"body": "{body}", {estimate}{format}}}}}"#);
    let listed = |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let layouts = |types: &[Type]| {
        let one = |t: &Type| {
            let order: Vec<usize> = (0..t.rank()).rev().collect();
            let dense = if order.is_empty() { String::new() } else { format!("{order:?}") };
            format!("dense<{dense}> : tensor<{}xindex>", t.rank())
        };
        types.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let numbered = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>().join(", ");
    let params: Vec<String> = args.iter().enumerate().map(|(i, t)| format!("%a{i}: {t}")).collect();
    let returned = match results.len() {
        1 => "%r".to_string(),
        n => numbered("%r#", n),
    };
    let count = if results.len() == 1 { String::new() } else { format!(":{}", results.len()) };
    let kernel_name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let result_types = match results {
        [one] => one.to_string(),
        _ => format!("({})", listed(results)),
    };
    let mut text = String::new();
    let written = write!(
        text,
        "module {{\n  func.func public @main({}) -> ({}) {{\n    \
         %r{count} = stablehlo.custom_call @tpu_custom_call({}) \
         {{backend_config = \"{}\", kernel_name = \"{kernel_name}\", operand_layouts = [{}], \
         result_layouts = [{}]}} : ({}) -> {result_types}\n    \
         return {returned} : {}\n  }}\n}}\n",
        params.join(", "),
        listed(results),
        numbered("%a", args.len()),
        config.replace('"', "\\22"),
        layouts(args),
        layouts(results),
        listed(args),
        listed(results),
    );
    written.expect("writing to a string cannot fail");
    text
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
