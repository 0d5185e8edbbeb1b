//! The block: one allocation that holds a tensor's header, its storage's header and, when they fit, its elements.
//!
//! `unsafe` is here and, for the memory of other libraries, in [`dlpack`](crate::dlpack), nowhere else in the crate.
//! Everything a tensor costs is decided here:
//!
//! ```text
//! block  = [ Header | Storage | elements, when at most 4 KiB ]        a tensor that owns its memory
//! block  = [ Header | (unused) ]                                      a view: its Header points at the base's Storage
//! ```
//!
//! * Two own reference counts. `Header::refs` counts [`Tensor`] handles; `Storage::refs` counts headers. A block is
//!   recycled when its storage count reaches zero, so a base's header may die before its views do.
//! * A last handle is recognised by a plain load (`refs == 1`), which saves an atomic read-modify-write on every
//!   temporary. Sound because there are no weak handles: who sees 1 holds the only handle.
//! * Blocks come from per-thread free lists, refilled by carving slabs; a list that grows too long or whose thread ends
//!   is handed to a global pool.
//!
//! Memory behind `cpu` storages is shared and mutable, as in PyTorch: views alias, in-place ops write through
//! `&Tensor`. Two threads that write the same elements at once get unspecified elements, never a dangling pointer.

mod sync;
mod word;

use crate::graph::{Edge, Leaf, Node};
use crate::view::ViewInfo;
use crate::{DType, Device, DeviceKind, Dims, Error, ErrorKind, Meta, Result};
use std::any::Any;
use std::cell::Cell;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use torchtpu_kernels::memory;
use torchtpu_kernels::{Element, View, ViewMut};
use word::{LEAF, WANTS, Word, untagged};

/// Who owns the elements of a storage.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Owner {
    /// They follow the storage header in its block.
    Inline,
    /// The caching allocator.
    Heap,
    /// Memory of another owner, kept alive by `Storage::keep`.
    Foreign,
    /// A value of the device backend; `Storage::data` is its handle.
    Device,
    /// No elements: a meta tensor.
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
    /// Whether something outside looks at the memory, so that [`Tensor::is_resizable`] is false.
    is_exported: AtomicBool,
    /// Writes through [`Tensor::data`], which `version` leaves out.
    unseen: AtomicU32,
    keep: Option<Box<dyn Any + Send + Sync>>,
}

/// Set on tensors that stand for a number, which promote by category only.
const WRAPPED_NUMBER: u8 = 1;
/// Set on `x.data` and on views of it: their writes count apart.
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
    /// Whether memory holds the elements, row major and without gaps.
    contiguous: bool,
    /// [`Header::contiguous`], and the strides of sizes of one are those that a new tensor has.
    plain: bool,
    class: u8,
    storage: NonNull<Storage>,
    /// `null`, an `Arc<Node>`, or an `Arc<Leaf>`, tagged with [`LEAF`] and [`WANTS`]; and which output of the node this
    /// is.
    autograd: Word,
    /// `null` or a `Box<ViewInfo>`; written once, before the tensor is shared.
    view: *mut ViewInfo,
    /// The Python object of this tensor, when it has one; owned by the binding.
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
/// Bytes of elements that the blocks of each class have room for.
const ROOM: [usize; 5] = [0, 64, 256, 1024, 4096];
/// Block sizes: the headers and the room behind them.
const CLASSES: [usize; 5] = {
    let mut sizes = ROOM;
    let mut class = 0;
    while class < sizes.len() {
        sizes[class] += PREFIX;
        class += 1;
    }
    sizes
};
/// The largest class that [`Tensor::empty_twin`] takes.
const TWIN_CLASS: usize = 3;

/// The class of the smallest block with room for some elements, which are at most as many as the largest has room for.
#[inline(always)]
const fn class_of(bytes: usize) -> usize {
    1 + (bytes > ROOM[1]) as usize + (bytes > ROOM[2]) as usize + (bytes > ROOM[3]) as usize
}
const SLAB_BYTES: usize = 64 << 10;
/// A thread keeps at most this many free blocks of a class.
const KEEP: u32 = 4096;

struct FreeLists {
    first: [Cell<*mut u8>; CLASSES.len()],
    count: [Cell<u32>; CLASSES.len()],
}

