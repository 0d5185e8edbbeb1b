//! Strided views of memory, the operands of every kernel.

use crate::DType;
use std::marker::PhantomData;

/// A read-only strided array. Strides count elements and may be zero (broadcast).
///
/// The owner of the memory makes the view. A kernel may read every element of it. The kernel may write the same memory
/// through a [`ViewMut`] (in-place ops), so kernels use raw reads, and never hold a `&[T]` across writes.
#[derive(Clone, Copy)]
pub struct View<'a> {
    ptr: *const u8,
    sizes: &'a [usize],
    strides: &'a [usize],
    dtype: DType,
}

/// A strided array that a kernel writes. Its elements do not overlap one another.
pub struct ViewMut<'a> {
    ptr: *mut u8,
    sizes: &'a [usize],
    strides: &'a [usize],
    dtype: DType,
    memory: PhantomData<&'a mut u8>,
}

// SAFETY: a view is a pointer to plain bytes whose owner outlives it, and kernels split the index space between
// threads.
unsafe impl Send for View<'_> {}
// SAFETY: a view only reads plain bytes whose owner outlives it.
unsafe impl Sync for View<'_> {}
// SAFETY: no other `ViewMut` has the same elements, and threads write disjoint elements.
unsafe impl Send for ViewMut<'_> {}
// SAFETY: no other `ViewMut` has the same elements, and threads write disjoint elements.
unsafe impl Sync for ViewMut<'_> {}

impl<'a> View<'a> {
    /// # Safety
    /// `ptr` must be aligned for `dtype`. Every element within `sizes` and `strides` must be initialised memory that
    /// lives for `'a`.
    #[inline]
    pub unsafe fn new(ptr: *const u8, sizes: &'a [usize], strides: &'a [usize], dtype: DType) -> View<'a> {
        debug_assert_eq!(sizes.len(), strides.len());
        View { ptr, sizes, strides, dtype }
    }

    /// Return a contiguous one-dimensional view of a slice of plain numbers.
    pub fn of_slice<T: crate::Element>(x: &'a [T], sizes: &'a [usize], strides: &'a [usize]) -> View<'a> {
        let last: usize = sizes.iter().zip(strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        assert!(sizes.contains(&0) || last < x.len(), "view reaches beyond its slice");
        View { ptr: x.as_ptr().cast(), sizes, strides, dtype: T::DTYPE }
    }

    /// Return a view of numbers in untyped bytes.
    ///
    /// # Panics
    /// Panics if the bytes are not aligned for `dtype`, or are too few for `sizes` and `strides`.
    pub fn of_bytes(bytes: &'a [u8], sizes: &'a [usize], strides: &'a [usize], dtype: DType) -> View<'a> {
        check_bytes(bytes, sizes, strides, dtype);
        View { ptr: bytes.as_ptr(), sizes, strides, dtype }
    }

    /// Return a view of the same memory with other sizes and strides.
    ///
    /// # Safety
    /// The new sizes and strides must stay within the memory this view was built for.
    #[inline]
    pub unsafe fn with_layout(&self, sizes: &'a [usize], strides: &'a [usize]) -> View<'a> {
        View { ptr: self.ptr, sizes, strides, dtype: self.dtype }
    }

    /// Return the address of the first element.
    #[inline]
    pub fn ptr(&self) -> *const u8 {
        self.ptr
    }
    /// Return the sizes, outermost first.
    #[inline]
    pub fn sizes(&self) -> &'a [usize] {
        self.sizes
    }
    /// Return the strides in elements.
    #[inline]
    pub fn strides(&self) -> &'a [usize] {
        self.strides
    }
    /// Return the element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Return the number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.sizes.iter().product()
    }
    /// Whether the elements lie one after the other in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.sizes, self.strides)
    }
    /// Return the elements as a slice, if they are contiguous and of type `T`. Those of `bool` tensors are
    /// [`Bool`](crate::Bool).
    #[inline]
    pub fn as_slice<T: crate::Element>(&self) -> Option<&'a [T]> {
        // SAFETY: the maker of the view guarantees every element; contiguous elements form one slice.
        (T::IS_PLAIN && self.dtype == T::DTYPE && self.is_contiguous())
            .then(|| unsafe { slice_of(self.ptr.cast::<T>(), self.numel()) })
    }
}

