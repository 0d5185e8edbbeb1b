//! Printing like PyTorch: four digits, a common scale, aligned columns, and summaries of long dimensions.

use crate::{DType, Device, Result, Scalar, Tensor, c128, default_complex, default_dtype, state};
use std::fmt;
use std::sync::RwLock;

/// The settings of `torch.set_printoptions`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrintOptions {
    /// Digits after the point.
    pub precision: usize,
    /// The largest number of elements that are printed in full.
    pub threshold: usize,
    /// Number of entries that are printed at each end of a summarised dimension.
    pub edge_items: usize,
    /// Characters on a line.
    pub line_width: usize,
    /// Whether numbers have exponents. `None` lets the numbers decide.
    pub scientific: Option<bool>,
}

impl PrintOptions {
    /// The initial settings.
    pub const DEFAULT: PrintOptions =
        PrintOptions { precision: 4, threshold: 1000, edge_items: 3, line_width: 80, scientific: None };
}

static OPTIONS: RwLock<PrintOptions> = RwLock::new(PrintOptions::DEFAULT);

/// The current settings.
pub fn print_options() -> PrintOptions {
    *OPTIONS.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Change how tensors are printed, in the whole process.
pub fn set_print_options(options: PrintOptions) {
    *OPTIONS.write().unwrap_or_else(std::sync::PoisonError::into_inner) = options;
}

/// The format of the elements of one tensor. Imaginary parts have a style of their own.
struct Styles {
    real: Style,
    imag: Option<Style>,
}

impl Styles {
    fn of(values: &[Scalar], dtype: DType) -> Styles {
        if !dtype.is_complex() {
            return Styles { real: Style::of(values, dtype), imag: None };
        }
        let part = |f: &dyn Fn((f64, f64)) -> f64| {
            let v: Vec<Scalar> = values.iter().map(|v| Scalar::Float(f(v.to_complex()))).collect();
            Style::of(&v, dtype.to_real())
        };
        Styles { real: part(&|(re, _)| re), imag: Some(part(&|(_, im)| im)) }
    }
    fn write(&self, v: Scalar) -> String {
        let Some(imag) = &self.imag else { return self.real.write(v) };
        let (re, im) = v.to_complex();
        let im = imag.write(Scalar::Float(im));
        let im = im.trim_start();
        let sign = if im.starts_with('-') { "" } else { "+" };
        format!("{}{sign}{im}j", self.real.write(Scalar::Float(re)))
    }
    fn width(&self) -> usize {
        self.real.width() + self.imag.as_ref().map_or(0, |s| s.width() + 1)
    }
}

/// The format of real numbers.
enum Style {
    Integer {
        width: usize,
    },
    /// All values are whole, as `1.`.
    Whole {
        width: usize,
    },
    Fixed {
        width: usize,
    },
    Scientific {
        width: usize,
    },
}

fn scientific(v: f64) -> String {
    let (digits, zeros) = precision();
    let s = format!("{v:.digits$e}");
    let (mantissa, exponent) = s.split_once('e').unwrap_or((&s, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |d| ('-', d));
    format!("{mantissa}{}e{sign}{digits:0>2}", "0".repeat(zeros))
}

fn fixed(v: f64) -> String {
    let (digits, zeros) = precision();
    let mut text = format!("{v:.digits$}");
    text.push_str(&"0".repeat(zeros));
    text
}

/// The digits to request from the formatter, whose number is limited, and the zeros to append. No `f64` has more digits
/// than that.
fn precision() -> (usize, usize) {
    const DIGITS: usize = 1100;
    let asked = print_options().precision;
    (asked.min(DIGITS), asked.saturating_sub(DIGITS))
}

fn special(v: f64) -> Option<&'static str> {
    match v {
        v if v.is_nan() => Some("nan"),
        f64::INFINITY => Some("inf"),
        f64::NEG_INFINITY => Some("-inf"),
        _ => None,
    }
}

impl Style {
    fn of(values: &[Scalar], dtype: DType) -> Style {
        let floats = || values.iter().map(|v| v.to_f64());
        if !dtype.is_floating_point() {
            let width = values.iter().map(|v| plain(*v).len()).max().unwrap_or(0);
            return Style::Integer { width };
        }
        // Zeros and non-finite numbers are padded to the width of the others.
        let finite: Vec<f64> = floats().filter(|v| v.is_finite() && *v != 0.0).collect();
        let longest = |f: &dyn Fn(f64) -> String| finite.iter().map(|v| f(*v).len()).max().unwrap_or(1);
        let (max, min) =
            finite.iter().fold((0.0, f64::INFINITY), |(a, b): (f64, f64), v| (a.max(v.abs()), b.min(v.abs())));
        let spread = !finite.is_empty() && (max / min > 1000.0 || max > 1.0e8);
        let whole = finite.iter().all(|v| v.ceil() == *v);
        if print_options().scientific.unwrap_or(spread || !whole && min < 1.0e-4) {
            return Style::Scientific { width: longest(&scientific) };
        }
        if whole {
            return Style::Whole { width: longest(&|v| format!("{v:.0}.")) };
        }
        Style::Fixed { width: longest(&fixed) }
    }
    fn write(&self, v: Scalar) -> String {
        let x = v.to_f64();
        let (text, width) = match self {
            Style::Integer { width } => (plain(v), *width),
            Style::Whole { width } => (special(x).map_or_else(|| format!("{x:.0}."), Into::into), *width),
            Style::Fixed { width } => (special(x).map_or_else(|| fixed(x), Into::into), *width),
            Style::Scientific { width } => (special(x).map_or_else(|| scientific(x), Into::into), *width),
        };
        // The formatter pads to 65,535 characters at most.
        let mut padded = " ".repeat(width.saturating_sub(text.chars().count()));
        padded.push_str(&text);
        padded
    }
    fn width(&self) -> usize {
        match self {
            Style::Integer { width }
            | Style::Whole { width }
            | Style::Fixed { width }
            | Style::Scientific { width } => *width,
        }
    }
}

fn plain(v: Scalar) -> String {
    match v {
        Scalar::Bool(true) => "True".into(),
        Scalar::Bool(false) => "False".into(),
        Scalar::Int(i) => i.to_string(),
        Scalar::Unsigned(i) => i.to_string(),
        Scalar::Float(f) | Scalar::Complex(f, _) => f.to_string(),
    }
}

/// Use only the entries that will be printed.
fn shown(x: &Tensor, summarize: bool) -> Result<Vec<Scalar>> {
    if !summarize {
        return scalars(x);
    }
    if x.dims().is_empty() {
        return scalars(x);
    }
    let (n, edge) = (x.dims()[0], print_options().edge_items);
    let picks: Vec<usize> =
        if n > edge.saturating_mul(2) { (0..edge).chain(n - edge..n).collect() } else { (0..n).collect() };
    let mut v = Vec::new();
    for i in picks {
        v.extend(shown(&x.select(0, i as i64)?, true)?);
    }
    Ok(v)
}

fn scalars(x: &Tensor) -> Result<Vec<Scalar>> {
    if x.dtype().is_complex() {
        Ok(x.to_vec::<c128>()?.into_iter().map(|z| Scalar::Complex(z.re, z.im)).collect())
    } else if x.dtype().is_floating_point() {
        Ok(x.to_vec::<f64>()?.into_iter().map(Scalar::Float).collect())
    } else if x.dtype() == DType::Bool {
        Ok(x.to_vec::<bool>()?.into_iter().map(Scalar::Bool).collect())
    } else if x.dtype() == DType::U64 {
        let numbers = x.to_vec::<i64>()?.into_iter();
        Ok(numbers.map(|v| if v < 0 { Scalar::Unsigned(v as u64) } else { Scalar::Int(v) }).collect())
    } else {
        Ok(x.to_vec::<i64>()?.into_iter().map(Scalar::Int).collect())
    }
}

fn vector(x: &Tensor, indent: usize, style: &Styles, summarize: bool) -> Result<String> {
    let v = shown(x, summarize)?;
    let (n, options) = (x.dims()[0], print_options());
    let mut items: Vec<String> = v.iter().map(|s| style.write(*s)).collect();
    if summarize && n > options.edge_items.saturating_mul(2) {
        items.insert(options.edge_items, " ...".into());
    }
    let per_line = ((options.line_width.saturating_sub(indent)) / (style.width() + 2)).max(1);
    let lines: Vec<String> = items.chunks(per_line).map(|c| c.join(", ")).collect();
    Ok(format!("[{}]", lines.join(&format!(",\n{}", " ".repeat(indent + 1)))))
}

fn body(x: &Tensor, indent: usize, style: &Styles, summarize: bool) -> Result<String> {
    match x.dims().len() {
        0 => Ok(style.write(scalars(x)?[0])),
        1 => vector(x, indent, style, summarize),
        rank => {
            let (n, edge) = (x.dims()[0], print_options().edge_items);
            let row = |i: usize| body(&x.select(0, i as i64)?, indent + 1, style, summarize);
            let rows: Vec<String> = if summarize && n > edge.saturating_mul(2) {
                let mut r: Vec<String> = (0..edge).map(row).collect::<Result<_>>()?;
                r.push("...".into());
                r.extend((n - edge..n).map(row).collect::<Result<Vec<_>>>()?);
                r
            } else {
                (0..n).map(row).collect::<Result<_>>()?
            };
            let gap = format!(",{}{}", "\n".repeat(rank - 1), " ".repeat(indent + 1));
            Ok(format!("[{}]", rows.join(&gap)))
        }
    }
}

/// The text of `print(x)`. `suffixes`, such as `requires_grad=True`, are added inside the parentheses.
pub fn to_text(x: &Tensor, suffixes: &[String]) -> Result<String> {
    let prefix = "tensor(";
    let mut extra: Vec<String> = Vec::new();
    if x.device() != Device::CPU {
        extra.push(format!("device='{}'", x.device()));
    }
    let text = if x.place().is_abstract() {
        extra.push(format!("size={}", size_text(x)));
        "...".to_string()
    } else if x.numel() == 0 {
        if x.dims().len() != 1 {
            extra.push(format!("size={}", size_text(x)));
        }
        "[]".to_string()
    } else {
        state::no_grad(|| {
            let host = x.detach().to_device(Device::CPU)?;
            let summarize = x.numel() > print_options().threshold;
            let style = Styles::of(&shown(&host, summarize)?, x.dtype());
            body(&host, prefix.len(), &style, summarize)
        })?
    };
    let is_usual = |d: DType| matches!(d, DType::I64 | DType::Bool) || d == default_complex();
    let shows_elements = x.numel() > 0 && !x.place().is_abstract();
    let has_default = shows_elements && is_usual(x.dtype()) || x.dtype() == default_dtype();
    if !has_default {
        extra.push(format!("dtype=torch.{}", x.dtype().name()));
    }
    extra.extend_from_slice(suffixes);
    let mut out = format!("{prefix}{text}");
    // The first line of elements needs room for the two characters before a suffix, and two more.
    let mut last_line = out.lines().last().map_or(0, str::len) + 2;
    for e in extra {
        if last_line + e.len() + 2 > print_options().line_width {
            out.push_str(&format!(",\n{}{e}", " ".repeat(prefix.len())));
            last_line = prefix.len() + e.len();
        } else {
            out.push_str(&format!(", {e}"));
            last_line += e.len() + 2;
        }
    }
    out.push(')');
    Ok(out)
}

pub(crate) fn size_text(x: &Tensor) -> String {
    let items: Vec<String> = x.dims().iter().map(|n| n.to_string()).collect();
    match items.len() {
        1 => format!("({},)", items[0]),
        _ => format!("({})", items.join(", ")),
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut suffixes = Vec::new();
        match self.history() {
            Ok(Some(crate::GradRef::Node(n))) => suffixes.push(format!("grad_fn=<{}>", n.name())),
            _ if self.requires_grad() => suffixes.push("requires_grad=True".into()),
            _ => {}
        }
        match crate::backend::showing(|| to_text(self, &suffixes)) {
            Ok(s) => f.write_str(&s),
            Err(e) => write!(f, "tensor(<unreadable: {e}>)"),
        }
    }
}
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {} {})", self.dtype().name(), self.dims(), self.device())
    }
}
