//! Tests of memory exchange with other libraries by DLPack: exported structs describe the tensor, imported tensors
//! match the struct, and each deleter is called once.

mod common;

use common::devices;
use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use torchtpu::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_VERSION, DLPackVersion, DLTensor, ManagedTensor, Request, from_dlpack,
    from_dlpack_with, to_dlpack, to_dlpack_versioned,
};
use torchtpu::{DType, Device, ErrorKind, Result, Tensor, c64};

/// Another library's array: its memory, its lists, and the number of calls of its deleter.
struct Foreign {
    data: Vec<f32>,
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    deleted: Arc<AtomicUsize>,
}

impl Foreign {
    /// Make an array of the numbers 0 to 11 that `shape` and `strides` describe.
    fn new(shape: &[i64], strides: Option<&[i64]>) -> (Box<Foreign>, Arc<AtomicUsize>) {
        let deleted = Arc::new(AtomicUsize::new(0));
        let data = (0..12).map(|i| i as f32).collect();
        let strides = strides.map(<[i64]>::to_vec);
        (Box::new(Foreign { data, shape: shape.to_vec(), strides, deleted: deleted.clone() }), deleted)
    }

    fn describe(&mut self) -> DLTensor {
        DLTensor {
            data: self.data.as_mut_ptr().cast(),
            device: DLDevice::CPU,
            ndim: self.shape.len() as i32,
            dtype: DLDataType::of(DType::F32),
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut().map_or(null_mut(), |s| s.as_mut_ptr()),
            byte_offset: 0,
        }
    }

    fn give(mut self: Box<Foreign>) -> Box<DLManagedTensor> {
        let dl_tensor = self.describe();
        let manager_ctx = Box::into_raw(self).cast();
        Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete) })
    }

    fn give_versioned(mut self: Box<Foreign>, flags: u64) -> Box<DLManagedTensorVersioned> {
        let dl_tensor = self.describe();
        let manager_ctx = Box::into_raw(self).cast();
        let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
        Box::new(DLManagedTensorVersioned { version: DLPACK_VERSION, manager_ctx, deleter, flags, dl_tensor })
    }
}

unsafe fn free(context: *mut c_void) {
    // SAFETY: `give` leaked the box, and its only owner frees it here.
    let foreign = unsafe { Box::from_raw(context.cast::<Foreign>()) };
    foreign.deleted.fetch_add(1, SeqCst);
}
unsafe extern "C" fn delete(raw: *mut DLManagedTensor) {
    // SAFETY: `own` leaked the box, and its only owner frees it here.
    unsafe { free(Box::from_raw(raw).manager_ctx) }
}
unsafe extern "C" fn delete_versioned(raw: *mut DLManagedTensorVersioned) {
    // SAFETY: `own` leaked the box, and its only owner frees it here.
    unsafe { free(Box::from_raw(raw).manager_ctx) }
}

fn own<M: torchtpu::dlpack::Form>(raw: Box<M>) -> ManagedTensor<M> {
    // SAFETY: the structs of these tests are valid wherever a tensor is made of them, and any thread may call their
    // deleters.
    unsafe { ManagedTensor::from_raw(Box::into_raw(raw)) }
}

#[track_caller]
fn refused<T>(y: Result<T>, kind: ErrorKind, message: &str) {
    let e = y.err().expect("an error");
    assert_eq!((e.kind(), e.message()), (kind, message));
}

fn count(dims: &[usize]) -> Tensor {
    let n: usize = dims.iter().product();
    Tensor::from_slice(&(0..n).map(|i| i as f32).collect::<Vec<_>>(), dims).unwrap()
}

#[test]
fn structs_have_the_layout_of_c() {
    assert_eq!((size_of::<DLDevice>(), size_of::<DLDataType>(), size_of::<DLPackVersion>()), (8, 4, 8));
    if size_of::<*mut u8>() == 8 {
        assert_eq!(
            [
                offset_of!(DLTensor, device),
                offset_of!(DLTensor, ndim),
                offset_of!(DLTensor, dtype),
                offset_of!(DLTensor, shape),
                offset_of!(DLTensor, strides),
                offset_of!(DLTensor, byte_offset),
                size_of::<DLTensor>(),
            ],
            [8, 16, 20, 24, 32, 40, 48]
        );
        assert_eq!((offset_of!(DLManagedTensor, manager_ctx), size_of::<DLManagedTensor>()), (48, 64));
        assert_eq!(
            [
                offset_of!(DLManagedTensorVersioned, manager_ctx),
                offset_of!(DLManagedTensorVersioned, deleter),
                offset_of!(DLManagedTensorVersioned, flags),
                offset_of!(DLManagedTensorVersioned, dl_tensor),
                size_of::<DLManagedTensorVersioned>(),
            ],
            [8, 16, 24, 32, 80]
        );
    }
}

