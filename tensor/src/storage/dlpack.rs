//! DLPack: tensors exchanged with other libraries without a copy.
//!
//! A library that gives memory away fills a struct with its address, sizes and strides and with a *deleter*, which the
//! consumer calls when it no longer needs the memory. The
//! [specification](https://dmlc.github.io/dlpack/latest/c_api.html) defines the structs, in two forms:
//! [`DLManagedTensor`], and [`DLManagedTensorVersioned`], which also says whether the memory may be written.
//!
//! [`ManagedTensor`] owns such a struct. [`to_dlpack`] makes one from a tensor, and [`from_dlpack`] makes a tensor from
//! one. Pass a foreign function the pointer of [`ManagedTensor::into_raw`], and take its pointer with
//! [`ManagedTensor::from_raw`], the only `unsafe` step. Python's capsules use the same parts.
//!
//! ```
//! use torchtpu_tensor::{Tensor, dlpack};
//!
//! let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let raw = dlpack::to_dlpack(&x.transpose(0, 1)?)?.into_raw(); // for a C function
//!
//! // SAFETY: the struct is what `into_raw` gave, and nobody else has it.
//! let y = dlpack::from_dlpack(unsafe { dlpack::ManagedTensor::from_raw(raw) })?;
//! assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
//! assert_eq!(y.data_ptr(), x.data_ptr());
//! # Ok::<(), torchtpu_tensor::Error>(())
//! ```

use crate::block::reach;
use crate::{DType, Device, DeviceKind, Dims, Error, ErrorKind, Meta, Place, Result, Tensor};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};

/// Set in [`DLManagedTensorVersioned::flags`] if the memory must not be written.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;
/// Set in [`DLManagedTensorVersioned::flags`] if the memory is a copy that was made for the consumer.
pub const DLPACK_FLAG_BITMASK_IS_COPIED: u64 = 2;
/// The version of the structs here. Exported structs have it, and structs of a newer major version are refused.
pub const DLPACK_VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };

/// The version of the structs that a producer writes. Structs of another major version have another layout.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLPackVersion {
    /// Number of changes of layout.
    pub major: u32,
    /// Number of additions that keep the layout.
    pub minor: u32,
}

/// The place of memory: DLPack's number of a kind of device, and the index of the device in its kind.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDevice {
    /// The kind, `DLDeviceType` in C: 1 is host memory, 2 is CUDA, 12 is an accelerator without a number of its own.
    pub device_type: i32,
    /// The index in the kind; 0 for the host.
    pub device_id: i32,
}

impl DLDevice {
    /// Host memory, `kDLCPU`.
    pub const CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };

    /// The DLPack device of a device. An accelerator behind PJRT is `kDLExtDev`; a consumer can ask for a copy on the
    /// host.
    ///
    /// # Errors
    /// `Value` for `meta` and meshes, which have no memory of their own.
    pub fn of(device: Device) -> Result<DLDevice> {
        match device.kind {
            DeviceKind::Cpu => Ok(DLDevice::CPU),
            DeviceKind::Tpu => Ok(DLDevice { device_type: 12, device_id: device.number().into() }),
            DeviceKind::Meta => Err(Error::value(format!("Unknown device type {} for Dlpack", device.type_name()))),
        }
    }
}

/// An element type: a kind of number, its bits, and how many numbers make an element.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDataType {
    /// The kind, `DLDataTypeCode` in C.
    pub code: u8,
    /// Bits of one number.
    pub bits: u8,
    /// Numbers in an element; 1, except in vector types.
    pub lanes: u16,
}

impl DLDataType {
    /// The element type of a dtype.
    pub const fn of(dtype: DType) -> DLDataType {
        let code = match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
            DType::F16 | DType::F32 | DType::F64 => 2,
            DType::BF16 => 4,
            DType::C64 | DType::C128 => 5,
            DType::Bool => 6,
            DType::F8E4M3FN => 10,
            DType::F8E4M3FNUZ => 11,
            DType::F8E5M2 => 12,
            DType::F8E5M2FNUZ => 13,
            DType::F8E8M0FNU => 14,
        };
        DLDataType { code, bits: 8 * dtype.size_bytes() as u8, lanes: 1 }
    }

    /// The dtype with this element type, if there is one.
    pub fn dtype(self) -> Option<DType> {
        DType::ALL.into_iter().find(|&dtype| DLDataType::of(dtype) == self)
    }
}

