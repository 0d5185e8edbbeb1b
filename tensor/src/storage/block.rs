//! The block: one allocation that holds a tensor's header, its storage's header and, when they fit, its elements.
//!
//! `unsafe` is in this module and, for the memory of other libraries, in [`dlpack`](crate::dlpack), nowhere else in the
//! crate. Everything a tensor costs is decided here:
//!
//! ```text
//! block  = [ Header | Storage | elements, when at most 4 KiB ]        a tensor that owns its memory
//! block  = [ Header | (unused) ]                                      a view: its Header points at the base's Storage
//! ```
//!
//! * A block has two reference counts of its own. `Header::refs` counts [`Tensor`] handles; `Storage::refs` counts
//!   headers. A block is recycled when its storage count reaches zero, so a base's header may die before its views do.
//! * A plain load (`refs == 1`) recognises the last handle, which saves an atomic read-modify-write on every temporary.
//!   This is sound because there are no weak handles: a thread that sees 1 holds the only handle.
//! * Blocks come from per-thread free lists, which are refilled from slabs. A list that grows too long, or whose thread
//!   ends, goes to a global pool.
//!
//! Memory behind `cpu` storages is shared and mutable, as in PyTorch: views alias it, and in-place ops write through
//! `&Tensor`. If two threads write the same elements at once, the elements are unspecified, but no pointer dangles.

mod autograd;
mod pool;
#[deny(unsafe_code)]
mod properties;
mod sync;
mod word;

pub use autograd::{GradRef, LeafEdge};

use crate::view::ViewInfo;
use crate::{Dims, Error, ErrorKind, Held, Meta, Rep, Result};
use pool::{ROOM, class_of, put_block, take_block};
use std::any::Any;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use torchtpu_kernels::memory;
use torchtpu_kernels::{Element, View, ViewMut};
use word::Word;

/// First words of the text with which a read of another device's memory unwinds.
pub const OTHER_DEVICE: &str = "Expected all tensors to be on the same device, but found at least two devices, ";

/// The owner of a storage's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Owner {
    /// The block of the storage: the elements follow the storage header.
    Inline,
    /// The caching allocator.
    Heap,
    /// Another owner, which `Storage::keep` keeps alive.
    Foreign,
    /// The device backend; `Storage::data` is the handle of its value.
    Device,
    /// No owner: a meta tensor has no elements.
    None,
}

#[repr(C)]
struct Storage {
    refs: AtomicU32,
    version: AtomicU32,
    /// Address of the elements, or the device value's handle.
    data: AtomicU64,
    bytes: usize,
    owner: Owner,
    class: u8,
    /// Whether something outside of the library may read the memory, so that [`Tensor::is_resizable`] is false.
    is_exported: AtomicBool,
    /// Whether it holds state that outlives a batch: see [`Tensor::mark_state`].
    is_state: AtomicBool,
    /// Number of writes through [`Tensor::data`], which `version` leaves out.
    unseen: AtomicU32,
    keep: Option<Box<dyn Any + Send + Sync>>,
}

/// Set on tensors that stand for a number. They take part in type promotion by their category only.
const WRAPPED_NUMBER: u8 = 1;
/// Set on `x.data` and on views of it, whose writes have a counter of their own.
const UNVERSIONED: u8 = 2;
/// Set on views whose elements are the conjugates of those in memory.
const CONJUGATED: u8 = 4;
/// Set on views whose elements are the negatives of those in memory.
const NEGATED: u8 = 8;
/// Set on tensors made in inference mode, and on views of them.
const INFERENCE: u8 = 16;

