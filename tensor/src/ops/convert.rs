//! Conversions: dtypes (`Cast`), copies (`Copy`), devices, and to and from Rust slices.

use crate::axes::Axes;
use crate::backend::{Absence, absent_elements};
use crate::graph::Edge;
use crate::op::{Facts, Func, Fused, Grads, LowerFn, Op, Outs, Prim, Saved, Saves, Value, Values};
use crate::schema::{Numbers, Operand, Ret, Row, Sample, SampleArg, Scope, Tier, t};
use crate::{
    DType, Device, DeviceKind, Dims, Element, Error, Held, MemoryFormat, Meta, Place, Rep, Result, Scalar, Tensor,
    backend, dispatch, graph, inplace, samples, state, strides,
};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::{Bool, memory};
use torchtpu_stablehlo::{Direction, ElementType};

/// Converts elements to another dtype. Floats truncate towards zero, all numbers but zero are true, and complex numbers
/// lose their imaginary part if the dtype is real.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cast(pub DType);

impl Op for Cast {
    const NAME: &'static str = "to";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Copied;
    fn label(&self) -> &'static str {
        "_to_copy"
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dtype(self.0))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        torchtpu_kernels::copy::copy(&x[0].view(), &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let loses_imaginary = x[0].element().is_complex() && !self.0.is_complex() && self.0 != DType::Bool;
        let x = if loses_imaginary { f.unary("stablehlo.real", &x[0]) } else { x[0].clone() };
        if self.0.is_stored() && x.element() != crate::meta::element_type(self.0) {
            return smallvec![lower_to_stored(f, &x, self.0)];
        }
        let x = if x.element().is_float8() { f.convert(&x, ElementType::F32) } else { x };
        // XLA saturates where C wraps, so floats are converted to narrow integers through a wide type.
        let narrow = self.0.is_int() && self.0.size_bytes() < 4;
        let x = if narrow && x.element().is_float() {
            f.convert(&x, ElementType::S32)
        } else if x.element() == ElementType::Pred && self.0.is_float() {
            // XLA replaces a product with a converted truth value by a choice of zero, even if the other factor is NaN.
            f.convert(&x, ElementType::U8)
        } else {
            x
        };
        smallvec![f.convert(&x, crate::meta::element_type(self.0))]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(g.to_dtype(s.meta(0).dtype)?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Convert to a dtype that is only stored, as the kernels do. XLA saturates integers, and has infinities of its own.
fn lower_to_stored(f: &mut Func, x: &Value, dtype: DType) -> Value {
    let to = crate::meta::element_type(dtype);
    if !dtype.is_float8() {
        if !x.element().is_float() && !x.element().is_float8() {
            return f.convert(x, to);
        }
        let x = if x.element() == ElementType::F64 { x.clone() } else { f.convert(x, ElementType::F32) };
        let signed = f.convert(&x, ElementType::S64);
        // Numbers out of range are the least signed integer.
        let (low, high) = (f.splat(-(2f64.powi(63)), x.ty()), f.splat(2f64.powi(63), x.ty()));
        let (above, below) = (f.compare(Direction::Ge, &x, &low), f.compare(Direction::Lt, &x, &high));
        let least = f.splat_i64(i64::MIN, signed.ty());
        let is_held = f.binary("stablehlo.and", &above, &below);
        let signed = f.select(&is_held, &signed, &least);
        let y = f.convert(&signed, to);
        if dtype != DType::U64 {
            return y;
        }
        let (end, zero) = (f.splat(2f64.powi(64), x.ty()), f.splat_i64(0, y.ty()));
        let (is_large, is_over) = (f.compare(Direction::Ge, &x, &high), f.compare(Direction::Ge, &x, &end));
        let direct = f.convert(&x, to);
        let direct = f.select(&is_over, &zero, &direct);
        return f.select(&is_large, &direct, &y);
    }
    let x = f.convert(x, ElementType::F32);
    match dtype {
        DType::F8E4M3FN => {
            let (low, high) = (f.splat(-448.0, x.ty()), f.splat(448.0, x.ty()));
            let bounded = f.clamp(&low, &x, &high);
            f.convert(&bounded, to)
        }
        DType::F8E8M0FNU => {
            // The exponent, one more where the digits are at least a half.
            let bits = f.bitcast_convert(&x, ElementType::U32);
            let shift = f.splat_i64(23, bits.ty());
            let exponent = f.binary("stablehlo.shift_right_logical", &bits, &shift);
            let (mask, digit) = (f.splat_i64(0xff, bits.ty()), f.splat_i64(0x7f_ffff, bits.ty()));
            let (exponent, digits) =
                (f.binary("stablehlo.and", &exponent, &mask), f.binary("stablehlo.and", &bits, &digit));
            let (half, zero) = (f.splat_i64(0x40_0000, bits.ty()), f.splat_i64(0, bits.ty()));
            let above = f.compare(Direction::Gt, &digits, &half);
            let (tie, normal) = (f.compare(Direction::Eq, &digits, &half), f.compare(Direction::Ne, &exponent, &zero));
            let tie = f.binary("stablehlo.and", &tie, &normal);
            let up = f.binary("stablehlo.or", &above, &tie);
            let up = f.convert(&up, ElementType::U32);
            let code = f.binary("stablehlo.add", &exponent, &up);
            let code = f.binary("stablehlo.minimum", &code, &mask);
            let code = f.convert(&code, ElementType::U8);
            f.bitcast_convert(&code, to)
        }
        DType::F8E5M2 => {
            // XLA has another NaN.
            let code = f.convert(&x, to);
            let code = f.bitcast_convert(&code, ElementType::U8);
            let bits = f.bitcast_convert(&x, ElementType::U32);
            let (shift, mask) = (f.splat_i64(24, bits.ty()), f.splat_i64(0x80, bits.ty()));
            let sign = f.binary("stablehlo.shift_right_logical", &bits, &shift);
            let sign = f.binary("stablehlo.and", &sign, &mask);
            let sign = f.convert(&sign, ElementType::U8);
            let nan = f.splat_i64(0x7f, code.ty());
            let nan = f.binary("stablehlo.or", &nan, &sign);
            let is_nan = f.compare(Direction::Ne, &x, &x);
            let code = f.select(&is_nan, &nan, &code);
            f.bitcast_convert(&code, to)
        }
        _ => f.convert(&x, to),
    }
}

/// The same elements in new memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Copy;

impl Op for Copy {
    const NAME: &'static str = "clone";
    const FACTS: Facts = Facts { updates_in_place: true, carries_checks: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Copied;
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        torchtpu_kernels::copy::copy(&x[0].view(), &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, _: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        smallvec![x[0].clone()]
    }
    fn vjp(&self, _: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(g.clone())])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// The same elements, which a compiler must treat as different ones. It cannot reuse results that were computed from
/// the operand before, so a checkpoint's second run is a real one. With a second operand, the elements are there only
/// after it is computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Barrier;

impl Fused for Barrier {
    const NAME: &'static str = "optimization_barrier";
    const STRIDES: crate::op::Strides = crate::op::Strides::Copied;
    const LOWER: Option<LowerFn<Self>> = Some(|_, f, x, _| smallvec![f.optimization_barrier(x).swap_remove(0)]);
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let after = x.get(1).map_or(0, |after| after.dims.len());
        Axes::parse(&format!("..., {} -> ...", vec!["_"; after].join(" ")), x, y).linear(&[0b1])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        Ok(smallvec![x[0].copy()?])
    }
}

/// The tensor behind a [`Barrier`], on a device whose programs are compiled; on other devices the tensor itself.
///
/// # Errors
/// The errors of recording an op.
pub fn barrier(x: &Tensor) -> Result<Tensor> {
    barrier_after(x, None)
}

/// The tensor behind a [`Barrier`] that programs pass after `after` is computed. A parameter that is gathered behind it
/// for a backward pass takes no memory before.
///
/// # Errors
/// The errors of recording an op. `Runtime` if `after` is on another device.
pub fn barrier_after(x: &Tensor, after: Option<&Tensor>) -> Result<Tensor> {
    if x.device().kind != DeviceKind::Tpu {
        return Ok(x.clone());
    }
    match after {
        None => dispatch::call(Prim::Barrier(Barrier), &[x]),
        Some(after) => dispatch::call(Prim::Barrier(Barrier), &[x, &after.detach()]),
    }
}

/// Gradient of a copy between devices: a copy back.
struct ToDevice(Place);

impl graph::BackwardFn for ToDevice {
    fn name(&self) -> String {
        "ToCopyBackward0".into()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        Ok(smallvec![g[0].as_ref().map(|g| g.to_device(self.0)).transpose()?])
    }
}

/// The error for reading an element of a dense `meta` tensor.
pub(crate) fn item_of_meta() -> Error {
    Error::runtime("Tensor.item() cannot be called on meta tensors")
}

/// Warn, once, that a conversion which the user asked for drops imaginary parts.
///
/// # Errors
/// The error that the warning function returns.
fn warn_of_loss(from: DType, to: DType) -> Result<()> {
    if !from.is_complex() || to.is_complex() || to == DType::Bool {
        return Ok(());
    }
    crate::warn_once!("Casting complex values to real discards the imaginary part")
}

impl Tensor {
    /// Convert to a dtype. Return the tensor itself if it has this dtype.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        let y = dispatch::call(Prim::Cast(Cast(dtype)), &[self])?;
        if self.is_wrapped_number() {
            y.mark_wrapped_number();
        }
        Ok(y)
    }
    /// Copy to a device. Return the tensor itself if it is on this device.
    ///
    /// # Errors
    /// When there is no such device, or not enough memory on it.
    pub fn to_device(&self, device: impl Into<Place>) -> Result<Tensor> {
        let place = device.into();
        if self.place() == place {
            return Ok(self.clone());
        }
        let y = self.copied_to(place)?;
        if state::grad_enabled() && self.requires_grad() {
            let edges: SmallVec<[Edge; 2]> = smallvec![self.history_edge()?];
            let node = graph::Node::function(Box::new(ToDevice(self.place())), edges, smallvec![*y.meta()]);
            y.set_new_grad_ref(crate::GradRef::Node(node), 0);
        }
        Ok(y)
    }
    fn copied_to(&self, place: Place) -> Result<Tensor> {
        // Only its maker can make a foreign tensor. Beside one, a new tensor is dense.
        let place = if place.rep == Rep::Foreign { place.device.into() } else { place };
        let meta = Meta { place, ..*self.meta() };
        match (self.place().held(), place.held()) {
            (Held::Abstract, Held::Abstract) => Tensor::empty_with(&meta, strides::preserved(self)),
            (Held::Abstract, _) => Err(absent_elements(self, Absence::ITEM, || {
                Error::not_implemented("Cannot copy out of meta tensor; no data!")
            })),
            (_, Held::Abstract) => Tensor::empty_with(&meta, strides::preserved(self)),
            (Held::Memory, Held::Handle) => {
                let representation = backend::of(place)?;
                backend::check_exists(place.device)?;
                let mut x = state::no_grad(|| self.contiguous())?;
                // Programs rely on zeros and ones. A copy has them.
                if x.dtype() == DType::Bool && x.as_bytes().is_some_and(|v| v.iter().any(|b| *b > 1)) {
                    x = state::no_grad(|| x.copy())?;
                }
                let handle = representation.upload(&meta, x.as_bytes().expect("contiguous and on cpu"))?;
                let y = Tensor::from_device_value(&meta, handle);
                if state::is_inference() {
                    y.mark_inference();
                }
                Ok(if self.is_plain() { y } else { y.with_strides(strides::preserved(self)) })
            }
            (Held::Handle, Held::Memory) => {
                let handle = self.device_value()?;
                let mut y = Tensor::empty(&meta)?;
                backend::of(self.place())?.read(handle, y.as_bytes_mut().expect("contiguous and on cpu"))?;
                if self.is_plain() {
                    return Ok(y);
                }
                let strides = strides::preserved(self);
                if *y.strides() == strides { Ok(y) } else { state::no_grad(|| dispatch::copy_with(&y, strides)) }
            }
            (Held::Memory, Held::Memory) => state::no_grad(|| self.detach().copy()),
            (Held::Handle, Held::Handle) => Tensor::copied_to(&self.copied_to(Place::CPU)?, place),
        }
    }
    /// A copy in new memory, which keeps the order of dimensions as PyTorch's `clone()` does.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn copy(&self) -> Result<Tensor> {
        dispatch::call(Prim::Copy(Copy), &[self])
    }
    /// The elements row major without gaps: the tensor itself if it has this layout, else a copy.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.is_contiguous() {
            Ok(self.clone())
        } else {
            dispatch::copy_with(self, self.dims().contiguous_strides())
        }
    }
    /// Overwrite this tensor with another's elements, broadcast and converted.
    ///
    /// # Errors
    /// `Runtime` when sizes do not broadcast, or the write is not allowed.
    pub fn copy_(&self, source: &Tensor) -> Result<&Tensor> {
        if self.is_same(source) && inplace::repeats_elements(self) {
            // Nothing changes, so no element is written twice.
            return Ok(self);
        }
        inplace::check_writable(self)?;
        inplace::check_apart(self, source)?;
        let y = if source.place() == self.place() { source.clone() } else { source.to_device(self.place())? };
        warn_of_loss(y.dtype(), self.dtype())?;
        let y = if y.dtype() == self.dtype() { y } else { y.to_dtype(self.dtype())? };
        let dims: Vec<i64> = self.dims().iter().map(|&n| n as i64).collect();
        let y = if y.dims() == self.dims() {
            y
        } else if y.dims().len() > dims.len()
            || crate::op::broadcast_dims(self.dims(), y.dims()).is_ok_and(|d| d != *self.dims())
        {
            return Err(Error::runtime(format!(
                "output with shape {} doesn't match the broadcast shape {}",
                self.dims(),
                y.dims()
            )));
        } else {
            crate::op::broadcast_dims(self.dims(), y.dims())?;
            y.expand(&dims)?
        };
        // A copy from an alias of the tensor, or from overlapping memory, needs a temporary copy.
        let y = if y.shares_storage(self) && self.place().in_memory() { y.copy()? } else { y };
        // Overwritten elements have a gradient: zero.
        let y = if y.requires_grad() && inplace::is_whole(self) && self.requires_grad() && state::grad_enabled() {
            crate::ops::pointwise::independent_of(&self.alias_with_history()?, y)?
        } else {
            y
        };
        inplace::assign(self, &y)?;
        Ok(self)
    }

    /// A `cpu` tensor with these elements.
    ///
    /// # Errors
    /// `Runtime` when the number of elements does not fit the sizes.
    pub fn from_slice<T: Element>(data: &[T], dims: &[usize]) -> Result<Tensor> {
        let dims = Dims::try_new(dims)?;
        if data.len() != dims.numel() {
            return Err(Error::runtime(format!("shape '{dims}' is invalid for input of size {}", data.len())));
        }
        let y = Tensor::empty(&Meta { dims, dtype: T::DTYPE, place: Place::CPU })?;
        if let Some(out) = y.view_mut().as_slice_mut::<T>() {
            out.copy_from_slice(data);
        } else if let Some(out) = y.view_mut().as_slice_mut::<Bool>() {
            out.iter_mut().zip(data).for_each(|(to, v)| *to = Bool::from_i64(v.to_i64()));
        }
        Ok(y)
    }
    /// [`Tensor::from_slice`] on a device.
    ///
    /// # Errors
    /// The errors of [`Tensor::from_slice`] and [`Tensor::to_device`].
    pub fn from_slice_on<T: Element>(data: &[T], dims: &[usize], device: impl Into<Place>) -> Result<Tensor> {
        Tensor::from_slice(data, dims)?.to_device(device)
    }
    /// The elements in row-major order, converted to `T`.
    ///
    /// # Errors
    /// When computing them failed.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        state::no_grad(|| {
            let x = self.to_dtype(T::DTYPE)?.to_device(Device::CPU)?.contiguous()?;
            if !T::IS_PLAIN {
                let x = x.as_slice::<Bool>().expect("contiguous, on cpu and of this dtype");
                return Ok(memory::collect(x.iter().map(|v| T::from_i64(v.to_i64()))));
            }
            Ok(memory::copied(x.as_slice::<T>().expect("contiguous, on cpu and of this dtype")))
        })
    }
    /// The bytes of the elements in row-major order, each as the machine stores it.
    ///
    /// # Errors
    /// `Runtime` for `meta` tensors, which have no bytes; the errors of computing or reading the elements.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        state::no_grad(|| {
            let x = self.detach().to_device(Device::CPU)?.resolved()?.contiguous()?;
            Ok(memory::copied(x.as_bytes().expect("contiguous and on cpu")))
        })
    }
    /// A `cpu` tensor from the bytes of its elements in row-major order, as [`Tensor::to_bytes`] returns them.
    ///
    /// # Errors
    /// `Value` unless there are as many bytes as the elements take; `Memory` when there is no room.
    pub fn from_bytes(bytes: &[u8], dims: &[usize], dtype: DType) -> Result<Tensor> {
        let dims = Dims::try_new(dims)?;
        let takes = dims.iter().try_fold(dtype.size_bytes(), |n, d| n.checked_mul(*d));
        if takes != Some(bytes.len()) {
            return Err(Error::value(format!(
                "{} bytes are not the elements of a tensor of shape {dims} and type {}",
                bytes.len(),
                dtype.name()
            )));
        }
        let mut y = Tensor::empty(&Meta { dims, dtype, place: Place::CPU })?;
        y.as_bytes_mut().expect("new and on cpu").copy_from_slice(bytes);
        Ok(y)
    }
    /// The only element.
    ///
    /// # Errors
    /// `Runtime` unless there is exactly one.
    pub fn item(&self) -> Result<Scalar> {
        if self.numel() != 1 {
            return Err(Error::runtime(format!(
                "a Tensor with {} elements cannot be converted to Scalar",
                self.numel()
            )));
        }
        if self.place().is_abstract() {
            return Err(absent_elements(self, Absence::ITEM, item_of_meta));
        }
        let x = if self.place().in_memory() { self.clone() } else { self.copied_to(Place::CPU)? };
        Ok(Scalar::from_bits(x.scalar_bits().expect("one element on cpu"), x.dtype()))
    }
    /// The only element as `f64`.
    ///
    /// # Errors
    /// The errors of [`Tensor::item`].
    pub fn item_f64(&self) -> Result<f64> {
        self.item().map(Scalar::to_f64)
    }
}

