//! Distributions of random numbers, on the host and as recorded ops.

use crate::ops::pointwise::{BinaryKind, arith, kernel_error};
use crate::random::Generator;
use crate::scalar::general;
use crate::schema::Operand;
use crate::{DType, Dims, Error, Meta, Place, Result, Scalar, Tensor};
use torchtpu_kernels::random::{self as kernels, Generator as HostGenerator};
use torchtpu_kernels::{KernelError, ViewMut};

/// A distribution of random numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// Uniform in `[from, to)`.
    Uniform(f64, f64),
    /// Normal with mean and standard deviation.
    Normal(f64, f64),
    /// `exp` of a normal with mean and standard deviation.
    LogNormal(f64, f64),
    /// Exponential with a rate.
    Exponential(f64),
    /// Cauchy with median and half-width.
    Cauchy(f64, f64),
    /// Number of trials up to the first success.
    Geometric(f64),
    /// One with a probability, else zero.
    Bernoulli(f64),
    /// Integers in `[from, to)`.
    Integers(i64, i64),
    /// Integers from a bound to the dtype's largest, included.
    IntegersFrom(i64),
    /// Integers from zero to the largest that the dtype holds exactly.
    AllIntegers,
    /// Normal with mean and standard deviation, within `[a, b]`.
    TruncatedNormal(f64, f64, f64, f64),
}

/// Bits that a dtype can hold exactly.
pub(super) fn digits(d: DType) -> u32 {
    match d {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => 63,
    }
}

/// The largest integer that `random_` draws into a dtype.
pub(crate) fn largest(d: DType) -> i64 {
    match d {
        DType::Bool => 1,
        DType::U8 => 255,
        DType::I8 => 127,
        DType::I16 => i64::from(i16::MAX),
        DType::I32 => i64::from(i32::MAX),
        DType::U16 => i64::from(u16::MAX),
        DType::U32 => i64::from(u32::MAX),
        DType::I64 | DType::U64 => i64::MAX,
        d => 1 << digits(d),
    }
}

/// The draws of random numbers on a device.
pub(super) struct Source<'a> {
    pub(super) generator: &'a Generator,
    pub(super) dims: Dims,
    pub(super) place: Place,
}

impl Source<'_> {
    pub(super) fn bits(&self, wide: bool) -> Result<Tensor> {
        self.generator.bits(self.dims, wide, self.place)
    }
    /// The low `n` bits as numbers of a floating-point dtype.
    fn low_bits(&self, n: u32, dtype: DType) -> Result<Tensor> {
        let mask = Operand::Scalar(Scalar::Int((1i64 << n) - 1));
        arith(BinaryKind::BitwiseAnd, Operand::Tensor(&self.bits(n > 31)?), mask)?.to_dtype(dtype)
    }
    /// Uniform in `[0, 1)`, with as many bits as `precision` has, in the dtype of the computation.
    pub(super) fn unit(&self, precision: DType) -> Result<Tensor> {
        let n = digits(precision);
        self.low_bits(n, working(precision))?.mul_scalar((-f64::from(n)).exp2())
    }
    /// `true` with a probability: whether `unit(F32)` is below `p`, compared as integers.
    fn below(&self, p: f64) -> Result<Tensor> {
        let n = digits(DType::F32);
        let mask = Operand::Scalar(Scalar::Int((1i64 << n) - 1));
        let bits = arith(BinaryKind::BitwiseAnd, Operand::Tensor(&self.bits(false)?), mask)?;
        // The probability is a `float32`, as the numbers of `unit` are. Scaling by a power of two is exact.
        bits.lt_scalar((f64::from(p as f32) * f64::from(n).exp2()).ceil() as i64)
    }
    /// Standard normal: the inverse distribution function at the middle of one of 2^23 (or 2^52) equal parts.
    fn normal(&self, working: DType) -> Result<Tensor> {
        let n = digits(working) - 1;
        let parts = f64::from(n).exp2();
        // 2 (k + 1/2) / parts - 1 is exact.
        let v = self.low_bits(n, working)?.mul_scalar(2.0)?.add_scalar(1.0 - parts)?.mul_scalar(1.0 / parts)?;
        v.erfinv()?.mul_scalar(std::f64::consts::SQRT_2)
    }
    /// Integers `from + 0..range`.
    fn integers(&self, from: i64, range: u64) -> Result<Tensor> {
        let number = |v: i64| Operand::Scalar(Scalar::Int(v));
        if range <= 1 << 31 {
            // The high half of a 32-bit number times the range. This needs no division, which TPUs lack for 64 bits.
            let word = arith(
                BinaryKind::BitwiseAnd,
                Operand::Tensor(&self.bits(false)?.to_dtype(DType::I64)?),
                number(u32::MAX.into()),
            )?;
            let scaled = word.mul_scalar(range as i64)?;
            return arith(BinaryKind::RightShift, Operand::Tensor(&scaled), number(32))?.add_scalar(from);
        }
        let positive = arith(BinaryKind::BitwiseAnd, Operand::Tensor(&self.bits(true)?), number(i64::MAX))?;
        match i64::try_from(range) {
            Ok(range) => positive.remainder_scalar(range)?.add_scalar(from),
            Err(_) if range == 1 << 63 => positive.add_scalar(from),
            Err(_) => Err(Error::not_implemented("on tpu a range of random integers may not exceed 2^63")),
        }
    }
}