/// Memory, and the layout of elements in it.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// Start of the memory; may be null if there are no elements.
    pub data: *mut c_void,
    /// Device of the memory.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// Element type.
    pub dtype: DLDataType,
    /// `ndim` sizes, outermost first.
    pub shape: *mut i64,
    /// `ndim` strides in elements, or null for row-major elements without gaps.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// The first form of the struct, which has no version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The memory.
    pub dl_tensor: DLTensor,
    /// The producer's own pointer.
    pub manager_ctx: *mut c_void,
    /// Gives the memory back and frees this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// The form with a version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of the struct. If the major version is another, only `manager_ctx` and `deleter` may be used.
    pub version: DLPackVersion,
    /// The producer's own pointer.
    pub manager_ctx: *mut c_void,
    /// Gives the memory back and frees this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`DLPACK_FLAG_BITMASK_READ_ONLY`] and [`DLPACK_FLAG_BITMASK_IS_COPIED`], or 0.
    pub flags: u64,
    /// The memory.
    pub dl_tensor: DLTensor,
}

/// One of the two structs: [`DLManagedTensor`] or [`DLManagedTensorVersioned`].
pub trait Form: form::Struct {}
impl Form for DLManagedTensor {}
impl Form for DLManagedTensorVersioned {}

/// The methods of the two structs. The module is private, so that no other type can be a [`Form`].
mod form {
    use super::*;

    pub trait Struct: Sized + 'static {
        /// Make a struct of this library, which `deleter` frees.
        fn new(dl_tensor: DLTensor, flags: u64, deleter: unsafe extern "C" fn(*mut Self)) -> Self;
        /// The tensor and the producer's own pointer, for writing.
        fn parts(&mut self) -> (&mut DLTensor, &mut *mut c_void);
        fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
        /// The tensor and the flags, if the version is supported.
        fn content(&self) -> Result<(&DLTensor, u64)>;
    }

    impl Struct for DLManagedTensor {
        fn new(dl_tensor: DLTensor, _flags: u64, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
            DLManagedTensor { dl_tensor, manager_ctx: null_mut(), deleter: Some(deleter) }
        }
        fn parts(&mut self) -> (&mut DLTensor, &mut *mut c_void) {
            (&mut self.dl_tensor, &mut self.manager_ctx)
        }
        fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
            self.deleter
        }
        fn content(&self) -> Result<(&DLTensor, u64)> {
            Ok((&self.dl_tensor, 0))
        }
    }

    impl Struct for DLManagedTensorVersioned {
        fn new(dl_tensor: DLTensor, flags: u64, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
            let (version, deleter) = (DLPACK_VERSION, Some(deleter));
            DLManagedTensorVersioned { version, manager_ctx: null_mut(), deleter, flags, dl_tensor }
        }
        fn parts(&mut self) -> (&mut DLTensor, &mut *mut c_void) {
            (&mut self.dl_tensor, &mut self.manager_ctx)
        }
        fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
            self.deleter
        }
        fn content(&self) -> Result<(&DLTensor, u64)> {
            let DLPackVersion { major, minor } = self.version;
            if major > DLPACK_VERSION.major {
                return Err(Error::runtime(format!("from_dlpack: version {major}.{minor} of DLPack is not supported")));
            }
            Ok((&self.dl_tensor, self.flags))
        }
    }
}

/// The consumer's request. The default is the tensor's own memory, on its own device.
#[derive(Clone, Copy, Default, Debug)]
pub struct Request {
    /// The device that the consumer wants; `None` for the tensor's own.
    pub device: Option<DLDevice>,
    /// `Some(true)` always copies, `Some(false)` never does, and `None` copies only if it is necessary.
    pub copy: Option<bool>,
}

/// A struct of either form, and with it the memory that it describes. Dropping this calls the deleter.
#[derive(Debug)]
pub struct ManagedTensor<M: Form>(NonNull<M>);

// SAFETY: nothing writes through the struct, and `from_raw` requires that any thread may call the deleter.
unsafe impl<M: Form> Send for ManagedTensor<M> {}
// SAFETY: nothing writes through the struct, so threads may read it at once.
unsafe impl<M: Form> Sync for ManagedTensor<M> {}