/// `Tensor.to` and related functions. They copy only if dtype or device change, or if a copy is asked for.
pub fn to(x: &Tensor, dtype: Option<DType>, place: Option<Place>, copy: bool) -> Result<Tensor> {
    to_format(x, dtype, place, copy, None)
}

/// [`to`], where a copy has this memory format, or that of `x` if none is given. If only the format differs, a copy is
/// made if the format is a channels-last one, as in PyTorch.
pub fn to_format(
    x: &Tensor,
    dtype: Option<DType>,
    place: Option<Place>,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let mut y = x.clone();
    // Convert on the side that moves fewer bytes.
    let dtype = dtype.unwrap_or(x.dtype());
    let place = place.unwrap_or(x.place());
    warn_of_loss(x.dtype(), dtype)?;
    if dtype.size_bytes() <= x.dtype().size_bytes() {
        y = y.to_dtype(dtype)?.to_device(place)?;
    } else {
        y = y.to_device(place)?.to_dtype(dtype)?;
    }
    match format {
        None | Some(MemoryFormat::Preserve) => {
            if copy && y.is_same(x) {
                y.copy()
            } else {
                Ok(y)
            }
        }
        Some(f) if y.is_same(x) && !copy && x.suggested_format() == f => Ok(y),
        Some(f) => {
            let strides = f.strides(x.dims())?;
            if !y.is_same(x) && *y.strides() == strides { Ok(y) } else { dispatch::copy_with(&y, strides) }
        }
    }
}