thread_local! {
    static FREE: FreeLists = const {
        FreeLists { first: [const { Cell::new(null_mut()) }; CLASSES.len()],
            count: [const { Cell::new(0) }; CLASSES.len()] }
    };
    /// Touched when a thread first needs a slab, so that its free blocks return to the pool when it ends.
    static RETURN_AT_EXIT: ReturnAtExit = const { ReturnAtExit };
}

struct ReturnAtExit;
impl Drop for ReturnAtExit {
    fn drop(&mut self) {
        let _ = FREE.try_with(|f| (0..CLASSES.len()).for_each(|c| hand_over(f, c)));
    }
}

/// Chains of free blocks that threads gave back.
struct Chain(*mut u8, u32);
// SAFETY: a chain is memory that nobody else refers to.
unsafe impl Send for Chain {}
static POOL: [Mutex<Vec<Chain>>; CLASSES.len()] = [const { Mutex::new(Vec::new()) }; CLASSES.len()];

#[cold]
fn hand_over(f: &FreeLists, class: usize) {
    let chain = Chain(f.first[class].replace(null_mut()), f.count[class].replace(0));
    if chain.1 > 0 {
        POOL[class].lock().unwrap_or_else(|e| e.into_inner()).push(chain);
    }
}

#[inline(always)]
fn take_block(class: usize) -> NonNull<u8> {
    FREE.with(|f| match NonNull::new(f.first[class].get()) {
        Some(p) => {
            // SAFETY: a free block's first word is the address of the next one.
            f.first[class].set(unsafe { p.cast::<*mut u8>().read() });
            f.count[class].set(f.count[class].get() - 1);
            p
        }
        None => refill(f, class),
    })
}

#[cold]
#[inline(never)]
fn refill(f: &FreeLists, class: usize) -> NonNull<u8> {
    let _ = RETURN_AT_EXIT.try_with(|_| ());
    if let Some(Chain(first, n)) = POOL[class].lock().unwrap_or_else(|e| e.into_inner()).pop() {
        // SAFETY: a chain has at least one block, whose first word is the next.
        f.first[class].set(unsafe { *first.cast::<*mut u8>() });
        f.count[class].set(n - 1);
        return NonNull::new(first).expect("a chain is not empty");
    }
    let size = CLASSES[class].next_multiple_of(64);
    let n = SLAB_BYTES / size;
    let layout = std::alloc::Layout::from_size_align(n * size, 64).expect("a constant layout");
    // SAFETY: the layout is not empty. Slabs are never freed: their blocks circulate between the lists.
    let base = unsafe { std::alloc::alloc(layout) };
    if base.is_null() {
        memory::give_up(layout.size());
    }
    for i in 1..n {
        // SAFETY: block `i` lies within the slab.
        let p = unsafe { base.add(i * size) };
        // SAFETY: a free block holds the address of the next one.
        unsafe { p.cast::<*mut u8>().write(f.first[class].get()) };
        f.first[class].set(p);
    }
    f.count[class].set(n as u32 - 1);
    NonNull::new(base).expect("checked above")
}

#[inline(always)]
fn put_block(class: usize, p: *mut u8) {
    let done = FREE.try_with(|f| {
        // SAFETY: the block is free, so its first word is ours.
        unsafe { p.cast::<*mut u8>().write(f.first[class].get()) };
        f.first[class].set(p);
        f.count[class].set(f.count[class].get() + 1);
        if f.count[class].get() > KEEP {
            hand_over(f, class);
        }
    });
    if done.is_err() {
        // SAFETY: as above; the thread is ending and its list is gone.
        unsafe { p.cast::<*mut u8>().write(null_mut()) };
        POOL[class].lock().unwrap_or_else(|e| e.into_inner()).push(Chain(p, 1));
    }
}

/// A multi-dimensional array: one pointer to a reference-counted block.
///
/// `clone()` gives another handle to the same memory, as assignment does in Python: what is written through one is seen
/// through both. PyTorch's `clone()` is [`Tensor::copy`]. Views alias; there are no type parameters. See the crate's
/// documentation.
#[repr(transparent)]
pub struct Tensor(NonNull<Header>);