#[repr(C, align(64))]
struct Header {
    refs: AtomicU32,
    flags: AtomicU8,
    /// Whether memory holds the elements themselves, row major and without gaps.
    contiguous: bool,
    /// Whether [`Header::contiguous`] holds, and dimensions of size one have the strides of a new tensor.
    plain: bool,
    class: u8,
    storage: NonNull<Storage>,
    /// `null`, an `Arc<Node>`, or an `Arc<Leaf>`, tagged with [`word::LEAF`] and [`word::WANTS`], and the number of
    /// this output of the node.
    autograd: Word,
    /// `null` or a `Box<ViewInfo>`; written once, before the tensor is shared.
    view: *mut ViewInfo,
    /// The Python object of this tensor, or null. The binding owns it.
    pyobject: AtomicPtr<()>,
    offset: usize,
    numel: usize,
    meta: Meta,
    strides: Dims,
}

#[repr(C, align(64))]
struct Block {
    header: Header,
    storage: Storage,
}

/// Bytes before the elements of an inline storage.
const PREFIX: usize = size_of::<Block>();

/// The largest class of blocks that [`Tensor::empty_twin`] takes.
const TWIN_CLASS: usize = 3;
/// A multi-dimensional array: one pointer to a reference-counted block.
///
/// `clone()` returns another handle to the same memory, as assignment does in Python: both handles see each write.
/// PyTorch's `clone()` is [`Tensor::copy`]. Views alias; there are no type parameters. See the crate's documentation.
#[repr(transparent)]
pub struct Tensor(NonNull<Header>);

// SAFETY: all counts and pointers that change are atomic. The module's documentation says what happens to elements that
// two threads write.
unsafe impl Send for Tensor {}
// SAFETY: `&Tensor` changes only atomics and elements, for which the module's documentation allows races.
unsafe impl Sync for Tensor {}

impl Clone for Tensor {
    #[inline(always)]
    fn clone(&self) -> Tensor {
        self.header().refs.fetch_add(1, Ordering::Relaxed);
        Tensor(self.0)
    }
}

impl Drop for Tensor {
    #[inline(always)]
    fn drop(&mut self) {
        let h = self.header();
        // A plain load is enough for the last handle: no other thread has a handle from which it could raise the count.
        if h.refs.load(Ordering::Acquire) == 1
            || (h.refs.fetch_sub(1, Ordering::Release) == 1 && {
                fence(Ordering::Acquire);
                true
            })
        {
            // SAFETY: this was the last handle.
            unsafe { destroy(self.0) }
        }
    }
}

/// # Safety
/// No handle to the header may exist any more.
#[inline(never)]
unsafe fn destroy(header: NonNull<Header>) {
    // SAFETY: by the contract there is no other handle, so nothing else refers to the header.
    let h = unsafe { &mut *header.as_ptr() };
    let grad = h.autograd.last();
    if !grad.is_null() {
        drop(GradRef::from_tagged(grad));
    }
    if !h.view.is_null() {
        // SAFETY: the box was leaked when the view was made and belongs to this header.
        drop(unsafe { Box::from_raw(h.view) });
    }
    let (storage, class) = (h.storage, h.class);
    let own = own_storage(header) == storage;
    // SAFETY: the header held a reference.
    let st = unsafe { storage.as_ref() };
    if st.refs.load(Ordering::Acquire) == 1
        || (st.refs.fetch_sub(1, Ordering::Release) == 1 && {
            fence(Ordering::Acquire);
            true
        })
    {
        // SAFETY: that was the last reference to the storage.
        unsafe { release_storage(storage) };
    }
    if !own {
        put_block(class as usize, header.as_ptr().cast());
    }
}

/// # Safety
/// The storage's count must have reached zero.
unsafe fn release_storage(storage: NonNull<Storage>) {
    // SAFETY: by the contract the count is zero, so nothing else refers to the storage.
    let st = unsafe { &mut *storage.as_ptr() };
    let data = *st.data.get_mut();
    match st.owner {
        Owner::Inline | Owner::None => {}
        // SAFETY: `Tensor::empty` allocated the memory with this number of bytes.
        Owner::Heap => unsafe {
            memory::free(NonNull::new(data as *mut u8).expect("heap storage has memory"), st.bytes)
        },
        Owner::Foreign => drop(st.keep.take()),
        Owner::Device => crate::backend::release(data),
    }
    let block = storage.as_ptr().cast::<u8>().wrapping_sub(offset_of!(Block, storage));
    put_block(st.class as usize, block);
}