impl<M: Form> Drop for ManagedTensor<M> {
    fn drop(&mut self) {
        if let Some(deleter) = self.get().deleter() {
            // SAFETY: by the contract of `from_raw` this value owns the struct, and it is dropped once.
            unsafe { deleter(self.0.as_ptr()) }
        }
    }
}

impl<M: Form> ManagedTensor<M> {
    /// Take over a struct of another library.
    ///
    /// # Safety
    /// `raw` is not null, the caller owns the struct, and no code changes it any more. The struct's statements are
    /// true: the lists have `ndim` entries, and until the deleter is called every element that sizes and strides reach
    /// may be read, and also written without the flag for read-only memory. Any thread may call the deleter.
    pub unsafe fn from_raw(raw: *mut M) -> ManagedTensor<M> {
        debug_assert!(!raw.is_null());
        // SAFETY: by the contract the pointer is not null.
        ManagedTensor(unsafe { NonNull::new_unchecked(raw) })
    }

    /// Return the struct for another library, which must call its deleter, on any thread.
    pub fn into_raw(self) -> *mut M {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// The struct, which this value still owns.
    pub fn as_ptr(&self) -> *const M {
        self.0.as_ptr()
    }

    fn get(&self) -> &M {
        // SAFETY: the struct lives, unchanged, until the deleter is called.
        unsafe { self.0.as_ref() }
    }

    /// Sizes and dtype of the tensor that [`from_dlpack`] would make.
    ///
    /// # Errors
    /// The errors of [`from_dlpack`], except `OutOfMemory`.
    pub fn meta(&self) -> Result<Meta> {
        let (x, _) = self.get().content()?;
        // SAFETY: by the contract of `from_raw` the lists have `ndim` entries.
        Ok(unsafe { layout(x) }?.meta)
    }

    /// Whether the memory must not be written. A struct without a version cannot say so.
    pub fn is_read_only(&self) -> bool {
        self.has(DLPACK_FLAG_BITMASK_READ_ONLY)
    }

    /// Whether the memory is a copy that was made for the consumer. A struct without a version cannot say so.
    pub fn is_copied(&self) -> bool {
        self.has(DLPACK_FLAG_BITMASK_IS_COPIED)
    }

    fn has(&self, flag: u64) -> bool {
        self.get().content().is_ok_and(|(_, flags)| flags & flag != 0)
    }

    /// Make a struct for a tensor, which lives until the deleter is called. The memory is the tensor's own, at its
    /// first element and with its strides, unless `request` makes it a copy.
    ///
    /// # Errors
    /// `Buffer`, in PyTorch's words, for a tensor that requires a gradient, for one whose memory holds the conjugates
    /// or negatives of its elements, and for one that is not on `cpu` unless a copy there is asked for. `Buffer` for a
    /// request of any other device. `Value` when a copy is needed and `request` refuses it. Otherwise the errors of the
    /// copy.
    pub fn new(x: &Tensor, request: &Request) -> Result<ManagedTensor<M>> {
        if x.requires_grad() {
            return Err(refused("Can't export tensors that require gradient, use tensor.detach()"));
        }
        if x.is_conj() {
            return Err(refused("Can't export tensors with the conjugate bit set"));
        }
        if x.is_neg() {
            return Err(refused("Can't export tensors with the negative bit set"));
        }
        let (x, copied) = arranged(x, request)?;
        if !x.place().in_memory() {
            return Err(refused(format!("Cannot pack tensors on {}", x.place())));
        }
        let list = |from: &Dims| {
            // The list has at least one element, so that its address is valid.
            from.iter().map(|&n| n as i64).chain([0]).collect::<Box<[i64]>>()
        };
        let dl_tensor = DLTensor {
            data: x.data_ptr() as *mut c_void,
            device: DLDevice::CPU,
            ndim: x.dims().len() as i32,
            dtype: DLDataType::of(x.dtype()),
            shape: null_mut(),
            strides: null_mut(),
            byte_offset: 0,
        };
        let flags = if copied { DLPACK_FLAG_BITMASK_IS_COPIED } else { 0 };
        let managed = M::new(dl_tensor, flags, delete::<M>);
        let (shape, strides) = (list(x.dims()), list(x.strides()));
        let given = Box::into_raw(Box::new(Given { managed, shape, strides, _tensor: x }));
        // SAFETY: the box has just been leaked, so its parts do not move until `delete` frees it.
        unsafe {
            let (dl_tensor, manager_ctx) = (*given).managed.parts();
            *manager_ctx = given.cast();
            dl_tensor.shape = (&raw mut *(*given).shape).cast();
            dl_tensor.strides = (&raw mut *(*given).strides).cast();
            Ok(ManagedTensor::from_raw(&raw mut (*given).managed))
        }
    }
}

/// An exported tensor: the struct, the lists that it points to, and the tensor, in one box.
struct Given<M> {
    managed: M,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _tensor: Tensor,
}

/// The deleter of an exported tensor. No panic may unwind into the C code that calls it.
unsafe extern "C" fn delete<M: Form>(raw: *mut M) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the consumer has a struct from `ManagedTensor::new`, whose pointer is the box's, and calls the
        // deleter once.
        unsafe { drop(Box::from_raw((*raw).parts().1.cast::<Given<M>>())) }
    }));
    // The panic hook has reported a panic; dropping its payload could panic again.
    std::mem::forget(outcome);
}

