//! Properties of a tensor: sizes, strides, flags, and the version of its storage.

use super::{CONJUGATED, INFERENCE, NEGATED, Owner, Tensor, UNVERSIONED, WRAPPED_NUMBER, has_plain_strides};
use crate::{DType, Device, Dims, Meta, Place};
use std::sync::atomic::{AtomicU32, Ordering};

impl Tensor {
    /// Sizes, dtype and place.
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
    /// The device.
    #[inline(always)]
    pub fn device(&self) -> Device {
        self.header().meta.place.device
    }
    /// Where the tensor is, and how its value is held.
    #[inline(always)]
    pub fn place(&self) -> Place {
        self.header().meta.place
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
    /// Whether the strides are row major without gaps. Memory may still hold conjugates or negatives.
    #[inline]
    pub fn has_contiguous_strides(&self) -> bool {
        torchtpu_kernels::is_contiguous(self.dims(), self.strides())
    }
    #[inline(always)]
    pub(super) fn lazy_flags(&self) -> u8 {
        self.header().flags.load(Ordering::Relaxed) & (CONJUGATED | NEGATED)
    }
    /// Whether memory holds the conjugates or negatives of the elements. Kernels get a resolved copy.
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
    /// Turn a view that was just made into one of conjugates, or of negatives. Doing so twice undoes it.
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
    /// Mark a 0-d tensor as standing for a number.
    pub(crate) fn mark_wrapped_number(&self) {
        self.header().flags.fetch_or(WRAPPED_NUMBER, Ordering::Relaxed);
    }
    /// Whether this tensor was made in [inference mode](crate::state::set_inference), or is a view of one that was.
    #[inline(always)]
    pub fn is_inference(&self) -> bool {
        self.header().flags.load(Ordering::Relaxed) & INFERENCE != 0
    }
    /// Make this new tensor an inference tensor.
    pub fn mark_inference(&self) {
        self.header().flags.fetch_or(INFERENCE, Ordering::Relaxed);
    }
    /// Whether memory holds conjugates or negatives, or the tensor is an inference tensor outside of inference mode.
    /// Shortcuts must not write such a tensor.
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
    /// A number that identifies this tensor while it lives.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }
    /// Whether both tensors share their storage.
    #[inline]
    pub fn shares_storage(&self, other: &Tensor) -> bool {
        self.header().storage == other.header().storage
    }
    /// A number that identifies the storage while it lives.
    #[inline]
    pub fn storage_id(&self) -> usize {
        self.header().storage.as_ptr() as usize
    }
    /// Bytes of the whole storage.
    #[inline]
    pub fn storage_bytes(&self) -> usize {
        self.storage().bytes
    }
    /// Whether the storage may be resized: its memory is its own, and nothing outside of the library reads it.
    pub fn is_resizable(&self) -> bool {
        let st = self.storage();
        st.owner != Owner::Foreign && !st.is_exported.load(Ordering::Relaxed)
    }
    /// Record that the storage holds state that outlives a batch, as buffers of modules do. Writes keep the old value
    /// if the new one depends on a check that failed. See
    /// [`Representation::overwrite`](crate::backend::Representation::overwrite).
    pub fn mark_state(&self) {
        self.storage().is_state.store(true, Ordering::Relaxed);
    }
    /// Whether the storage holds state that outlives a batch.
    pub(crate) fn is_state(&self) -> bool {
        self.storage().is_state.load(Ordering::Relaxed)
    }
    /// Record that something outside of the library, such as a NumPy array, may read the memory from now on.
    pub fn mark_exported(&self) {
        self.storage().is_exported.store(true, Ordering::Relaxed);
    }
    /// Whether dropping the last handle runs only this library's allocator: the tensor has no history, no base, and no
    /// memory of others.
    #[inline(always)]
    pub fn drops_quietly(&self) -> bool {
        let h = self.header();
        h.autograd.peek() == 0 && h.view.is_null() && matches!(self.storage().owner, Owner::Inline | Owner::Heap)
    }
    /// Number of handles of this tensor.
    #[inline]
    pub fn handle_count(&self) -> u32 {
        self.header().refs.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn counter(&self) -> &AtomicU32 {
        let st = self.storage();
        if self.header().flags.load(Ordering::Relaxed) & UNVERSIONED == 0 { &st.version } else { &st.unseen }
    }
    /// Number of in-place writes to the storage. Writes through [`Tensor::data`] have a counter of their own.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.counter().load(Ordering::Relaxed)
    }
    /// Count a write in place.
    #[inline(always)]
    pub fn bump_version(&self) {
        self.counter().fetch_add(1, Ordering::Relaxed);
    }
    /// Number of all writes to the storage.
    #[inline]
    pub(crate) fn writes(&self) -> u32 {
        let st = self.storage();
        st.version.load(Ordering::Relaxed).wrapping_add(st.unseen.load(Ordering::Relaxed))
    }
    /// Count the writes of this tensor, and of views of it, separately.
    pub(crate) fn mark_unversioned(&self) {
        self.header().flags.fetch_or(UNVERSIONED, Ordering::Relaxed);
    }
}