macro_rules! dtype_rows {
    ($($name:literal $dtype:ident $doc:literal;)*) => {
        /// Rows of `Tensor.float()` and related methods.
        const DTYPE_ROWS: [Row; 12] = [$(
            Row::new(concat!($name, "(Tensor(a) self, *, MemoryFormat? memory_format=None) -> Tensor(a)"), Tier::Prim,
                |a| Ok(to_format(a.tensor(0)?, Some(DType::$dtype), None, false, a.memory_format(1)?)?.into()), ||
                    vec![Sample::new(vec![t(&[2, 3])]).no_gradient()])
                .doc($doc)
                .scope(Scope::Method).no_out()
        ),*];
    };
}
dtype_rows! {
    "float" F32
        "Return `self` as `float32`. It is `self` itself if it has that dtype already, unless `memory_format` asks \
         for another layout.";
    "double" F64
        "Return `self` as `float64`. It is `self` itself if it has that dtype already, unless `memory_format` asks \
         for another layout.";
    "half" F16
        "Return `self` as `float16`. It is `self` itself if it has that dtype already, unless `memory_format` asks \
         for another layout.";
    "bfloat16" BF16
        "Return `self` as `bfloat16`. It is `self` itself if it has that dtype already, unless `memory_format` asks \
         for another layout.";
    "long" I64
        "Return `self` as `int64`, where floats are truncated towards zero. It is `self` itself if it has that \
         dtype already, unless `memory_format` asks for another layout.";
    "int" I32
        "Return `self` as `int32`, where floats are truncated towards zero and wider integers wrap around. It is \
         `self` itself if it has that dtype already, unless `memory_format` asks for another layout.";
    "short" I16
        "Return `self` as `int16`, where floats are truncated towards zero and wider integers wrap around. It is \
         `self` itself if it has that dtype already, unless `memory_format` asks for another layout.";
    "char" I8
        "Return `self` as `int8`, where floats are truncated towards zero and wider integers wrap around. It is \
         `self` itself if it has that dtype already, unless `memory_format` asks for another layout.";
    "byte" U8
        "Return `self` as `uint8`, where floats are truncated towards zero and wider integers wrap around. It is \
         `self` itself if it has that dtype already, unless `memory_format` asks for another layout.";
    "bool" Bool
        "Return `self` as `bool`, where zero is false and everything else true, NaN included. It is `self` itself \
         if it has that dtype already, unless `memory_format` asks for another layout.";
    "cfloat" C64
        "Return `self` as `complex64`, where real numbers get the imaginary part 0. It is `self` itself if it has \
         that dtype already, unless `memory_format` asks for another layout.";
    "cdouble" C128
        "Return `self` as `complex128`, where real numbers get the imaginary part 0. It is `self` itself if it has \
         that dtype already, unless `memory_format` asks for another layout.";
}