fn check_bytes(bytes: &[u8], sizes: &[usize], strides: &[usize], dtype: DType) {
    let size = dtype.size_bytes();
    // Sizes and strides may come from a program. An offset that overflows lies beyond any bytes.
    let last = |last: usize, (n, s): (&usize, &usize)| last.checked_add(n.saturating_sub(1).checked_mul(*s)?);
    let last = sizes.iter().zip(strides).try_fold(0, last);
    let reach = last.and_then(|last| last.checked_add(1)?.checked_mul(size));
    // A complex number needs only the alignment of its parts.
    let align = if dtype.is_complex() { size / 2 } else { size };
    assert!(sizes.len() == strides.len(), "view of bytes: {sizes:?} with strides {strides:?}");
    assert!(sizes.contains(&0) || reach.is_some_and(|n| n <= bytes.len()), "view reaches beyond its bytes");
    assert!(bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(align), "view of bytes that are not aligned");
}

/// Return a slice. An empty tensor may have a null pointer, which a slice must not have.
unsafe fn slice_of<'a, T>(ptr: *const T, n: usize) -> &'a [T] {
    // SAFETY: the caller passes `n` readable elements.
    if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(ptr, n) } }
}

impl<'a> ViewMut<'a> {
    /// # Safety
    /// The same as for [`View::new`], for writing. No other thread may use the memory while the view lives. The same
    /// kernel may read the memory through `View`s.
    #[inline]
    pub unsafe fn new(ptr: *mut u8, sizes: &'a [usize], strides: &'a [usize], dtype: DType) -> ViewMut<'a> {
        debug_assert_eq!(sizes.len(), strides.len());
        ViewMut { ptr, sizes, strides, dtype, memory: PhantomData }
    }

    /// Return a view for writing a slice of plain numbers.
    pub fn of_slice<T: crate::Element>(x: &'a mut [T], sizes: &'a [usize], strides: &'a [usize]) -> ViewMut<'a> {
        let last: usize = sizes.iter().zip(strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        assert!(sizes.contains(&0) || last < x.len(), "view reaches beyond its slice");
        ViewMut { ptr: x.as_mut_ptr().cast(), sizes, strides, dtype: T::DTYPE, memory: PhantomData }
    }

    /// Like [`View::of_bytes`], for writing.
    ///
    /// # Panics
    /// Panics like [`View::of_bytes`].
    pub fn of_bytes(bytes: &'a mut [u8], sizes: &'a [usize], strides: &'a [usize], dtype: DType) -> ViewMut<'a> {
        check_bytes(bytes, sizes, strides, dtype);
        ViewMut { ptr: bytes.as_mut_ptr(), sizes, strides, dtype, memory: PhantomData }
    }

    /// Return the address of the first element.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
    /// Return the sizes, outermost first.
    #[inline]
    pub fn sizes(&self) -> &'a [usize] {
        self.sizes
    }
    /// Return the strides in elements.
    #[inline]
    pub fn strides(&self) -> &'a [usize] {
        self.strides
    }
    /// Return the element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Return the number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.sizes.iter().product()
    }
    /// Whether the elements lie one after the other in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.sizes, self.strides)
    }
    /// Return the elements as a slice, if they are contiguous and of type `T`. Use it only if no input can alias the
    /// output.
    #[inline]
    pub fn as_slice_mut<T: crate::Element>(&mut self) -> Option<&mut [T]> {
        let n = self.numel();
        if !T::IS_PLAIN || self.dtype != T::DTYPE || !self.is_contiguous() {
            return None;
        }
        if n == 0 {
            return Some(&mut []);
        }
        // SAFETY: the maker of the view guarantees every element; contiguous elements form one slice.
        Some(unsafe { std::slice::from_raw_parts_mut(self.ptr.cast::<T>(), n) })
    }
    /// Return a view of the same elements for reading.
    #[inline]
    pub fn as_view(&self) -> View<'_> {
        View { ptr: self.ptr, sizes: self.sizes, strides: self.strides, dtype: self.dtype }
    }
}

/// Whether `strides` are the row-major strides of `sizes`. Dimensions of size one do not count.
#[inline]
pub fn is_contiguous(sizes: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    for (&n, &s) in sizes.iter().zip(strides).rev() {
        if n == 0 {
            return true;
        }
        if n != 1 {
            if s != expected {
                // Without elements, any strides are contiguous.
                return sizes.contains(&0);
            }
            expected *= n;
        }
    }
    true
}