#[test]
fn a_round_trip_shares_memory_and_keeps_strides_and_offset() -> Result<()> {
    let x = count(&[4, 6]);
    for view in [x.clone(), x.transpose(0, 1)?, x.slice(1, Some(1), None, 2)?.narrow(0, 1, 2)?, x.select(0, 2)?] {
        for y in [from_dlpack(to_dlpack(&view)?)?, from_dlpack(to_dlpack_versioned(&view)?)?] {
            assert_eq!((y.data_ptr(), y.meta()), (view.data_ptr(), view.meta()));
            assert_eq!(y.strides(), view.strides());
            assert_eq!(y.to_vec::<f32>()?, view.to_vec::<f32>()?);
        }
    }
    let y = from_dlpack(to_dlpack(&x.narrow(0, 1, 1)?)?)?;
    y.fill_(-1.0)?;
    assert_eq!(x.to_vec::<f32>()?[5..13], [5.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 12.0]);
    Ok(())
}

#[test]
fn every_dtype_survives_a_round_trip() -> Result<()> {
    for dtype in DType::ALL {
        let x = count(&[2, 3]).to_dtype(dtype)?;
        let managed = to_dlpack_versioned(&x)?;
        assert_eq!(managed.meta()?, *x.meta());
        let y = from_dlpack(managed)?;
        assert_eq!((y.dtype(), y.data_ptr()), (dtype, x.data_ptr()));
        assert_eq!(y.to_vec::<c64>()?, x.to_vec::<c64>()?);
        assert_eq!(DLDataType::of(dtype).dtype(), Some(dtype));
    }
    Ok(())
}

#[test]
fn scalars_and_empty_tensors_are_exchanged() -> Result<()> {
    let number = from_dlpack(to_dlpack(&count(&[]))?)?;
    assert!(number.dims().is_empty() && number.item_f64()? == 0.0);
    for dims in [&[0][..], &[3, 0], &[0, 4, 2]] {
        let y = from_dlpack(to_dlpack(&count(dims))?)?;
        assert_eq!(&y.dims()[..], dims);
    }
    let (mut foreign, deleted) = Foreign::new(&[2, 0], None);
    foreign.data = Vec::new();
    let mut given = foreign.give();
    given.dl_tensor.data = null_mut();
    let y = from_dlpack(own(given))?;
    assert_eq!((&y.dims()[..], deleted.load(SeqCst)), (&[2, 0][..], 1));
    Ok(())
}

#[test]
fn exported_memory_lives_as_long_as_it_is_used() -> Result<()> {
    let x = Tensor::full(&[100_000], 7.0, DType::F32, Device::CPU)?;
    let managed = to_dlpack(&x)?;
    drop(x);
    let y = from_dlpack(managed)?;
    let z = y.narrow(0, 10, 5)?;
    drop(y);
    assert_eq!(z.to_vec::<f32>()?, [7.0; 5]);
    drop(to_dlpack(&z)?); // nothing imports it
    assert_eq!(z.to_vec::<f32>()?, [7.0; 5]);
    Ok(())
}

#[test]
fn the_struct_describes_the_tensor() -> Result<()> {
    let x = count(&[4, 6]);
    let raw = to_dlpack_versioned(&x.transpose(0, 1)?.narrow(0, 2, 3)?)?.into_raw();
    // SAFETY: the struct was just made. It is read and then deleted as by a C consumer.
    unsafe {
        let DLTensor { data, device, ndim, dtype, shape, strides, byte_offset } = (*raw).dl_tensor;
        assert_eq!((data as usize, byte_offset), (x.data_ptr() + 8, 0));
        assert_eq!((device, ndim, (*raw).version, (*raw).flags), (DLDevice::CPU, 2, DLPACK_VERSION, 0));
        assert_eq!(dtype, DLDataType { code: 2, bits: 32, lanes: 1 });
        assert_eq!([*shape, *shape.add(1), *strides, *strides.add(1)], [3, 4, 1, 6]);
        ((*raw).deleter.expect("ours have one"))(raw);
    }
    assert_eq!(x.to_vec::<f32>()?[23], 23.0);
    Ok(())
}