const OTHER_ROWS: [Row; 10] = [
    Row::new(
        "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        Tier::Prim,
        |a| {
            let x = a.tensor(0)?;
            Ok(match a.memory_format(1)? {
                None | Some(MemoryFormat::Preserve) => x.copy()?,
                Some(f) => dispatch::copy_with(x, f.strides(x.dims())?)?,
            }
            .into())
        },
        samples!([t(&[2, 3])], [SampleArg::Transposed(vec![2, 3], crate::schema::Fill::Normal)]),
    )
    .doc(
        "Return a copy of `input` in memory of its own. It keeps the order of the dimensions in memory unless \
         `memory_format` asks for another one. Gradients pass through it; `torch.detach` before it cuts them off.",
    )
    .no_out(),
    Row::new(
        "_optimization_barrier(Tensor self, Tensor? after=None) -> Tensor",
        Tier::Fused,
        |a| {
            let (x, after) = (a.tensor(0)?, a.opt_tensor(1)?.map(Tensor::detach));
            if let Some(after) = &after {
                crate::op::check_same_device(x, after)?;
            }
            let operands: SmallVec<[&Tensor; 2]> = [x].into_iter().chain(&after).collect();
            Ok(dispatch::call(Prim::Barrier(Barrier), &operands)?.into())
        },
        samples!([t(&[2, 3])], [t(&[2, 3]), t(&[4])]),
    )
    .doc(
        "Return the elements of `input` as a value for which the compiler computes everything anew, also what it \
         has computed from `input` before. Programs compute `after` first.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
        Tier::Prim,
        |a| {
            let x = a.tensor(0)?;
            let format = a.memory_format(1)?.unwrap_or(MemoryFormat::Contiguous);
            if x.is_contiguous_in(format) {
                return Ok(x.clone().into());
            }
            Ok(dispatch::copy_with(x, format.strides(x.dims())?)?.into())
        },
        samples!([SampleArg::Transposed(vec![2, 3], crate::schema::Fill::Normal)]),
    )
    .doc(
        "Return `self` with its elements in row-major order without gaps, or in the order of `memory_format`. It is \
         `self` itself if they lie so already, else a copy.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "detach(Tensor(a) self) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.detach().into()),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient()],
    )
    .doc(
        "Return a tensor that shares the memory of `input`, without its gradient history. In-place changes of one \
         are seen in the other.",
    )
    .no_out(),
    Row::new(
        "copy_(Tensor(a!) self, Tensor other, bool non_blocking=False) -> Tensor(a!)",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            let y = match a.operand(1)? {
                Operand::Tensor(y) => x.copy_(y)?,
                Operand::Scalar(v) => x.copy_(&Tensor::full(&[], v, x.dtype(), x.place())?)?,
            };
            Ok(Ret::Tensor(y.clone()))
        },
        Vec::new,
    )
    .doc(
        "Overwrite `self` with the elements of `other` and return it. `other` is broadcast to the shape of `self`, \
         and converted to its dtype and device; it may be a number.",
    )
    .scope(Scope::Method)
    .no_out()
    .numbers(Numbers::Second),
    Row::new(
        "_to(Tensor(a) self, Device? device=None, ScalarType? dtype=None, bool non_blocking=False, bool \
        copy=False, *, MemoryFormat? memory_format=None) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(to_format(a.tensor(0)?, a.opt_dtype(2)?, a.opt_device(1)?, a.bool(4)?, a.memory_format(5)?)?.into()),
        Vec::new,
    )
    .doc("Return `self` in another dtype or on another device, or itself if nothing changes and `copy` is false.")
    .scope(Scope::Nn)
    .no_out(),
    Row::new(
        "type_as(Tensor self, Tensor other) -> Tensor",
        Tier::Composed,
        |a| Ok(to(a.tensor(0)?, Some(a.tensor(1)?.dtype()), Some(a.tensor(1)?.place()), false)?.into()),
        samples!([t(&[2, 3]), t(&[1])]),
    )
    .doc("Return `self` in the dtype and on the device of `other`. It is `self` itself if nothing changes.")
    .scope(Scope::Method)
    .no_out(),
    Row::new("item(Tensor self) -> Scalar", Tier::Composed, |a| Ok(a.tensor(0)?.item()?.into()), Vec::new)
        .doc(
            "Return the only element of `self` as a Python number. More or fewer elements than one raise \
         `RuntimeError`. A value that is still to be computed on a device is computed and read.",
        )
        .scope(Scope::Method)
        .no_out(),
    Row::new(
        "equal(Tensor self, Tensor other) -> bool",
        Tier::Composed,
        |a| {
            let (x, y) = (a.tensor(0)?, a.tensor(1)?);
            if x.dims() != y.dims() {
                return Ok(false.into());
            }
            if x.place().is_abstract() {
                return Err(absent_elements(x, Absence::Value("equal.default"), item_of_meta));
            }
            Ok((crate::ops::reduce::reduce(crate::ops::reduce::ReduceKind::All, &x.eq(y)?, None, false)?.item_f64()?
                != 0.0)
                .into())
        },
        Vec::new,
    )
    .doc(
        "Return `True` if `input` and `other` have the same shape and equal elements, as a Python `bool`. A NaN \
         makes them unequal. For one answer an element use `torch.eq`.",
    )
    .no_out(),
    Row::new(
        "requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)",
        Tier::Composed,
        |a| Ok(Ret::Tensor(a.tensor(0)?.requires_grad_(a.bool(1)?)?.clone())),
        Vec::new,
    )
    .doc(
        "Switch the recording of gradients for `self` on or off, and return `self`. Only floating-point and complex \
         tensors can have gradients, and it cannot be switched off for the result of a recorded operation.",
    )
    .scope(Scope::Method)
    .no_out(),
];

/// Rows of the conversions.
pub const ROWS: &[Row] = &{
    // One list made of two tables.
    let [a, b, c, d, e, f, g, h, i, j, cf, cd] = DTYPE_ROWS;
    let [k, l, m, n, o, p, q, r, s, t] = OTHER_ROWS;
    [a, b, c, d, e, f, g, h, i, j, cf, cd, k, l, m, n, o, p, q, r, s, t]
};