/// The tensor that answers a request, and whether it is a copy.
fn arranged(x: &Tensor, request: &Request) -> Result<(Tensor, bool)> {
    let Request { device, copy } = *request;
    match device {
        Some(wanted) if wanted != DLDevice::of(x.device())? => {
            if wanted != DLDevice::CPU {
                let DLDevice { device_type, device_id } = wanted;
                return Err(refused(format!(
                    "cannot export a tensor on {} to DLPack device ({device_type}, {device_id})",
                    x.place()
                )));
            }
            if copy == Some(false) {
                return Err(Error::value(format!(
                    "cannot move a tensor from {} to the host without a copy. Set copy=None or copy=True",
                    x.place()
                )));
            }
            Ok((x.to_device(Device::CPU)?, true))
        }
        _ if copy == Some(true) => Ok((x.copy()?, true)),
        _ => Ok((x.clone(), false)),
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Buffer, message)
}

/// The tensor's memory in a struct of the first form, as `torch.utils.dlpack.to_dlpack` returns it.
///
/// # Errors
/// The errors of [`ManagedTensor::new`]: the tensor must be on `cpu` and not require a gradient.
pub fn to_dlpack(x: &Tensor) -> Result<ManagedTensor<DLManagedTensor>> {
    ManagedTensor::new(x, &Request::default())
}

/// The tensor's memory in a struct with a version, which newer libraries expect.
///
/// # Errors
/// The errors of [`to_dlpack`].
pub fn to_dlpack_versioned(x: &Tensor) -> Result<ManagedTensor<DLManagedTensorVersioned>> {
    ManagedTensor::new(x, &Request::default())
}

/// A `cpu` tensor on the memory of another library, with the sizes, strides and dtype of the struct. The deleter is
/// called when the last tensor on that memory is dropped.
///
/// Memory that must not be written is copied, since no tensor refuses writes. A tensor without elements shares no
/// memory. In both cases, and after an error, the deleter is called at once.
///
/// # Errors
/// `Buffer` for memory that is not the host's, an element type without a dtype here, a negative size or stride, and an
/// address that is not aligned to its elements. `Runtime` for a newer major version, more dimensions than a tensor can
/// have, and sizes that overflow. `OutOfMemory` for the copy.
///
/// # Source
/// `torch.from_dlpack`
pub fn from_dlpack<M: Form>(managed: ManagedTensor<M>) -> Result<Tensor> {
    from_dlpack_with(managed, drop)
}