#[test]
fn imported_memory_is_shared_and_its_deleter_is_called_once() -> Result<()> {
    let (foreign, deleted) = Foreign::new(&[3, 4], None);
    let given = foreign.give();
    let data = given.dl_tensor.data;
    let x = from_dlpack(own(given))?;
    assert_eq!((x.data_ptr(), &x.strides()[..]), (data as usize, &[4, 1][..]));
    x.select(0, 0)?.fill_(9.0)?;
    // SAFETY: the memory belongs to the tensor, and nothing writes it at this time.
    assert_eq!(unsafe { *data.cast::<f32>() }, 9.0);
    let (view, handle) = (x.narrow(1, 1, 2)?, x.clone());
    drop((x, handle));
    assert_eq!(deleted.load(SeqCst), 0);
    assert_eq!(view.to_vec::<f32>()?, [9.0, 9.0, 5.0, 6.0, 9.0, 10.0]);
    std::thread::spawn(move || drop(view)).join().unwrap();
    assert_eq!(deleted.load(SeqCst), 1);

    let (foreign, deleted) = Foreign::new(&[3, 4], None);
    drop(own(foreign.give_versioned(0)));
    assert_eq!(deleted.load(SeqCst), 1);
    Ok(())
}

#[test]
fn memory_exported_twice_is_deleted_once() -> Result<()> {
    let (foreign, deleted) = Foreign::new(&[12], None);
    let x = from_dlpack(own(foreign.give()))?;
    let y = from_dlpack(to_dlpack_versioned(&x)?)?;
    drop(x);
    assert_eq!((y.sum()?.item_f64()?, deleted.load(SeqCst)), (66.0, 0));
    drop(y);
    assert_eq!(deleted.load(SeqCst), 1);
    Ok(())
}