#[inline(always)]
fn own_storage(header: NonNull<Header>) -> NonNull<Storage> {
    // SAFETY: every header is the first part of a block of at least PREFIX bytes.
    unsafe { header.cast::<u8>().add(offset_of!(Block, storage)).cast() }
}

/// An `Arc` whose content is still to be written. Because the memory exists first, a large content is built in place,
/// not on the stack.
pub(crate) struct NewArc<T>(Arc<MaybeUninit<T>>);

impl<T> NewArc<T> {
    #[inline(always)]
    pub(crate) fn new() -> NewArc<T> {
        NewArc(Arc::new_uninit())
    }
    #[inline(always)]
    pub(crate) fn write(self, content: T) -> Arc<T> {
        // SAFETY: this is the only handle, so no other thread reads or writes the content.
        unsafe { Arc::as_ptr(&self.0).cast_mut().cast::<T>().write(content) };
        // SAFETY: the line above has written the content.
        unsafe { self.0.assume_init() }
    }
}

impl Tensor {
    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: a handle keeps its header alive.
        unsafe { self.0.as_ref() }
    }
    #[inline(always)]
    fn storage(&self) -> &Storage {
        // SAFETY: a header keeps its storage alive.
        unsafe { self.header().storage.as_ref() }
    }

    #[inline(always)]
    fn build(meta: &Meta, class: usize, storage: Storage) -> Tensor {
        Tensor::assemble(class, storage, *meta, meta.numel(), meta.dims.contiguous_strides())
    }

    /// Make a contiguous tensor, with all fields of its block's header.
    #[inline(always)]
    fn assemble(class: usize, storage: Storage, meta: Meta, numel: usize, strides: Dims) -> Tensor {
        let header = take_block(class).cast::<Header>();
        let own = own_storage(header);
        // SAFETY: the block is free, aligned to 64 bytes and large enough for both headers.
        unsafe {
            own.write(storage);
            header.write(Header {
                refs: AtomicU32::new(1),
                flags: AtomicU8::new(0),
                contiguous: true,
                plain: true,
                class: class as u8,
                storage: own,
                autograd: Word::new(AtomicPtr::new(null_mut()), AtomicU32::new(0)),
                view: null_mut(),
                pyobject: AtomicPtr::new(null_mut()),
                offset: 0,
                numel,
                meta,
                strides,
            });
        }
        Tensor(header)
    }

    /// A contiguous `cpu` or `meta` tensor whose elements are not set.
    ///
    /// # Errors
    /// `OutOfMemory` when the elements do not fit; the process is never aborted.
    #[inline(always)]
    pub fn empty(meta: &Meta) -> Result<Tensor> {
        let bytes = match meta.bytes() {
            Some(b) => b,
            None => return Err(out_of_memory(meta)),
        };
        if meta.place.in_memory() && bytes <= ROOM[4] {
            let class = class_of(bytes);
            let t = Tensor::build(meta, class, Storage::new(0, bytes, Owner::Inline, class));
            // SAFETY: elements follow the two headers within the block.
            let data = unsafe { t.0.cast::<u8>().add(PREFIX) };
            t.storage().data.store(data.as_ptr() as u64, Ordering::Relaxed);
            return Ok(t);
        }
        Tensor::empty_large(meta, bytes)
    }

    /// Make an unset tensor with the sizes, dtype and strides of `self`, a small contiguous `cpu` tensor. They are
    /// copied, not computed. Return `None` when `self` is no such tensor.
    #[inline(always)]
    pub(crate) fn empty_twin(&self) -> Option<Tensor> {
        let h = self.header();
        let bytes = h.numel * h.meta.dtype.size_bytes();
        if !h.plain || !h.meta.place.in_memory() || bytes > ROOM[TWIN_CLASS] {
            return None;
        }
        let class = class_of(bytes);
        let y = self.twin(class, Storage::new(0, bytes, Owner::Inline, class));
        // SAFETY: elements follow the two headers within the block.
        let data = unsafe { y.0.cast::<u8>().add(PREFIX) };
        y.storage().data.store(data.as_ptr() as u64, Ordering::Relaxed);
        Some(y)
    }

    /// Make a tensor that stands for a value of the device, with the sizes, dtype and strides of `self`, which is
    /// contiguous. It takes over the reference.
    #[inline(always)]
    pub(crate) fn device_twin(&self, handle: u64) -> Tensor {
        debug_assert!(self.is_plain());
        self.twin(0, Storage::new(handle, self.storage().bytes, Owner::Device, 0))
    }

    /// A tensor with this one's sizes and strides on a storage of its own.
    #[inline(always)]
    fn twin(&self, class: usize, storage: Storage) -> Tensor {
        let h = self.header();
        Tensor::assemble(class, storage, h.meta, h.numel, h.strides)
    }

    #[cold]
    #[inline(never)]
    fn empty_large(meta: &Meta, bytes: usize) -> Result<Tensor> {
        match meta.place.held() {
            Held::Abstract => Ok(Tensor::build(meta, 0, Storage::new(0, bytes, Owner::None, 0))),
            Held::Memory => {
                let p = memory::allocate(bytes).map_err(|_| out_of_memory(meta))?;
                Ok(Tensor::build(meta, 0, Storage::new(p.as_ptr() as u64, bytes, Owner::Heap, 0)))
            }
            Held::Handle => Err(Error::runtime("a tpu tensor is made from a value")),
        }
    }

    /// A contiguous `cpu` tensor of zeros. Large ones take no memory until their elements are used.
    ///
    /// # Errors
    /// The errors of [`Tensor::empty`].
    pub(crate) fn zeroed(meta: &Meta) -> Result<Tensor> {
        let Some(bytes) = meta.bytes() else { return Err(out_of_memory(meta)) };
        let p = memory::allocate_zeroed(bytes).map_err(|_| out_of_memory(meta))?;
        Ok(Tensor::build(meta, 0, Storage::new(p.as_ptr() as u64, bytes, Owner::Heap, 0)))
    }

    /// A tensor that stands for a value of the device backend. It takes over the reference to the value.
    pub fn from_device_value(meta: &Meta, handle: u64) -> Tensor {
        Tensor::build(meta, 0, Storage::new(handle, meta.bytes().unwrap_or(0), Owner::Device, 0))
    }

    /// [`from_device_value`](Self::from_device_value) with these strides, if they leave no gaps, else row major.
    pub fn from_device_value_with(meta: &Meta, strides: &[usize], handle: u64) -> Tensor {
        let y = Tensor::from_device_value(meta, handle);
        match Dims::try_new(strides) {
            Ok(strides) if strides != *y.strides() && super::strides::is_dense(&meta.dims, &strides) => {
                y.with_strides(strides)
            }
            _ => y,
        }
    }

    /// [`from_device_value`](Self::from_device_value) with strides that may leave gaps or repeat elements.
    pub(crate) fn from_laid_out_value(meta: &Meta, strides: Dims, handle: u64) -> Tensor {
        let bytes = reach(&meta.dims, &strides) * meta.dtype.size_bytes();
        Tensor::build(meta, 0, Storage::new(handle, bytes, Owner::Device, 0)).laid_out(strides)
    }

    /// A tensor on memory of another owner, which `keep` keeps alive.
    ///
    /// # Safety
    /// `data` must be aligned for the dtype and valid for every element that sizes and strides reach, for reading and
    /// writing, until `keep` is dropped.
    pub unsafe fn from_foreign(
        meta: &Meta,
        strides: &[usize],
        data: *mut u8,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Tensor {
        let bytes = reach(&meta.dims, strides) * meta.dtype.size_bytes();
        let mut storage = Storage::new(data as u64, bytes, Owner::Foreign, 0);
        storage.keep = Some(keep);
        let mut t = Tensor::build(meta, 0, storage);
        let h = t.unshared();
        h.strides = Dims::new(strides);
        h.contiguous = torchtpu_kernels::is_contiguous(&meta.dims, strides);
        h.plain = h.contiguous && has_plain_strides(&h.meta.dims, &h.strides);
        t
    }

    /// A `cpu` tensor whose elements are the bytes of `owner`, dense and row major, or a copy of them if they are not
    /// aligned. Only [`HostValue`](crate::host::HostValue) may use it, which passes the tensor to kernels that read.
    ///
    /// # Errors
    /// `Runtime` when there are more or fewer bytes than the tensor has; `OutOfMemory` for a copy.
    pub(crate) fn on_shared_bytes<T>(meta: &Meta, owner: Arc<T>) -> Result<Tensor>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        // Call `as_ref` only once: the slice borrows from the owner, which is kept shared, so the bytes neither move
        // nor change.
        let bytes: &[u8] = (*owner).as_ref();
        if meta.bytes() != Some(bytes.len()) {
            return Err(Error::runtime(format!("{} bytes for {meta:?}", bytes.len())));
        }
        if bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(meta.dtype.size_bytes()) {
            let (strides, data) = (meta.dims.contiguous_strides(), bytes.as_ptr().cast_mut());
            // SAFETY: the bytes are aligned, as many as a dense tensor has, and `owner` is kept. The caller promises
            // that nothing writes to them.
            return Ok(unsafe { Tensor::from_foreign(meta, &strides, data, Box::new(owner)) });
        }
        let mut y = Tensor::empty(meta)?;
        if let Some(memory) = y.as_bytes_mut() {
            memory.copy_from_slice(bytes);
        }
        Ok(y)
    }

    /// This tensor with other strides for the same sizes. Only the code that has just made the tensor may call this,
    /// before it passes the tensor on. The strides must reach the same elements of memory without gaps, in another
    /// order of dimensions. Values that the memory already holds must all be equal.
    #[cold]
    pub(crate) fn with_strides(self, strides: Dims) -> Tensor {
        if self.place().rep == Rep::Foreign {
            return self; // its maker has said how it is laid out
        }
        assert!(reach(self.dims(), &strides) <= reach(self.dims(), self.strides()), "strides leave the memory");
        self.laid_out(strides)
    }

    /// [`Tensor::with_strides`] for a tensor without memory, whose strides may leave gaps.
    pub(crate) fn laid_out(mut self, strides: Dims) -> Tensor {
        let h = self.unshared();
        h.contiguous =
            *h.flags.get_mut() & (CONJUGATED | NEGATED) == 0 && torchtpu_kernels::is_contiguous(&h.meta.dims, &strides);
        h.plain = h.contiguous && has_plain_strides(&h.meta.dims, &strides);
        h.strides = strides;
        self
    }

    /// A `cpu` or `meta` tensor whose elements are not set, with strides that leave no gaps.
    ///
    /// # Errors
    /// The errors of [`Tensor::empty`].
    pub(crate) fn empty_with(meta: &Meta, strides: Dims) -> Result<Tensor> {
        Ok(Tensor::empty(meta)?.with_strides(strides))
    }

    fn unshared(&mut self) -> &mut Header {
        debug_assert_eq!(self.header().refs.load(Ordering::Relaxed), 1);
        // SAFETY: this is called right after a header was made, by its only handle.
        unsafe { self.0.as_mut() }
    }

    /// Another tensor on the same storage.
    ///
    /// # Errors
    /// `Runtime` when the layout reaches beyond the storage.
    pub(crate) fn alias(
        &self,
        meta: &Meta,
        strides: Dims,
        offset: usize,
        view: Option<Box<ViewInfo>>,
    ) -> Result<Tensor> {
        let st = self.storage();
        let Some(numel) = meta.dims.checked_numel() else {
            return Err(Error::runtime("numel: integer multiplication overflow"));
        };
        let end = if numel == 0 { 0 } else { reach(&meta.dims, &strides).saturating_add(offset) };
        let Some(bytes) = end.checked_mul(meta.dtype.size_bytes()) else {
            return Err(Error::runtime(format!(
                "Storage size calculation overflowed with sizes={} and strides={strides}",
                meta.dims
            )));
        };
        if bytes > st.bytes && !meta.place.is_abstract() {
            return Err(Error::runtime(format!(
                "setStorage: sizes {}, strides {}, storage offset {offset}, and itemsize {} requiring a storage size \
                of {} are out of bounds for storage of size {}",
                meta.dims,
                strides,
                meta.dtype.size_bytes(),
                bytes,
                st.bytes
            )));
        }
        st.refs.fetch_add(1, Ordering::Relaxed);
        let block = take_block(0);
        let header = block.cast::<Header>();
        let lazy = self.lazy_flags();
        let contiguous = lazy == 0 && torchtpu_kernels::is_contiguous(&meta.dims, &strides);
        // SAFETY: a free block of class 0 holds a header.
        unsafe {
            header.write(Header {
                refs: AtomicU32::new(1),
                flags: AtomicU8::new(lazy | self.header().flags.load(Ordering::Relaxed) & (UNVERSIONED | INFERENCE)),
                contiguous,
                plain: contiguous && has_plain_strides(&meta.dims, &strides),
                class: 0,
                storage: self.header().storage,
                autograd: Word::new(AtomicPtr::new(null_mut()), AtomicU32::new(0)),
                view: view.map_or(null_mut(), Box::into_raw),
                pyobject: AtomicPtr::new(null_mut()),
                offset,
                numel,
                meta: *meta,
                strides,
            });
        }
        Ok(Tensor(header))
    }

    /// How this view was made; `None` for a tensor that is no view.
    #[inline(always)]
    pub fn view_info(&self) -> Option<&ViewInfo> {
        // SAFETY: the pointer is set once before the tensor is shared, and freed with the header.
        unsafe { self.header().view.as_ref() }
    }
    /// The device value that the storage holds now. For a view it is the value of the base.
    #[inline(always)]
    pub(crate) fn storage_value(&self) -> u64 {
        debug_assert!(self.storage().owner == Owner::Device);
        self.storage().data.load(Ordering::Acquire)
    }
    /// Put another device value in the storage and return the one it held. Both references change owners.
    pub(crate) fn replace_storage_value(&self, handle: u64) -> u64 {
        debug_assert!(self.storage().owner == Owner::Device);
        self.storage().data.swap(handle, Ordering::AcqRel)
    }

    /// Address of the first element; zero when there is no host memory.
    #[inline(always)]
    pub fn data_ptr(&self) -> usize {
        match self.storage().owner {
            Owner::Device | Owner::None => 0,
            _ => {
                // A tensor without elements may have any offset.
                let from = self.storage_offset().wrapping_mul(self.dtype().size_bytes());
                (self.storage().data.load(Ordering::Relaxed) as usize).wrapping_add(from)
            }
        }
    }

    /// Address of the first element, for a kernel on the host.
    ///
    /// # Panics
    /// Unwinds for a tensor of another device, by [`refuse_other_device`](Tensor::refuse_other_device).
    #[inline(always)]
    fn host_ptr(&self) -> usize {
        let p = self.data_ptr();
        if p == 0 {
            self.refuse_other_device();
        }
        p
    }
    /// Unwind with PyTorch's text unless the tensor is on `cpu`. An op that checks the devices of its operands never
    /// comes here; for any other op this is the last line before a read of memory that is not there.
    #[cold]
    #[inline(never)]
    fn refuse_other_device(&self) {
        if !self.place().in_memory() {
            std::panic::resume_unwind(Box::new(format!("{OTHER_DEVICE}cpu and {}!", self.place())));
        }
    }

    /// The elements of a `cpu` tensor, for a kernel to read.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        // SAFETY: `alias` and `empty` keep every layout within its storage, which the handle keeps alive.
        unsafe { View::new(self.host_ptr() as *const u8, self.dims(), self.strides(), self.dtype()) }
    }
    /// The elements with other sizes and strides (a broadcast), for a kernel to read.
    #[inline(always)]
    pub(crate) fn view_as<'a>(&'a self, dims: &'a [usize], strides: &'a [usize]) -> View<'a> {
        assert!(dims.contains(&0) || reach(dims, strides) <= reach(self.dims(), self.strides()));
        // SAFETY: the assertion keeps the layout within this tensor's own reach.
        unsafe { View::new(self.host_ptr() as *const u8, dims, strides, self.dtype()) }
    }
    /// The elements of a contiguous tensor as one row; `n` is their number.
    #[inline(always)]
    pub(crate) fn view_flat<'a>(&'a self, n: &'a [usize; 1]) -> View<'a> {
        debug_assert!(self.is_contiguous() && n[0] == self.numel());
        // SAFETY: contiguous elements within the storage.
        unsafe { View::new(self.host_ptr() as *const u8, n, &[1], self.dtype()) }
    }
    /// [`Tensor::view_flat`] for writing.
    #[inline(always)]
    pub(crate) fn view_flat_mut<'a>(&'a self, n: &'a [usize; 1]) -> ViewMut<'a> {
        debug_assert!(self.is_contiguous() && n[0] == self.numel());
        // SAFETY: the elements are contiguous and lie within the storage.
        unsafe { ViewMut::new(self.host_ptr() as *mut u8, n, &[1], self.dtype()) }
    }
    /// The elements of a `cpu` tensor, for a kernel to write.
    #[inline(always)]
    pub(crate) fn view_mut(&self) -> ViewMut<'_> {
        // SAFETY: `alias` and `empty` keep every layout within its storage. Tensors are shared mutable memory, as the
        // module's documentation says.
        unsafe { ViewMut::new(self.host_ptr() as *mut u8, self.dims(), self.strides(), self.dtype()) }
    }
    /// The elements as a slice, if the tensor is contiguous, on `cpu` and of type `T`.
    ///
    /// The caller must not hold the slice across an in-place write to this storage.
    #[inline]
    pub(crate) fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if !T::IS_PLAIN || !self.place().in_memory() || self.dtype() != T::DTYPE || !self.is_contiguous() {
            return None;
        }
        if self.numel() == 0 {
            return Some(&[]);
        }
        // SAFETY: contiguous elements of the right type within the storage.
        Some(unsafe { std::slice::from_raw_parts(self.data_ptr() as *const T, self.numel()) })
    }
    /// The bytes of the elements, if the tensor is contiguous and on `cpu`. The caller must not hold the slice across
    /// an in-place write.
    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        if !self.place().in_memory() || !self.is_contiguous() {
            return None;
        }
        let n = self.numel() * self.dtype().size_bytes();
        // SAFETY: contiguous elements within the storage are plain bytes.
        Some(if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.data_ptr() as *const u8, n) } })
    }
    /// The bytes of the elements for writing. Only the code that has just made this tensor may call this, before it
    /// passes the tensor on.
    pub(crate) fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        if !self.place().in_memory() || !self.is_contiguous() {
            return None;
        }
        let n = self.numel() * self.dtype().size_bytes();
        // SAFETY: contiguous elements within the storage are plain bytes, and by the documented use no other code has
        // the tensor yet.
        Some(if n == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(self.data_ptr() as *mut u8, n) } })
    }
    /// The bits of the only element, zero extended; `None` unless the tensor is on `cpu` and has one element.
    #[inline]
    pub fn scalar_bits(&self) -> Option<u128> {
        if !self.place().in_memory() || self.numel() != 1 {
            return None;
        }
        if self.is_lazy() {
            return self.resolved().ok()?.scalar_bits();
        }
        let p = self.data_ptr();
        // SAFETY: one element of the given size at its address.
        Some(unsafe {
            match self.dtype().size_bytes() {
                1 => *(p as *const u8) as u128,
                2 => *(p as *const u16) as u128,
                4 => *(p as *const u32) as u128,
                8 => *(p as *const u64) as u128,
                // A complex number is aligned as its parts are.
                _ => *(p as *const u64) as u128 | (*(p as *const u64).add(1) as u128) << 64,
            }
        })
    }
    /// Write the bits of the only element.
    #[inline]
    pub(crate) fn set_scalar_bits(&self, bits: u128) {
        debug_assert!(self.place().in_memory() && self.numel() == 1);
        let p = self.data_ptr();
        // SAFETY: the tensor is on `cpu` and has one element of this size, at its address.
        unsafe {
            match self.dtype().size_bytes() {
                1 => *(p as *mut u8) = bits as u8,
                2 => *(p as *mut u16) = bits as u16,
                4 => *(p as *mut u32) = bits as u32,
                8 => *(p as *mut u64) = bits as u64,
                _ => *(p as *mut [u64; 2]) = [bits as u64, (bits >> 64) as u64],
            }
        }
    }

    // ---- the binding's word

    /// The Python object registered for this tensor, or null.
    #[inline(always)]
    pub fn pyobject(&self) -> *mut () {
        self.header().pyobject.load(Ordering::Acquire)
    }
    /// Register the Python object of this tensor; null removes it. The pointer's meaning is the binding's own.
    #[inline(always)]
    pub fn set_pyobject(&self, p: *mut ()) {
        self.header().pyobject.store(p, Ordering::Release);
    }
    /// Return the handle as a raw pointer, for an object that stores one word. [`Tensor::from_raw`] takes it back.
    #[inline(always)]
    pub fn into_raw(self) -> *mut () {
        std::mem::ManuallyDrop::new(self).0.as_ptr().cast()
    }
    /// Take back a handle from [`Tensor::into_raw`].
    ///
    /// # Safety
    /// The pointer must come from `into_raw`, and may be taken back once.
    #[inline(always)]
    pub unsafe fn from_raw(p: *mut ()) -> Tensor {
        // SAFETY: by the contract the pointer comes from a handle, so it is not null.
        Tensor(unsafe { NonNull::new_unchecked(p.cast()) })
    }
}

