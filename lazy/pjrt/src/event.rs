//! Events: computations or transfers that may still be running.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use crate::client::Client;
use crate::error::Result;
use crate::ffi::{BoolArgs, Handle, HandleArgs, OnReadyArgs};
use crate::plugin::{Plugin, call};

/// An event that becomes ready once, with success or with an error.
pub struct Event {
    raw: Handle,
    client: Arc<Client>,
}

// SAFETY: the C API lets any thread use an event.
unsafe impl Send for Event {}
// SAFETY: the C API lets several threads use an event at once.
unsafe impl Sync for Event {}

impl Event {
    /// # Safety
    ///
    /// `raw` must be an event of the client's plugin. The result owns it.
    pub(crate) unsafe fn from_raw(raw: Handle, client: Arc<Client>) -> Event {
        Event { raw, client }
    }

    /// Block until the event is ready. Return its error, if any.
    pub fn await_ready(&self) -> Result<()> {
        let mut args = HandleArgs::new();
        args.handle = self.raw;
        // SAFETY: the event is alive.
        unsafe { call!(self.client.plugin(), PJRT_Event_Await, &mut args) }
    }

    /// Whether the event is ready. Does not wait.
    pub fn is_ready(&self) -> Result<bool> {
        let mut args = BoolArgs::new();
        args.handle = self.raw;
        // SAFETY: the event is alive.
        unsafe { call!(self.client.plugin(), PJRT_Event_IsReady, &mut args)? };
        Ok(args.value)
    }

    /// Call `notify` when the event is ready, on a thread of the plugin. If it is already ready, call `notify` at once.
    ///
    /// # Errors
    ///
    /// Fails if the plugin does not support this. `notify` is then not called.
    pub fn on_ready(self: &Arc<Self>, notify: impl FnOnce() + Send + 'static) -> Result<()> {
        struct Waiting<F> {
            notify: F,
            /// Keeps the event alive until the callback has run.
            event: Arc<Event>,
        }

        unsafe extern "C" fn ready<F: FnOnce()>(error: Handle, user_arg: *mut c_void) {
            // SAFETY: `user_arg` is the box passed to the plugin below, which calls back only once.
            let Waiting { notify, event } = *unsafe { Box::from_raw(user_arg.cast::<Waiting<F>>()) };
            if !error.is_null() {
                // `await_ready` reports the error. Here it is only freed.
                // SAFETY: the callback owns its error.
                drop(unsafe { event.client.plugin().take_error("PJRT_Event_OnReady", error) });
            }
            // A panic must not unwind into the plugin.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(notify));
            drop(event);
        }

        fn callback<F: FnOnce()>(_: &F) -> unsafe extern "C" fn(Handle, *mut c_void) {
            ready::<F>
        }

        let mut args = OnReadyArgs::new();
        args.event = self.raw;
        args.callback = Some(callback(&notify));
        let waiting = Box::into_raw(Box::new(Waiting { notify, event: self.clone() }));
        args.user_arg = waiting.cast();
        // SAFETY: the event is alive, and `user_arg` has the type that the callback expects.
        let asked = unsafe { call!(self.client.plugin(), PJRT_Event_OnReady, &mut args) };
        if asked.is_err() {
            // SAFETY: the plugin refused, so the callback never receives the box.
            drop(unsafe { Box::from_raw(waiting) });
        }
        asked
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let plugin = self.client.plugin();
        // SAFETY: this value owns the event and is being dropped.
        unsafe { plugin.destroy("PJRT_Event_Destroy", plugin.api.PJRT_Event_Destroy, self.raw) }
    }
}

/// Keep `owner` alive until the event is ready, then destroy the event. Leaks the owner if the plugin cannot report
/// readiness: memory that a device may still read must not be freed.
///
/// # Safety
///
/// `event` must be an event of the plugin. This function takes ownership of it.
pub(crate) unsafe fn keep_until_ready(
    plugin: &Arc<Plugin>,
    event: Handle,
    owner: Arc<dyn Any + Send + Sync>,
) -> Result<()> {
    struct Kept {
        owner: Arc<dyn Any + Send + Sync>,
        plugin: Arc<Plugin>,
        event: Handle,
    }

    unsafe extern "C" fn release(error: Handle, user_arg: *mut c_void) {
        // SAFETY: `user_arg` is the box passed to the plugin below, which calls back only once.
        let kept = unsafe { Box::from_raw(user_arg.cast::<Kept>()) };
        if !error.is_null() {
            // The reader gets the transfer's error through the buffer. Here it is only freed.
            // SAFETY: the callback owns its error.
            drop(unsafe { kept.plugin.take_error("PJRT_Event_OnReady", error) });
        }
        // SAFETY: the callback owns the event, which is alive until here.
        unsafe { kept.plugin.destroy("PJRT_Event_Destroy", kept.plugin.api.PJRT_Event_Destroy, kept.event) };
        // A panic of the owner's destructor must not unwind into the plugin.
        let owner = kept.owner;
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(owner)));
    }

    let kept = Box::into_raw(Box::new(Kept { owner, plugin: plugin.clone(), event }));
    let mut args = OnReadyArgs::new();
    args.event = event;
    args.callback = Some(release);
    args.user_arg = kept.cast();
    // SAFETY: the event is alive, and `user_arg` has the type that the callback expects. On failure the box is leaked
    // on purpose.
    unsafe { call!(plugin, PJRT_Event_OnReady, &mut args) }
}
