//! Which functions take numbers where their schemas have tensors.

/// Functions whose tensors may be numbers, as in PyTorch.
pub(super) fn takes_numbers(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "add",
        "sub",
        "subtract",
        "rsub",
        "mul",
        "multiply",
        "div",
        "divide",
        "true_divide",
        "floor_divide",
        "remainder",
        "fmod",
        "pow",
        "float_power",
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
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "copysign",
        "where",
        "xlogy",
        "special_xlogy",
        "special_xlog1py",
        "ldexp",
        "result_type",
        "masked_fill",
        "index_fill",
        "heaviside",
        "isin",
    ];
    NAMES.contains(&name) || name == "special_zeta" || name.starts_with("special_") && name.contains("_polynomial_")
}

/// Functions that take a number in place of the second tensor only.
pub(super) fn begins_with_tensor(name: &str) -> bool {
    const NAMES: &[&str] = &[
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
        "masked_fill",
        "index_fill",
        "heaviside",
        "ldexp",
    ];
    NAMES.contains(&name)
}

/// Functions that take two numbers and no tensor, as in PyTorch.
pub(super) fn takes_only_numbers(name: &str) -> bool {
    const NAMES: &[&str] = &[
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
    NAMES.contains(&name)
}