impl Storage {
    #[inline(always)]
    fn new(data: u64, bytes: usize, owner: Owner, class: usize) -> Storage {
        Storage {
            refs: AtomicU32::new(1),
            version: AtomicU32::new(0),
            data: AtomicU64::new(data),
            bytes,
            owner,
            class: class as u8,
            is_exported: AtomicBool::new(false),
            is_state: AtomicBool::new(false),
            unseen: AtomicU32::new(0),
            keep: None,
        }
    }
}

/// Whether the strides of a contiguous layout equal those of a new tensor.
#[inline(always)]
fn has_plain_strides(dims: &Dims, strides: &Dims) -> bool {
    // If all sizes are two or more, only one layout is contiguous.
    dims.iter().all(|n| *n > 1) || *strides == dims.contiguous_strides()
}

/// The number of elements from the first to the last that sizes and strides reach, inclusive. It is zero without
/// elements, and `usize::MAX` if there are more.
pub(crate) fn reach(dims: &[usize], strides: &[usize]) -> usize {
    if dims.contains(&0) {
        return 0;
    }
    dims.iter().zip(strides).fold(1, |sum: usize, (n, s)| sum.saturating_add((n - 1).saturating_mul(*s)))
}

/// The error for sizes whose number of bytes does not fit in 64 bits.
#[cold]
pub fn too_many_bytes(meta: &Meta) -> Error {
    Error::runtime(format!("Storage size calculation overflowed with sizes={}", meta.dims))
}

#[cold]
fn out_of_memory(meta: &Meta) -> Error {
    match meta.bytes() {
        Some(b) => Error::new(
            ErrorKind::OutOfMemory,
            format!("DefaultCPUAllocator: can't allocate memory: you tried to allocate {b} bytes"),
        ),
        None => too_many_bytes(meta),
    }
}