/// Refuse a bound of drawn integers that the dtype cannot hold. Warn of a bound beyond which it cannot hold all
/// integers.
fn check_integer(v: i64, name: &str, dtype: DType) -> Result<()> {
    let least = match dtype {
        DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64 => 0,
        DType::I8 => i64::from(i8::MIN),
        DType::I16 => i64::from(i16::MIN),
        DType::I32 => i64::from(i32::MIN),
        DType::F16 => -65_504,
        _ => i64::MIN,
    };
    let most = match dtype {
        DType::F16 => 65_504,
        d if d.is_float() => i64::MAX,
        d => largest(d),
    };
    let c_name = dtype.c_name();
    if v < least || v > most {
        return Err(Error::runtime(format!("{name} is out of bounds for {c_name}")));
    }
    let n = digits(dtype);
    if dtype.is_float() && v.unsigned_abs() > 1 << n {
        return crate::warning::warn(&format!(
            "{name} is out of bounds [-(2^{n}), 2^{n}]. Due to precision limitations {c_name} can support discrete \
            uniform distribution only within this range. This warning will become an error in version 1.7 release, \
            please fix the code in advance"
        ));
    }
    Ok(())
}

/// The dtype of the computation.
pub(super) fn working(d: DType) -> DType {
    if d == DType::F64 { d } else { DType::F32 }
}

impl Distribution {
    /// Draw on the host, and refuse wrong arguments.
    pub(super) fn fill(self, g: &mut HostGenerator, out: &mut ViewMut<'_>) -> std::result::Result<(), KernelError> {
        match self {
            Distribution::Uniform(a, b) => kernels::uniform_(g, out, a, b),
            Distribution::Normal(m, s) => kernels::normal_(g, out, m, s),
            Distribution::LogNormal(m, s) => kernels::log_normal_(g, out, m, s),
            Distribution::Exponential(rate) => kernels::exponential_(g, out, rate),
            Distribution::Cauchy(m, s) => kernels::cauchy_(g, out, m, s),
            Distribution::Geometric(p) => kernels::geometric_(g, out, p),
            Distribution::Bernoulli(p) => kernels::bernoulli_(g, out, p),
            Distribution::Integers(a, b) => kernels::randint(g, out, a, b),
            Distribution::IntegersFrom(a) => kernels::random_from(g, out, a),
            Distribution::AllIntegers => {
                kernels::random_(g, out);
                Ok(())
            }
            Distribution::TruncatedNormal(m, s, a, b) => kernels::trunc_normal_(g, out, m, s, a, b),
        }
    }

    /// Refuse bounds that the dtype does not hold.
    pub(super) fn check_bounds(self, dtype: DType) -> Result<()> {
        let most = match dtype {
            DType::F16 => 65_504.0,
            DType::BF16 => 3.389_531_389_251_535_5e38,
            DType::F32 => f64::from(f32::MAX),
            _ => f64::MAX,
        };
        let outside = |name: &str| Err(Error::runtime(format!("{name} is out of bounds for {}", dtype.c_name())));
        match self {
            Distribution::Uniform(a, b) if dtype.is_float() && a <= b => {
                for (v, name) in [(a, "from"), (b, "to")] {
                    if v.abs() > most {
                        return outside(name);
                    }
                }
                if b - a > most {
                    return Err(Error::runtime(format!(
                        "uniform_ expects to-from <= std::numeric_limits<{}>::max(), but found to={} and from={} which \
                        result in to-from to exceed the limit",
                        dtype.scalar_type(),
                        general(b),
                        general(a)
                    )));
                }
                Ok(())
            }
            Distribution::Integers(a, b) if a < b => {
                check_integer(a, "from", dtype)?;
                check_integer(b - 1, "to - 1", dtype)
            }
            Distribution::IntegersFrom(a) => check_integer(a, "from", dtype),
            _ => Ok(()),
        }
    }

    /// Refuse arguments that the host would refuse: an empty tensor draws nothing.
    pub(super) fn check(self, dtype: DType) -> Result<()> {
        self.check_bounds(dtype)?;
        let none = Tensor::empty(&Meta::new(&[0], dtype, Place::CPU))?;
        self.fill(&mut HostGenerator::new(0), &mut none.view_mut()).map_err(kernel_error)
    }

