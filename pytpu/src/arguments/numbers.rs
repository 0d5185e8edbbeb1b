//! Which functions take numbers where their schemas have tensors.

/// Two numbers, and no tensor at all, will do, as in PyTorch.
const BOTH: &[&str] = &[
    "add",
    "sub",
    "subtract",
    "mul",
    "multiply",
    "div",
    "divide",
    "true_divide",
    "floor_divide",
    "result_type",
    "where",
];

/// One of the two tensors may be a number.
const ONE: &[&str] = &[
    "remainder",
    "pow",
    "float_power",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "xlogy",
    "special_xlogy",
    "special_xlog1py",
    "isin",
];

/// The second tensor may be a number.
const SECOND: &[&str] = &[
    "rsub",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "fmod",
    "copysign",
    "copy",
    "heaviside",
    "ldexp",
];

/// Functions whose tensors may be numbers, as in PyTorch.
pub(super) fn takes_numbers(name: &str) -> bool {
    [BOTH, ONE, SECOND].iter().any(|names| names.contains(&name))
        || name == "special_zeta"
        || name.starts_with("special_") && name.contains("_polynomial_")
}

/// Functions that take a number in place of the second tensor only.
pub(super) fn begins_with_tensor(name: &str) -> bool {
    SECOND.contains(&name)
}

/// Functions that take two numbers and no tensor, as in PyTorch.
pub(super) fn takes_only_numbers(name: &str) -> bool {
    BOTH.contains(&name)
}