#[test]
fn imported_strides_and_byte_offsets_are_kept() -> Result<()> {
    let (foreign, _) = Foreign::new(&[2, 3], Some(&[1, 4]));
    let mut given = foreign.give();
    given.dl_tensor.byte_offset = 8;
    let x = from_dlpack(own(given))?;
    assert_eq!(x.to_vec::<f32>()?, [2.0, 6.0, 10.0, 3.0, 7.0, 11.0]);
    assert_eq!((&x.strides()[..], x.is_contiguous()), (&[1, 4][..], false));
    assert_eq!(x.add_scalar(1.0)?.sum_dim(&[0], false)?.to_vec::<f32>()?, [7.0, 15.0, 23.0]);

    let (foreign, _) = Foreign::new(&[2, 3], Some(&[0, 1]));
    assert_eq!(from_dlpack(own(foreign.give()))?.to_vec::<f32>()?, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    Ok(())
}

#[test]
fn strides_of_dimensions_of_size_one_are_ignored() -> Result<()> {
    let (foreign, _) = Foreign::new(&[1, 3], Some(&[-7, 2]));
    assert_eq!(from_dlpack(own(foreign.give()))?.to_vec::<f32>()?, [0.0, 2.0, 4.0]);
    Ok(())
}

#[test]
fn invalid_structs_are_refused_and_deleted() {
    type Change = fn(&mut DLTensor);
    let table: &[(Change, ErrorKind, &str)] = &[
        (
            |x| x.device.device_type = 2,
            ErrorKind::Buffer,
            "from_dlpack: memory of DLPack device type 2 cannot be used here: only that of the host (1) can; copy it \
            there first",
        ),
        (
            |x| x.dtype = DLDataType { code: 1, bits: 24, lanes: 1 },
            ErrorKind::Buffer,
            "from_dlpack: there is no dtype for DLPack code 1 with 24 bits and 1 lanes",
        ),
        (
            |x| x.dtype.lanes = 4,
            ErrorKind::Buffer,
            "from_dlpack: there is no dtype for DLPack code 2 with 32 bits and 4 lanes",
        ),
        (|x| x.ndim = -1, ErrorKind::Buffer, "from_dlpack: negative number of dimensions"),
        (|x| x.shape = null_mut(), ErrorKind::Buffer, "from_dlpack: no shape"),
        // SAFETY: the list has two entries.
        (|x| unsafe { *x.shape = -3 }, ErrorKind::Buffer, "from_dlpack: negative size -3"),
        (
            // SAFETY: the list has two entries.
            |x| unsafe { *x.strides = -4 },
            ErrorKind::Buffer,
            "from_dlpack: tensors with negative strides are not supported; copy the array first",
        ),
        (
            |x| x.byte_offset = 2,
            ErrorKind::Buffer,
            "from_dlpack: the memory is not aligned to its element size; copy the array first",
        ),
        (
            |x| x.data = null_mut(),
            ErrorKind::Buffer,
            "from_dlpack: the memory is not aligned to its element size; copy the array first",
        ),
        (
            // SAFETY: the list has two entries.
            |x| unsafe { *x.shape = i64::MAX },
            ErrorKind::Runtime,
            "numel: integer multiplication overflow",
        ),
        (
            // SAFETY: the list has two entries.
            |x| unsafe { *x.strides = i64::MAX },
            ErrorKind::Runtime,
            "Storage size calculation overflowed with sizes=[3, 4] and strides=[9223372036854775807, 1]",
        ),
    ];
    for (change, kind, message) in table {
        let (foreign, deleted) = Foreign::new(&[3, 4], Some(&[4, 1]));
        let mut given = foreign.give();
        change(&mut given.dl_tensor);
        let managed = own(given);
        refused(managed.meta(), *kind, message);
        assert_eq!(deleted.load(SeqCst), 0);
        refused(from_dlpack(managed), *kind, message);
        assert_eq!(deleted.load(SeqCst), 1, "{message}");
    }

    let (foreign, deleted) = Foreign::new(&[1; 65], None);
    refused(from_dlpack(own(foreign.give())), ErrorKind::Runtime, "only tensors with up to 64 dims are supported");
    assert_eq!(deleted.load(SeqCst), 1);

    let (foreign, deleted) = Foreign::new(&[3, 4], None);
    let mut given = foreign.give_versioned(DLPACK_FLAG_BITMASK_READ_ONLY);
    given.version = DLPackVersion { major: 2, minor: 1 };
    let managed = own(given);
    assert!(!managed.is_read_only(), "what lies there in another version is not known");
    refused(from_dlpack(managed), ErrorKind::Runtime, "from_dlpack: version 2.1 of DLPack is not supported");
    assert_eq!(deleted.load(SeqCst), 1);
}

#[test]
fn read_only_memory_is_copied() -> Result<()> {
    let (foreign, deleted) = Foreign::new(&[3, 4], Some(&[1, 3]));
    let given = foreign.give_versioned(DLPACK_FLAG_BITMASK_READ_ONLY);
    let data = given.dl_tensor.data as usize;
    let managed = own(given);
    assert!(managed.is_read_only() && !managed.is_copied());
    let x = from_dlpack(managed)?;
    assert_eq!(deleted.load(SeqCst), 1);
    assert!(x.data_ptr() != data);
    x.fill_(1.0)?;
    assert_eq!(x.sum()?.item_f64()?, 12.0);
    Ok(())
}

#[test]
fn the_importer_can_set_the_release_function() -> Result<()> {
    let released = Arc::new(AtomicUsize::new(0));
    let counted = || {
        let released = released.clone();
        move |managed| {
            released.fetch_add(1, SeqCst);
            drop::<ManagedTensor<_>>(managed);
        }
    };
    let (foreign, deleted) = Foreign::new(&[3, 4], None);
    let x = from_dlpack_with(own(foreign.give()), counted())?;
    assert_eq!((released.load(SeqCst), deleted.load(SeqCst)), (0, 0));
    drop(x);
    assert_eq!((released.load(SeqCst), deleted.load(SeqCst)), (1, 1));
    let (foreign, deleted) = Foreign::new(&[-1], None);
    assert!(from_dlpack_with(own(foreign.give()), counted()).is_err());
    assert_eq!((released.load(SeqCst), deleted.load(SeqCst)), (2, 1));
    Ok(())
}

#[test]
fn a_panic_does_not_escape_a_deleter() -> Result<()> {
    let (foreign, deleted) = Foreign::new(&[12], None);
    let x = from_dlpack_with(own(foreign.give()), |managed| {
        drop(managed);
        panic!("a panic that a test is about");
    })?;
    let managed = to_dlpack(&x)?;
    drop(x);
    drop(managed); // the deleter drops the last handle
    assert_eq!(deleted.load(SeqCst), 1);
    Ok(())
}

#[test]
fn tensors_with_gradients_or_lazy_bits_are_refused() -> Result<()> {
    let x = Tensor::ones(&[2], DType::F32, Device::CPU)?;
    x.requires_grad_(true)?;
    let words = "Can't export tensors that require gradient, use tensor.detach()";
    refused(to_dlpack(&x), ErrorKind::Buffer, words);
    refused(to_dlpack_versioned(&x.add_scalar(1.0)?), ErrorKind::Buffer, words);
    let copied = Request { copy: Some(true), ..Request::default() };
    refused(ManagedTensor::<DLManagedTensor>::new(&x, &copied), ErrorKind::Buffer, words);
    assert_eq!(from_dlpack(to_dlpack(&x.detach())?)?.data_ptr(), x.data_ptr());

    let z = Tensor::from_slice(&[c64::new(1.0, 2.0)], &[1])?.conj()?;
    refused(to_dlpack(&z), ErrorKind::Buffer, "Can't export tensors with the conjugate bit set");
    let negated = z.imag()?;
    assert!(negated.is_neg());
    refused(to_dlpack(&negated), ErrorKind::Buffer, "Can't export tensors with the negative bit set");
    assert_eq!(from_dlpack(to_dlpack(&z.resolve_conj()?)?)?.to_vec::<c64>()?, [c64::new(1.0, -2.0)]);
    Ok(())
}

#[test]
fn device_tensors_are_exported_as_host_copies() -> Result<()> {
    let [cpu, tpu] = devices();
    refused(
        to_dlpack(&Tensor::ones(&[2], DType::F32, Device::META)?),
        ErrorKind::Buffer,
        "Cannot pack tensors on meta",
    );
    refused(DLDevice::of(Device::META), ErrorKind::Value, "Unknown device type meta for Dlpack");
    assert_eq!(DLDevice::of(cpu)?, DLDevice::CPU);
    assert_eq!(DLDevice::of(tpu)?, DLDevice { device_type: 12, device_id: 0 });

    let x = count(&[2, 3]).to_device(tpu)?.mul_scalar(2.0)?;
    refused(to_dlpack(&x), ErrorKind::Buffer, "Cannot pack tensors on tpu:0");
    refused(to_dlpack_versioned(&x), ErrorKind::Buffer, "Cannot pack tensors on tpu:0");
    let on_host = Request { device: Some(DLDevice::CPU), copy: None };
    let managed = ManagedTensor::<DLManagedTensorVersioned>::new(&x, &on_host)?;
    assert!(managed.is_copied() && !managed.is_read_only());
    let y = from_dlpack(managed)?;
    assert_eq!((y.device(), y.to_vec::<f32>()?), (cpu, vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0]));
    refused(
        ManagedTensor::<DLManagedTensor>::new(&x, &Request { copy: Some(false), ..on_host }),
        ErrorKind::Value,
        "cannot move a tensor from tpu:0 to the host without a copy. Set copy=None or copy=True",
    );
    let elsewhere = Request { device: Some(DLDevice { device_type: 2, device_id: 1 }), copy: None };
    refused(
        ManagedTensor::<DLManagedTensor>::new(&y, &elsewhere),
        ErrorKind::Buffer,
        "cannot export a tensor on cpu to DLPack device (2, 1)",
    );
    Ok(())
}

#[test]
fn a_copy_is_made_if_requested() -> Result<()> {
    let x = count(&[2, 3]);
    let request = |copy| Request { device: Some(DLDevice::CPU), copy };
    for (copy, copied) in [(None, false), (Some(false), false), (Some(true), true)] {
        let managed = ManagedTensor::<DLManagedTensorVersioned>::new(&x, &request(copy))?;
        // SAFETY: the struct lives as long as `managed`.
        let flags = unsafe { (*managed.as_ptr()).flags };
        assert_eq!(flags, if copied { DLPACK_FLAG_BITMASK_IS_COPIED } else { 0 });
        let y = from_dlpack(managed)?;
        assert_eq!(y.data_ptr() != x.data_ptr(), copied);
        assert_eq!(y.to_vec::<f32>()?, x.to_vec::<f32>()?);
    }
    Ok(())
}