// SAFETY: counts and pointers that change are atomic; see the module's documentation on element memory.
unsafe impl Send for Tensor {}
// SAFETY: as above.
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
        // A plain load suffices for the last handle: nobody else could raise the count.
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
    // SAFETY: exclusive by the contract.
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
    // SAFETY: exclusive by the contract.
    let st = unsafe { &mut *storage.as_ptr() };
    let data = *st.data.get_mut();
    match st.owner {
        Owner::Inline | Owner::None => {}
        // SAFETY: allocated with these bytes by `Tensor::empty`.
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

/// What autograd hangs on a tensor.
pub enum GradRef {
    /// The tensor was computed: the node that computes its gradient.
    Node(Arc<Node>),
    /// The tensor is a leaf.
    Leaf(Arc<Leaf>),
}

impl GradRef {
    fn into_tagged(self) -> *mut () {
        match self {
            GradRef::Node(n) => Arc::into_raw(n).cast_mut().cast(),
            GradRef::Leaf(l) => {
                let tag = LEAF | if l.requires_grad() { WANTS } else { 0 };
                Arc::into_raw(l).cast_mut().cast::<u8>().wrapping_add(tag).cast()
            }
        }
    }
    /// Takes back what [`GradRef::into_tagged`] gave.
    fn from_tagged(p: *mut ()) -> GradRef {
        let base = untagged(p);
        // SAFETY: the pointer came from `Arc::into_raw` of the type that the tag names.
        unsafe {
            if p.addr() & LEAF != 0 {
                GradRef::Leaf(Arc::from_raw(base.cast::<Leaf>()))
            } else {
                GradRef::Node(Arc::from_raw(base.cast::<Node>()))
            }
        }
    }
    /// Another handle to what [`GradRef::into_tagged`] gave, which stays; `None` for null.
    fn of_tagged(p: *mut ()) -> Option<GradRef> {
        (!p.is_null()).then(|| match &*std::mem::ManuallyDrop::new(GradRef::from_tagged(p)) {
            GradRef::Node(n) => GradRef::Node(n.clone()),
            GradRef::Leaf(l) => GradRef::Leaf(l.clone()),
        })
    }
}

/// A leaf as the target of an edge: held by its tensor, which costs one reference count instead of a lock and a count.
#[derive(Clone)]
pub struct LeafEdge(Tensor);

impl LeafEdge {
    /// The leaf.
    ///
    /// # Errors
    /// `Runtime` when the tensor has become a computed one since.
    pub fn leaf(&self) -> Result<Arc<Leaf>> {
        match self.0.grad_ref() {
            Some(GradRef::Leaf(l)) => Ok(l),
            _ => Err(Error::runtime("a leaf Variable that requires grad has been moved into the graph interior")),
        }
    }
    /// The tensor whose leaf it is.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }
    /// Address of the leaf, which tells leaves apart while they live.
    #[inline]
    pub fn address(&self) -> usize {
        let p = self.0.header().autograd.peek();
        if p & LEAF != 0 { p & !(LEAF | WANTS) } else { 0 }
    }
    /// Sizes, dtype and device of the tensor.
    pub fn meta(&self) -> &Meta {
        self.0.meta()
    }
}

/// An `Arc` whose content is still to be written. With the room there first, a large content is put together in place,
/// not on the stack.
pub(crate) struct NewArc<T>(Arc<MaybeUninit<T>>);

impl<T> NewArc<T> {
    #[inline(always)]
    pub(crate) fn new() -> NewArc<T> {
        NewArc(Arc::new_uninit())
    }
    #[inline(always)]
    pub(crate) fn write(self, content: T) -> Arc<T> {
        // SAFETY: this is the only handle, so nobody reads or writes meanwhile.
        unsafe { Arc::as_ptr(&self.0).cast_mut().cast::<T>().write(content) };
        // SAFETY: written above.
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

    /// A contiguous tensor with all that its block's header says.
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
    /// `OutOfMemory` when the elements do not fit; never aborts.
    #[inline(always)]
    pub fn empty(meta: &Meta) -> Result<Tensor> {
        let bytes = match meta.bytes() {
            Some(b) => b,
            None => return Err(out_of_memory(meta)),
        };
        if meta.device.kind == DeviceKind::Cpu && bytes <= ROOM[4] {
            let class = class_of(bytes);
            let t = Tensor::build(meta, class, Storage::new(0, bytes, Owner::Inline, class));
            // SAFETY: elements follow the two headers within the block.
            let data = unsafe { t.0.cast::<u8>().add(PREFIX) };
            t.storage().data.store(data.as_ptr() as u64, Ordering::Relaxed);
            return Ok(t);
        }
        Tensor::empty_large(meta, bytes)
    }

    /// An unset tensor with the sizes, dtype and strides of a small contiguous `cpu` tensor, without working them out
    /// anew. `None` when `self` is not one.
    #[inline(always)]
    pub(crate) fn empty_twin(&self) -> Option<Tensor> {
        let h = self.header();
        let bytes = h.numel * h.meta.dtype.size_bytes();
        if !h.plain || h.meta.device.kind != DeviceKind::Cpu || bytes > ROOM[TWIN_CLASS] {
            return None;
        }
        let class = class_of(bytes);
        let y = self.twin(class, Storage::new(0, bytes, Owner::Inline, class));
        // SAFETY: elements follow the two headers within the block.
        let data = unsafe { y.0.cast::<u8>().add(PREFIX) };
        y.storage().data.store(data.as_ptr() as u64, Ordering::Relaxed);
        Some(y)
    }

    /// A tensor that stands for a value of the device, described as this contiguous one; takes over the reference.
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
        match meta.device.kind {
            DeviceKind::Meta => Ok(Tensor::build(meta, 0, Storage::new(0, bytes, Owner::None, 0))),
            DeviceKind::Cpu => {
                let p = memory::allocate(bytes).map_err(|_| out_of_memory(meta))?;
                Ok(Tensor::build(meta, 0, Storage::new(p.as_ptr() as u64, bytes, Owner::Heap, 0)))
            }
            DeviceKind::Tpu => Err(Error::runtime("a tpu tensor is made from a value")),
        }
    }

    /// A tensor that stands for a value of the device backend; takes over the reference to the value.
    pub fn from_device_value(meta: &Meta, handle: u64) -> Tensor {
        Tensor::build(meta, 0, Storage::new(handle, meta.bytes().unwrap_or(0), Owner::Device, 0))
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

    /// A `cpu` tensor whose elements are the bytes of `owner`, dense and row-major, or a copy where those are not
    /// aligned. For [`HostValue`](crate::host::HostValue) alone, which gives it to kernels to read and to nothing that
    /// writes.
    ///
    /// # Errors
    /// `Runtime` when there are more or fewer bytes than the tensor has; `OutOfMemory` for a copy.
    pub(crate) fn on_shared_bytes<T>(meta: &Meta, owner: Arc<T>) -> Result<Tensor>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        // Asked once: the slice borrows from the owner, which is kept shared, so it stays where it is and as it is.
        let bytes: &[u8] = (*owner).as_ref();
        if meta.bytes() != Some(bytes.len()) {
            return Err(Error::runtime(format!("{} bytes for {meta:?}", bytes.len())));
        }
        if bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(meta.dtype.size_bytes()) {
            let (strides, data) = (meta.dims.contiguous_strides(), bytes.as_ptr().cast_mut());
            // SAFETY: aligned, as long as a dense tensor, and kept by the owner. Nothing writes, as the caller
            // promises.
            return Ok(unsafe { Tensor::from_foreign(meta, &strides, data, Box::new(owner)) });
        }
        let mut y = Tensor::empty(meta)?;
        if let Some(memory) = y.as_bytes_mut() {
            memory.copy_from_slice(bytes);
        }
        Ok(y)
    }

    /// This tensor with other strides for the same sizes, for the code that has just made it and alone knows of it.
    /// They must reach the same elements of memory: an order of dimensions without gaps. Where memory holds values
    /// already, they must not depend on their places.
    #[cold]
    pub(crate) fn with_strides(mut self, strides: Dims) -> Tensor {
        assert!(reach(self.dims(), &strides) <= reach(self.dims(), self.strides()), "strides leave the memory");
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
    /// As [`Tensor::empty`].
    pub(crate) fn empty_with(meta: &Meta, strides: Dims) -> Result<Tensor> {
        Ok(Tensor::empty(meta)?.with_strides(strides))
    }

    fn unshared(&mut self) -> &mut Header {
        debug_assert_eq!(self.header().refs.load(Ordering::Relaxed), 1);
        // SAFETY: called only right after a header was made, by its only handle.
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
        if bytes > st.bytes && meta.device.kind != DeviceKind::Meta {
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

    /// Sizes, dtype and device.
    #[inline(always)]
    pub fn meta(&self) -> &Meta {
        &self.header().meta
    }
    /// Sizes.
    #[inline(always)]
    pub fn dims(&self) -> &Dims {
        &self.header().meta.dims
    }
    /// Element type.
    #[inline(always)]
    pub fn dtype(&self) -> DType {
        self.header().meta.dtype
    }
    /// Where it lives.
    #[inline(always)]
    pub fn device(&self) -> Device {
        self.header().meta.device
    }
    /// Strides in elements.
    #[inline(always)]
    pub fn strides(&self) -> &Dims {
        &self.header().strides
    }
    /// Index of the first element in the storage.
    #[inline(always)]
    pub fn storage_offset(&self) -> usize {
        self.header().offset
    }
    /// Number of elements.
    #[inline(always)]
    pub fn numel(&self) -> usize {
        self.header().numel
    }
    /// Whether memory holds the elements in row-major order without gaps.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        self.header().contiguous
    }
    /// Whether the strides are those of a new row-major tensor and memory holds the elements. Other contiguous tensors
    /// have sizes of one with other strides.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.header().plain
    }
    /// Whether the strides are row major without gaps; memory may still hold conjugates or negatives.
    #[inline]
    pub fn has_contiguous_strides(&self) -> bool {
        torchtpu_kernels::is_contiguous(self.dims(), self.strides())
    }
    #[inline(always)]
    fn lazy_flags(&self) -> u8 {
        self.header().flags.load(Ordering::Relaxed) & (CONJUGATED | NEGATED)
    }
    /// Whether memory holds something else than the elements: their conjugates or negatives. Kernels are given a copy.
    #[inline(always)]
    pub fn is_lazy(&self) -> bool {
        self.lazy_flags() != 0
    }
    /// Whether this is a view whose elements are the conjugates of those in memory.
    #[inline]
    pub fn is_conj(&self) -> bool {
        self.lazy_flags() & CONJUGATED != 0
    }
    /// Whether this is a view whose elements are the negatives of those in memory.
    #[inline]
    pub fn is_neg(&self) -> bool {
        self.lazy_flags() & NEGATED != 0
    }
    /// Turns a view that was just made into one of conjugates, or of negatives; twice is neither.
    pub(crate) fn toggle_lazy(&mut self, conjugate: bool) {
        let h = self.unshared();
        *h.flags.get_mut() ^= if conjugate { CONJUGATED } else { NEGATED };
        h.contiguous = *h.flags.get_mut() & (CONJUGATED | NEGATED) == 0
            && torchtpu_kernels::is_contiguous(&h.meta.dims, &h.strides);
        h.plain = h.contiguous && has_plain_strides(&h.meta.dims, &h.strides);
    }
    /// Whether this tensor stands for a number.
    #[inline(always)]
    pub fn is_wrapped_number(&self) -> bool {
        self.header().flags.load(Ordering::Relaxed) & WRAPPED_NUMBER != 0
    }
    /// Marks a 0-d tensor as standing for a number.
    pub(crate) fn mark_wrapped_number(&self) {
        self.header().flags.fetch_or(WRAPPED_NUMBER, Ordering::Relaxed);
    }
    /// Whether this tensor was made in [inference mode](crate::state::set_inference), or is a view of one that was.
    #[inline(always)]
    pub fn is_inference(&self) -> bool {
        self.header().flags.load(Ordering::Relaxed) & INFERENCE != 0
    }
    /// Makes this new tensor an inference tensor.
    pub fn mark_inference(&self) {
        self.header().flags.fetch_or(INFERENCE, Ordering::Relaxed);
    }
    /// Whether elements are conjugated or negated in memory, or belong to an inference tensor: no shortcut writes them.
    #[inline(always)]
    pub(crate) fn is_written_with_care(&self) -> bool {
        let flags = self.header().flags.load(Ordering::Relaxed);
        flags & (CONJUGATED | NEGATED | INFERENCE) != 0
            && (flags & (CONJUGATED | NEGATED) != 0 || !crate::state::is_inference())
    }
    /// Whether both handles mean the same tensor.
    #[inline]
    pub fn is_same(&self, other: &Tensor) -> bool {
        self.0 == other.0
    }
    /// What tells this tensor from others that are alive.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }
    /// Whether both tensors share their storage.
    #[inline]
    pub fn shares_storage(&self, other: &Tensor) -> bool {
        self.header().storage == other.header().storage
    }
    /// A number that tells storages apart while they live.
    #[inline]
    pub fn storage_id(&self) -> usize {
        self.header().storage.as_ptr() as usize
    }
    /// Bytes of the whole storage.
    #[inline]
    pub fn storage_bytes(&self) -> usize {
        self.storage().bytes
    }
    /// Whether the storage may be given another size: its memory is its own, and nothing outside looks at it.
    pub fn is_resizable(&self) -> bool {
        let st = self.storage();
        st.owner != Owner::Foreign && !st.is_exported.load(Ordering::Relaxed)
    }
    /// Notes that something outside of the library, such as a NumPy array, looks at the memory from now on.
    pub fn mark_exported(&self) {
        self.storage().is_exported.store(true, Ordering::Relaxed);
    }
    /// Whether dropping the last handle runs nothing but this library's allocator: no history, no base, no memory of
    /// others.
    #[inline(always)]
    pub fn drops_quietly(&self) -> bool {
        let h = self.header();
        h.autograd.peek() == 0 && h.view.is_null() && matches!(self.storage().owner, Owner::Inline | Owner::Heap)
    }
    /// Handles that exist of this tensor.
    #[inline]
    pub fn handle_count(&self) -> u32 {
        self.header().refs.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn counter(&self) -> &AtomicU32 {
        let st = self.storage();
        if self.header().flags.load(Ordering::Relaxed) & UNVERSIONED == 0 { &st.version } else { &st.unseen }
    }
    /// How often the storage was written in place; writes through [`Tensor::data`] are counted apart.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.counter().load(Ordering::Relaxed)
    }
    /// Counts a write in place.
    #[inline(always)]
    pub fn bump_version(&self) {
        self.counter().fetch_add(1, Ordering::Relaxed);
    }
    /// How often the storage was written at all.
    #[inline]
    pub(crate) fn writes(&self) -> u32 {
        let st = self.storage();
        st.version.load(Ordering::Relaxed).wrapping_add(st.unseen.load(Ordering::Relaxed))
    }
    /// Counts this tensor's writes, and those of views of it, apart.
    pub(crate) fn mark_unversioned(&self) {
        self.header().flags.fetch_or(UNVERSIONED, Ordering::Relaxed);
    }
    /// How this view was made, when it is one.
    #[inline(always)]
    pub fn view_info(&self) -> Option<&ViewInfo> {
        // SAFETY: set once before the tensor was shared, freed with the header.
        unsafe { self.header().view.as_ref() }
    }
    /// The device value that the storage holds now (of the base, not of this view).
    #[inline(always)]
    pub(crate) fn storage_value(&self) -> u64 {
        debug_assert!(self.storage().owner == Owner::Device);
        self.storage().data.load(Ordering::Acquire)
    }
    /// Puts another device value in the storage and returns the one it held; both references change hands.
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
                // Where there are no elements, the offset may be any number.
                let from = self.storage_offset().wrapping_mul(self.dtype().size_bytes());
                (self.storage().data.load(Ordering::Relaxed) as usize).wrapping_add(from)
            }
        }
    }

    /// The elements, for a kernel to read. `cpu` only.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        debug_assert!(self.device().kind == DeviceKind::Cpu);
        // SAFETY: `alias` and `empty` keep every layout within its storage, which the handle keeps alive.
        unsafe { View::new(self.data_ptr() as *const u8, self.dims(), self.strides(), self.dtype()) }
    }
    /// The elements, seen with other sizes and strides (a broadcast), for a kernel to read.
    #[inline(always)]
    pub(crate) fn view_as<'a>(&'a self, dims: &'a [usize], strides: &'a [usize]) -> View<'a> {
        assert!(dims.contains(&0) || reach(dims, strides) <= reach(self.dims(), self.strides()));
        // SAFETY: the assertion keeps the layout within this tensor's own reach.
        unsafe { View::new(self.data_ptr() as *const u8, dims, strides, self.dtype()) }
    }
    /// The elements of a contiguous tensor as one row; `n` is their number.
    #[inline(always)]
    pub(crate) fn view_flat<'a>(&'a self, n: &'a [usize; 1]) -> View<'a> {
        debug_assert!(self.is_contiguous() && n[0] == self.numel() && self.device().kind == DeviceKind::Cpu);
        // SAFETY: contiguous elements within the storage.
        unsafe { View::new(self.data_ptr() as *const u8, n, &[1], self.dtype()) }
    }
    /// [`Tensor::view_flat`] for writing.
    #[inline(always)]
    pub(crate) fn view_flat_mut<'a>(&'a self, n: &'a [usize; 1]) -> ViewMut<'a> {
        debug_assert!(self.is_contiguous() && n[0] == self.numel() && self.device().kind == DeviceKind::Cpu);
        // SAFETY: as `view_flat`.
        unsafe { ViewMut::new(self.data_ptr() as *mut u8, n, &[1], self.dtype()) }
    }
    /// The elements, for a kernel to write. `cpu` only.
    #[inline(always)]
    pub(crate) fn view_mut(&self) -> ViewMut<'_> {
        debug_assert!(self.device().kind == DeviceKind::Cpu);
        // SAFETY: as `view`; tensors are shared mutable memory, see the module's documentation.
        unsafe { ViewMut::new(self.data_ptr() as *mut u8, self.dims(), self.strides(), self.dtype()) }
    }
    /// The elements as a slice, when contiguous, on `cpu` and of type `T`.
    ///
    /// The slice must not be held across an in-place write to this storage.
    #[inline]
    pub(crate) fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if self.device().kind != DeviceKind::Cpu || self.dtype() != T::DTYPE || !self.is_contiguous() {
            return None;
        }
        if self.numel() == 0 {
            return Some(&[]);
        }
        // SAFETY: contiguous elements of the right type within the storage.
        Some(unsafe { std::slice::from_raw_parts(self.data_ptr() as *const T, self.numel()) })
    }
    /// The elements' bytes, when contiguous and on `cpu`. As with `as_slice`, not across a write.
    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        if self.device().kind != DeviceKind::Cpu || !self.is_contiguous() {
            return None;
        }
        let n = self.numel() * self.dtype().size_bytes();
        // SAFETY: contiguous elements within the storage are plain bytes.
        Some(if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.data_ptr() as *const u8, n) } })
    }
    /// The elements' bytes for writing; for the code that has just made this tensor and alone knows of it.
    pub(crate) fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        if self.device().kind != DeviceKind::Cpu || !self.is_contiguous() {
            return None;
        }
        let n = self.numel() * self.dtype().size_bytes();
        // SAFETY: as `as_bytes`; exclusive by the documented use.
        Some(if n == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(self.data_ptr() as *mut u8, n) } })
    }
    /// The only element's bits, zero extended; `None` unless on `cpu` with one element.
    #[inline]
    pub fn scalar_bits(&self) -> Option<u128> {
        if self.device().kind != DeviceKind::Cpu || self.numel() != 1 {
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
                // Aligned as its parts are.
                _ => *(p as *const u64) as u128 | (*(p as *const u64).add(1) as u128) << 64,
            }
        })
    }
    /// Writes the only element's bits.
    #[inline]
    pub(crate) fn set_scalar_bits(&self, bits: u128) {
        debug_assert!(self.device().kind == DeviceKind::Cpu && self.numel() == 1);
        let p = self.data_ptr();
        // SAFETY: as `scalar_bits`.
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

    // ---- autograd's word

    /// Whether anything of autograd hangs here. False means: no gradient is required.
    #[inline(always)]
    pub fn has_autograd(&self) -> bool {
        self.header().autograd.peek() != 0
    }
    /// Whether autograd's word names a node, or a leaf that wants a gradient.
    #[inline(always)]
    pub(crate) fn wants_grad(&self) -> bool {
        self.header().autograd.wants_grad()
    }
    /// Writes [`Leaf::requires_grad`] into the word that leads to the leaf.
    pub(crate) fn set_leaf_wants(&self, on: bool) {
        self.header().autograd.set_wants(on);
    }
    /// What autograd hung here.
    #[inline]
    pub fn grad_ref(&self) -> Option<GradRef> {
        if !self.has_autograd() {
            return None;
        }
        self.header().autograd.look(|p, _| GradRef::of_tagged(p))
    }
    /// Hangs something else here, dropping what was there.
    pub fn set_grad_ref(&self, r: Option<GradRef>, output_nr: u32) {
        let old = self.header().autograd.replace(r.map_or(null_mut(), GradRef::into_tagged), output_nr);
        if !old.is_null() {
            drop(GradRef::from_tagged(old));
        }
    }
    /// [`Tensor::set_grad_ref`] for a result that the caller has just made, which no other thread sees yet.
    #[inline]
    pub(crate) fn set_new_grad_ref(&self, r: GradRef, output_nr: u32) {
        let old = self.header().autograd.start(r.into_tagged(), output_nr);
        if !old.is_null() {
            drop(GradRef::from_tagged(old));
        }
    }
    /// What autograd hung here; `r` from now on, if there was nothing.
    pub(crate) fn grad_ref_or(&self, r: GradRef) -> GradRef {
        let new = r.into_tagged();
        let (is_new, r) = self.header().autograd.fill(new, GradRef::of_tagged);
        if !is_new {
            drop(GradRef::from_tagged(new));
        }
        r.expect("the word is not empty now")
    }
    /// Which output of its node this tensor is.
    #[inline]
    pub fn output_nr(&self) -> u32 {
        self.header().autograd.output_nr()
    }
    /// Where this tensor's gradient goes.
    #[inline]
    pub fn edge(&self) -> Edge {
        let p = self.header().autograd.peek();
        if p & LEAF != 0 {
            return if p & WANTS != 0 { Edge::Leaf(LeafEdge(self.clone())) } else { Edge::None };
        }
        self.node_edge()
    }
    #[inline(never)]
    fn node_edge(&self) -> Edge {
        if !self.has_autograd() {
            return Edge::None;
        }
        match self.header().autograd.look(|p, nr| (GradRef::of_tagged(p), nr)) {
            (Some(GradRef::Node(n)), nr) => Edge::Node(n, nr),
            _ => Edge::None,
        }
    }

    // ---- the binding's word

    /// The Python object registered for this tensor, or null.
    #[inline(always)]
    pub fn pyobject(&self) -> *mut () {
        self.header().pyobject.load(Ordering::Acquire)
    }
    /// Registers the Python object of this tensor; null removes it. The binding owns what the pointer means.
    #[inline(always)]
    pub fn set_pyobject(&self, p: *mut ()) {
        self.header().pyobject.store(p, Ordering::Release);
    }
    /// Gives the handle as a raw pointer, for an object that stores one word; [`Tensor::from_raw`] takes it back.
    #[inline(always)]
    pub fn into_raw(self) -> *mut () {
        std::mem::ManuallyDrop::new(self).0.as_ptr().cast()
    }
    /// Takes back a handle from [`Tensor::into_raw`].
    ///
    /// # Safety
    /// The pointer must come from `into_raw` and be taken back once.
    #[inline(always)]
    pub unsafe fn from_raw(p: *mut ()) -> Tensor {
        // SAFETY: not null by the contract.
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
            unseen: AtomicU32::new(0),
            keep: None,
        }
    }
}

/// Whether the strides of a contiguous layout are those of a new tensor.
#[inline(always)]
fn has_plain_strides(dims: &Dims, strides: &Dims) -> bool {
    // Where all sizes are two or more, there is one choice.
    dims.iter().all(|n| *n > 1) || *strides == dims.contiguous_strides()
}

/// Elements from the first to the last that sizes and strides reach, inclusive; zero without elements, and the largest
/// number where there are more.
pub(crate) fn reach(dims: &[usize], strides: &[usize]) -> usize {
    if dims.contains(&0) {
        return 0;
    }
    dims.iter().zip(strides).fold(1, |sum: usize, (n, s)| sum.saturating_add((n - 1).saturating_mul(*s)))
}

/// The error for sizes whose bytes no 64-bit number counts.
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