/// [`from_dlpack`] with a function that gives the memory back. When the memory is no longer needed, or after an error,
/// `release` is called with the struct, on any thread. The Python binding uses it to call deleters with the interpreter
/// attached.
///
/// # Errors
/// The errors of [`from_dlpack`].
pub fn from_dlpack_with<M: Form>(
    managed: ManagedTensor<M>,
    release: impl FnOnce(ManagedTensor<M>) + Send + Sync + 'static,
) -> Result<Tensor> {
    let taken = Taken(Some((managed, release)));
    let (managed, _) = taken.0.as_ref().expect("only dropping takes it");
    let (x, flags) = managed.get().content()?;
    // SAFETY: by the contract of `from_raw` the lists have `ndim` entries.
    let Layout { meta, strides, data } = unsafe { layout(x) }?;
    if meta.numel() == 0 {
        return Tensor::empty(&meta);
    }
    // SAFETY: by the contract of `from_raw` the memory covers these sizes and strides until the deleter is called.
    // `layout` has checked the alignment and that they are not negative.
    let y = unsafe { Tensor::from_foreign(&meta, &strides, data, Box::new(taken)) };
    if flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 { y.copy() } else { Ok(y) }
}

/// Memory of another library, with the function to call when it is no longer used.
struct Taken<M: Form, F: FnOnce(ManagedTensor<M>)>(Option<(ManagedTensor<M>, F)>);

impl<M: Form, F: FnOnce(ManagedTensor<M>)> Drop for Taken<M, F> {
    fn drop(&mut self) {
        if let Some((managed, release)) = self.0.take() {
            release(managed);
        }
    }
}

/// The layout of a tensor's elements.
struct Layout {
    meta: Meta,
    strides: Dims,
    data: *mut u8,
}

/// The layout that another library's struct describes, if a tensor here can have it.
///
/// # Safety
/// The lists must have `ndim` entries; `strides` may be null.
unsafe fn layout(x: &DLTensor) -> Result<Layout> {
    if x.device.device_type != DLDevice::CPU.device_type {
        return Err(refused(format!(
            "from_dlpack: memory of DLPack device type {} cannot be used here: only that of the host (1) can; copy it \
            there first",
            x.device.device_type
        )));
    }
    let Some(dtype) = x.dtype.dtype() else {
        return Err(refused(format!(
            "from_dlpack: there is no dtype for DLPack code {} with {} bits and {} lanes",
            x.dtype.code, x.dtype.bits, x.dtype.lanes
        )));
    };
    let Ok(rank) = usize::try_from(x.ndim) else {
        return Err(refused("from_dlpack: negative number of dimensions"));
    };
    if rank > 0 && x.shape.is_null() {
        return Err(refused("from_dlpack: no shape"));
    }
    let list = |p: *mut i64| match rank {
        0 => &[][..],
        // SAFETY: by the contract the list has `rank` entries, and this is not called with a null pointer.
        _ => unsafe { std::slice::from_raw_parts(p.cast_const(), rank) },
    };
    let sizes = list(x.shape)
        .iter()
        .map(|&n| usize::try_from(n).map_err(|_| refused(format!("from_dlpack: negative size {n}"))))
        .collect::<Result<Vec<_>>>()?;
    let dims = Dims::try_new(&sizes)?;
    if dims.checked_numel().is_none() {
        return Err(Error::runtime("numel: integer multiplication overflow"));
    }
    let mut strides = dims.contiguous_strides().to_vec();
    if !x.strides.is_null() {
        for ((to, &from), &n) in strides.iter_mut().zip(list(x.strides)).zip(&sizes) {
            *to = match usize::try_from(from) {
                Ok(stride) => stride,
                Err(_) if n <= 1 => 1, // no step is ever taken
                Err(_) => {
                    return Err(refused(
                        "from_dlpack: tensors with negative strides are not supported; copy the array first",
                    ));
                }
            };
        }
    }
    let bytes = reach(&dims, &strides).checked_mul(dtype.size_bytes());
    if bytes.is_none_or(|n| n > isize::MAX as usize) {
        return Err(Error::runtime(format!(
            "Storage size calculation overflowed with sizes={dims} and strides={strides:?}"
        )));
    }
    let data = x.data.cast::<u8>().wrapping_add(x.byte_offset as usize);
    // Complex numbers are aligned as their parts are.
    if dims.numel() > 0 && (data.is_null() || !data.addr().is_multiple_of(dtype.to_real().size_bytes())) {
        return Err(refused("from_dlpack: the memory is not aligned to its element size; copy the array first"));
    }
    Ok(Layout { meta: Meta { dims, dtype, place: Place::CPU }, strides: Dims::new(&strides), data })
}