    /// The distribution of the parts of complex numbers, and the number to add. Both parts have half of the variance.
    pub(super) fn of_parts(self, dtype: DType) -> Result<(Distribution, f64)> {
        let name = dtype.scalar_type();
        let kernel = match self {
            Distribution::Uniform(..) => return Ok((self, 0.0)),
            Distribution::Normal(mean, std) => {
                return Ok((Distribution::Normal(0.0, std * std::f64::consts::FRAC_1_SQRT_2), mean));
            }
            Distribution::Exponential(_) => {
                return Err(Error::runtime(format!(
                    "Exponential distribution is a continuous probability distribution. dtype must be a floating point \
                    but you specified {name}"
                )));
            }
            Distribution::Cauchy(..) => {
                return Err(Error::runtime(format!(
                    "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but \
                    you specified {}",
                    dtype.c_name()
                )));
            }
            Distribution::Integers(..) | Distribution::IntegersFrom(_) => {
                return Err(Error::runtime(
                    "check_random_bounds handles only integral, floating-point and boolean types",
                ));
            }
            Distribution::LogNormal(..) => "log_normal_cpu",
            Distribution::Geometric(_) => "geometric_cpu",
            Distribution::Bernoulli(_) => "bernoulli_scalar_cpu_",
            Distribution::AllIntegers => "random_kernel_cpu",
            Distribution::TruncatedNormal(..) => "trunc_normal_cpu",
        };
        Err(crate::ops::complex::unsupported(kernel, dtype))
    }

    /// Draw on a device, in ordinary ops.
    pub(super) fn record(self, meta: &Meta, generator: &Generator) -> Result<Tensor> {
        let s = Source { generator, dims: meta.dims, place: meta.place };
        let (dtype, wide) = (meta.dtype, working(meta.dtype));
        let y = match self {
            Distribution::Uniform(a, b) => {
                let u = s.unit(dtype)?;
                if (a, b) == (0.0, 1.0) { u } else { u.mul_scalar(b - a)?.add_scalar(a)? }
            }
            Distribution::Normal(m, d) => s.normal(wide)?.mul_scalar(d)?.add_scalar(m)?,
            Distribution::LogNormal(m, d) => s.normal(wide)?.mul_scalar(d)?.add_scalar(m)?.exp()?,
            Distribution::Exponential(rate) => s.unit(wide)?.neg()?.log1p()?.mul_scalar(-1.0 / rate)?,
            Distribution::Cauchy(m, d) => {
                s.unit(wide)?.sub_scalar(0.5)?.mul_scalar(std::f64::consts::PI)?.tan()?.mul_scalar(d)?.add_scalar(m)?
            }
            Distribution::Geometric(p) => {
                let wide = if dtype.is_float() { wide } else { DType::F32 };
                s.unit(wide)?.neg()?.log1p()?.mul_scalar(1.0 / (-p).ln_1p())?.ceil()?.maximum_scalar(1.0)?
            }
            Distribution::Bernoulli(p) => s.below(p)?,
            Distribution::Integers(a, b) => s.integers(a, b.wrapping_sub(a) as u64)?,
            Distribution::IntegersFrom(a) if a == i64::MIN => s.bits(true)?,
            Distribution::IntegersFrom(a) => s.integers(a, (largest(dtype).wrapping_sub(a) as u64).wrapping_add(1))?,
            Distribution::AllIntegers => s.integers(0, largest(dtype) as u64 + 1)?,
            Distribution::TruncatedNormal(m, d, a, b) => {
                // The inverse distribution function over the part of the unit interval between the bounds.
                let level = |x: f64| erf((x - m) / d / std::f64::consts::SQRT_2);
                let (low, high) = (level(a), level(b));
                let u = s.unit(wide)?.mul_scalar(high - low)?.add_scalar(low)?;
                let z = u.erfinv()?.mul_scalar(d * std::f64::consts::SQRT_2)?.add_scalar(m)?;
                z.maximum_scalar(a)?.minimum_scalar(b)?
            }
        };
        y.to_dtype(dtype)
    }
}

/// The error function, accurate to about 1e-15: a series near zero, a continued fraction beyond.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a > 6.0 {
        return x.signum();
    }
    if a < 2.5 {
        let (mut term, mut sum) = (a, a);
        for n in 1..100 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return x.signum() * sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let mut tail = 0.0;
    for n in (1..60).rev() {
        tail = f64::from(n) / 2.0 / (a + tail);
    }
    x.signum() * (1.0 - (-a * a).exp() / (a + tail) / std::f64::consts::PI.sqrt())
}
