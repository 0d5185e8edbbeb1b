//! Buffers: data on a device.

use std::alloc::{self, Layout};
use std::borrow::Borrow;
use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use crate::client::Client;
use crate::device::Device;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::ffi::{
    BoolArgs, ChildArgs, CopyToDeviceArgs, DimsArgs, Handle, HandleArgs, IntArgs, LayoutArgs, MemoryLayout, SizeArgs,
    TiledLayout, ToHostArgs,
};
use crate::plugin::{Plugin, call};
use crate::tensor_type::{ElementType, TensorType};

/// An array on a device, possibly still being computed. Its contents never change. Donating it to an execution deletes
/// it.
pub struct Buffer {
    pub(crate) raw: Handle,
    pub(crate) client: Arc<Client>,
    /// Guards the external references, which plugins keep in a list without a lock.
    references: Mutex<()>,
}

// SAFETY: the C API lets any thread use a buffer.
unsafe impl Send for Buffer {}
// SAFETY: the C API lets several threads use a buffer at once, and `references` guards the list that plugins do not
// lock.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// # Safety
    ///
    /// `raw` must be a buffer of this client. The result owns it.
    pub(crate) unsafe fn from_raw(raw: Handle, client: Arc<Client>) -> Buffer {
        Buffer { raw, client, references: Mutex::new(()) }
    }

    fn plugin(&self) -> &Plugin {
        self.client.plugin()
    }

    /// Return the client of the buffer.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Return the element type. Fails with `Unimplemented` for types smaller than a byte.
    #[inline]
    pub fn element_type(&self) -> Result<ElementType> {
        let mut args = IntArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer is alive.
        unsafe { call!(self.plugin(), PJRT_Buffer_ElementType, &mut args)? };
        ElementType::from_code(args.value).ok_or_else(|| {
            Error::new(Code::Unimplemented, "element_type", format!("element type {} of the C API", args.value))
        })
    }

    /// Return the sizes, outermost first. A bounded dimension has the size of its bound; see
    /// [`Buffer::logical_dimensions`].
    #[inline]
    pub fn dimensions(&self) -> Result<&[i64]> {
        let mut args = DimsArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer is alive, and its dimensions live as long as it does.
        unsafe {
            call!(self.plugin(), PJRT_Buffer_Dimensions, &mut args)?;
            Ok(if args.count == 0 { &[] } else { slice::from_raw_parts(args.dims, args.count) })
        }
    }

    /// Return the sizes in use. A bounded dimension may use less than its bound. Blocks until the sizes of bounded
    /// dimensions are computed.
    pub fn logical_dimensions(&self) -> Result<Vec<i64>> {
        let mut args = DimsArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer is alive, and the list lives as long as it does. The list is copied at once.
        unsafe {
            call!(self.plugin(), PJRT_Buffer_UnpaddedDimensions, &mut args)?;
            Ok(if args.count == 0 { Vec::new() } else { slice::from_raw_parts(args.dims, args.count).to_vec() })
        }
    }

    /// Return the element type and dimensions.
    pub fn tensor_type(&self) -> Result<TensorType> {
        Ok(TensorType::new(self.element_type()?, self.dimensions()?))
    }

    /// Return the size on the device in bytes, padding included.
    pub fn on_device_bytes(&self) -> Result<usize> {
        let mut args = SizeArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer is alive.
        unsafe { call!(self.plugin(), PJRT_Buffer_OnDeviceSizeInBytes, &mut args)? };
        Ok(args.value)
    }

    /// Return the address of the buffer's memory. Use it only for comparisons: the host can read this memory only on
    /// XLA:CPU and similar plugins.
    pub fn device_address(&self) -> Result<usize> {
        let mut args = SizeArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer is alive.
        unsafe { call!(self.plugin(), PJRT_Buffer_UnsafePointer, &mut args)? };
        Ok(args.value)
    }

    /// Return the buffer's device.
    pub fn device(&self) -> Result<&Device> {
        let mut args = ChildArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer is alive.
        unsafe { call!(self.plugin(), PJRT_Buffer_Device, &mut args)? };
        let found = self.client.devices().iter().find(|device| device.raw == args.child);
        found.ok_or_else(|| Error::new(Code::Internal, "PJRT_Buffer_Device", "not a device of the buffer's client"))
    }

    /// Copy the buffer to a device of the same client.
    pub fn copy_to_device(&self, device: &Device) -> Result<Buffer> {
        self.client.check_device("copy_to_device", device)?;
        let mut args = CopyToDeviceArgs::new();
        args.buffer = self.raw;
        args.device = device.raw;
        // SAFETY: buffer and device are alive and of the same client. The result owns the copy.
        unsafe {
            call!(self.plugin(), PJRT_Buffer_CopyToDevice, &mut args)?;
            Ok(Buffer::from_raw(args.copy, self.client.clone()))
        }
    }

    /// Copy the contents to `dst`, dense and row-major, for any layout on the device. Blocks until the contents are
    /// computed and copied. Do not call it while another thread donates the same buffer: the donating execution may
    /// fail.
    ///
    /// # Errors
    ///
    /// Fails with `InvalidArgument` if the length of `dst` is not [`Buffer::host_bytes`], or with the error of the
    /// computation if it failed.
    pub fn to_host(&self, dst: &mut [u8]) -> Result<()> {
        let order = self.row_major()?;
        let layout = tiled(&order);
        let expected = self.host_bytes_as(&layout)?;
        if dst.len() != expected {
            let message = format!("the buffer has {expected} bytes, but the destination has {}", dst.len());
            return Err(Error::invalid("to_host", message));
        }
        if dst.is_empty() {
            // There is nothing to copy, but the computation may have failed.
            return self.await_ready();
        }
        if self.is_host_readable(&order, expected)? {
            return self.copy_from_host_memory(dst);
        }
        let mut args = ToHostArgs::new();
        args.src = self.raw;
        args.host_layout = &layout;
        args.dst = dst.as_mut_ptr().cast();
        args.dst_size = dst.len();
        // SAFETY: buffer and layout are alive. The plugin writes `dst` until the event is ready, which is awaited
        // before the borrow ends.
        unsafe {
            call!(self.plugin(), PJRT_Buffer_ToHostBuffer, &mut args)?;
            self.client.event(args.event).await_ready()
        }
    }

    /// Whether the contents lie in host memory: dense, in this order, and without unused bounded dimensions.
    fn is_host_readable(&self, minor_to_major: &[i64], host_bytes: usize) -> Result<bool> {
        let api = &self.plugin().api;
        if api.PJRT_Buffer_IsOnCpu.is_none() || api.PJRT_Buffer_GetMemoryLayout.is_none() {
            return Ok(false);
        }
        let mut on_cpu = BoolArgs::new();
        on_cpu.handle = self.raw;
        // SAFETY: the buffer is alive.
        unsafe { call!(self.plugin(), PJRT_Buffer_IsOnCpu, &mut on_cpu)? };
        if !on_cpu.value || self.tensor_type()?.size_in_bytes() != Some(host_bytes) {
            return Ok(false);
        }
        let mut args = LayoutArgs::new();
        args.buffer = self.raw;
        // SAFETY: the buffer is alive, and the lists of its layout live as long as it does.
        unsafe {
            call!(self.plugin(), PJRT_Buffer_GetMemoryLayout, &mut args)?;
            let tiled = &args.layout.tiled;
            let order = match tiled.minor_to_major_size {
                0 => &[],
                rank => slice::from_raw_parts(tiled.minor_to_major, rank),
            };
            if args.layout.kind != TILED || tiled.num_tiles != 0 {
                return Ok(false);
            }
            if order != minor_to_major && self.client.platform_name() == "cpu" {
                // XLA:CPU ignores the requested layout, and would return the bytes in the wrong order.
                let message =
                    format!("the buffer has the layout {order:?} (innermost first); XLA:CPU reads row-major only");
                return Err(Error::new(Code::Unimplemented, "to_host", message));
            }
            Ok(order == minor_to_major)
        }
    }

    /// Copy directly if [`Buffer::is_host_readable`]. XLA:CPU's own copies run on another thread, which takes tens of
    /// microseconds for a scalar.
    fn copy_from_host_memory(&self, dst: &mut [u8]) -> Result<()> {
        self.await_ready()?;
        let _reference = ExternalReference::new(self)?;
        let address = self.device_address()?;
        // SAFETY: the buffer is computed and lies in host memory, dense and exactly as long as `dst` (the caller
        // checked both). The reference keeps that memory from being freed or donated, and nothing writes to a computed
        // buffer.
        unsafe { ptr::copy_nonoverlapping(address as *const u8, dst.as_mut_ptr(), dst.len()) };
        Ok(())
    }

    /// Copy the contents to a new vector, like [`Buffer::to_host`].
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.host_bytes()?];
        self.to_host(&mut bytes)?;
        Ok(bytes)
    }

    /// Return the size of the dense contents on the host, in bytes. Blocks if it depends on a computation.
    pub fn host_bytes(&self) -> Result<usize> {
        let order = self.row_major()?;
        self.host_bytes_as(&tiled(&order))
    }

    fn host_bytes_as(&self, layout: &MemoryLayout) -> Result<usize> {
        let mut args = ToHostArgs::new();
        args.src = self.raw;
        args.host_layout = layout;
        // SAFETY: buffer and layout are alive. Without a destination, the entry only returns the size.
        unsafe { call!(self.plugin(), PJRT_Buffer_ToHostBuffer, &mut args)? };
        Ok(args.dst_size)
    }

    /// Return row-major dimension numbers, innermost first. Without them, the entry would use the device's own order.
    fn row_major(&self) -> Result<SmallVec<[i64; 8]>> {
        Ok((0..self.dimensions()?.len() as i64).rev().collect())
    }

    /// Return an event that is ready when the buffer is computed.
    pub fn ready_event(&self) -> Result<Event> {
        let mut args = ChildArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer is alive. The result owns the event.
        unsafe {
            call!(self.plugin(), PJRT_Buffer_ReadyEvent, &mut args)?;
            Ok(self.client.event(args.child))
        }
    }

    /// Block until the buffer is computed. Return the error of the computation, if any.
    pub fn await_ready(&self) -> Result<()> {
        self.ready_event()?.await_ready()
    }

    /// Whether the buffer is computed. Does not wait.
    pub fn is_ready(&self) -> Result<bool> {
        self.ready_event()?.is_ready()
    }

    /// Whether the buffer's memory was deleted or donated.
    pub fn is_deleted(&self) -> Result<bool> {
        let mut args = BoolArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer object is alive, even if its memory is deleted.
        unsafe { call!(self.plugin(), PJRT_Buffer_IsDeleted, &mut args)? };
        Ok(args.value)
    }

    /// Free the buffer's memory before the last handle is dropped. Later uses are errors. Executions that read it
    /// continue.
    pub fn delete(&self) -> Result<()> {
        let mut args = HandleArgs::new();
        args.handle = self.raw;
        // SAFETY: the buffer object is alive, and stays alive without its memory.
        unsafe { call!(self.plugin(), PJRT_Buffer_Delete, &mut args) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let plugin = self.client.plugin();
        // SAFETY: this value owns the buffer and is being dropped.
        unsafe { plugin.destroy("PJRT_Buffer_Destroy", plugin.api.PJRT_Buffer_Destroy, self.raw) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tensor_type() {
            Ok(tensor_type) => write!(f, "Buffer({tensor_type})"),
            Err(error) => write!(f, "Buffer({error})"),
        }
    }
}

/// A reference that keeps the plugin from freeing or donating the buffer's memory.
struct ExternalReference<B: Borrow<Buffer>>(B);

impl<B: Borrow<Buffer>> ExternalReference<B> {
    fn new(owner: B) -> Result<Self> {
        let buffer: &Buffer = owner.borrow();
        let mut args = HandleArgs::new();
        args.handle = buffer.raw;
        {
            let _lock = buffer.references.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the buffer is alive, and the lock keeps other threads from changing its references.
            unsafe { call!(buffer.plugin(), PJRT_Buffer_IncreaseExternalReferenceCount, &mut args)? };
        }
        Ok(ExternalReference(owner))
    }
}

impl<B: Borrow<Buffer>> Drop for ExternalReference<B> {
    fn drop(&mut self) {
        let buffer: &Buffer = self.0.borrow();
        let mut args = HandleArgs::new();
        args.handle = buffer.raw;
        let _lock = buffer.references.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the buffer is alive and has the reference taken in `new`, and the lock keeps other threads from
        // changing its references. The only possible error, a missing reference, cannot occur.
        let _ = unsafe { call!(buffer.plugin(), PJRT_Buffer_DecreaseExternalReferenceCount, &mut args) };
    }
}

/// The contents of a buffer, read in place in host memory. While it lives, the buffer cannot be donated.
pub struct HostView {
    _reference: ExternalReference<Arc<Buffer>>,
    start: *const u8,
    len: usize,
}

// SAFETY: the view has plain bytes that nothing writes while the reference is held.
unsafe impl Send for HostView {}
// SAFETY: the view has plain bytes that nothing writes while the reference is held.
unsafe impl Sync for HostView {}

impl HostView {
    /// Wait until `buffer` is computed and return a view of its dense, row-major contents. Return `None` if the host
    /// cannot read the device's memory, or if its order is another one.
    ///
    /// # Errors
    ///
    /// Fails with the error of the computation if it failed.
    pub fn new(buffer: Arc<Buffer>) -> Result<Option<HostView>> {
        let order = buffer.row_major()?;
        let Some(len) = buffer.tensor_type()?.size_in_bytes() else { return Ok(None) };
        if len > 0 && !buffer.is_host_readable(&order, len)? {
            return Ok(None);
        }
        buffer.await_ready()?;
        let reference = ExternalReference::new(buffer)?;
        let start = if len == 0 { ptr::null() } else { reference.0.device_address()? as *const u8 };
        Ok(Some(HostView { _reference: reference, start, len }))
    }
}

impl AsRef<[u8]> for HostView {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the buffer is computed and lies in host memory, dense and exactly this long (`new` checks it). The
        // reference keeps that memory from being freed or donated, and nothing writes to a computed buffer.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

/// `PJRT_Buffer_MemoryLayout_Type_Tiled`.
const TILED: i32 = 0;

fn tiled(minor_to_major: &[i64]) -> MemoryLayout {
    let mut tiled = TiledLayout::new();
    tiled.minor_to_major = minor_to_major.as_ptr();
    tiled.minor_to_major_size = minor_to_major.len();
    let mut layout = MemoryLayout::new();
    layout.tiled = tiled;
    layout.kind = TILED;
    layout
}

/// Host memory that starts at a multiple of 64 bytes, as XLA:CPU requires for buffers without a copy.
pub struct AlignedBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value is the only owner of its plain bytes.
unsafe impl Send for AlignedBytes {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// Alignment in bytes.
    pub const ALIGNMENT: usize = 64;

    /// Return `len` zero bytes.
    pub fn zeroed(len: usize) -> AlignedBytes {
        let layout = Self::layout(len);
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| alloc::handle_alloc_error(layout));
        AlignedBytes { start, len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), Self::ALIGNMENT).expect("a length that memory can have")
    }
}

impl From<&[u8]> for AlignedBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut copy = AlignedBytes::zeroed(bytes.len());
        copy.as_mut().copy_from_slice(bytes);
        copy
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the memory is owned, initialised, and of this length.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is owned, initialised, of this length, and borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout.
        unsafe { alloc::dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}
