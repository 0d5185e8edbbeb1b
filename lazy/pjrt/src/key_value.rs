//! The key-value store of a client that several processes make together.
//!
//! Plugins that run one program on devices of several processes exchange their topologies and the addresses of their
//! networks through a store. The creator of the client passes three functions for it. The functions may be called from
//! any thread, also after the client is made.

use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::ffi::{CallbackError, ClientCreateArgs, Handle, KeyValueGetArgs, KeyValuePutArgs, KeyValueTryGetArgs};

/// A store that all processes of a client share. No other user of the store may use the same keys.
pub trait KeyValueStore: Send + Sync {
    /// Return the value of `key`. Wait until a process sets it, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Fails with `DeadlineExceeded` after the timeout, and with other codes if the store fails.
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>>;

    /// Return the value of `key`. Does not wait.
    ///
    /// # Errors
    ///
    /// Fails with `NotFound` if the key is absent, and with other codes if the store fails.
    fn try_get(&self, key: &str) -> Result<Vec<u8>>;

    /// Set `key` to `value`.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    fn put(&self, key: &str, value: &[u8]) -> Result<()>;
}

/// The argument of the functions below.
type Shared = Arc<dyn KeyValueStore>;

/// Pass a store to the creation of a client.
///
/// The store is never freed: threads of a plugin may outlive its client, and the C API does not say when they have
/// called for the last time. A process makes one such client.
pub(crate) fn pass(store: Shared, args: &mut ClientCreateArgs) {
    let shared: *mut c_void = Box::into_raw(Box::new(store)).cast();
    args.kv_get = Some(get);
    args.kv_get_arg = shared;
    args.kv_put = Some(put);
    args.kv_put_arg = shared;
    args.kv_try_get = Some(try_get);
    args.kv_try_get_arg = shared;
}

unsafe extern "C" fn get(args: *mut KeyValueGetArgs) -> Handle {
    // SAFETY: the plugin passes arguments that are alive during the call, with the argument of `pass`.
    unsafe {
        let args = &mut *args;
        let timeout = Duration::from_millis(u64::try_from(args.timeout_ms).unwrap_or(0));
        let value = answer(args.user_arg, args.key, args.key_size, |store, key| store.get(key, timeout));
        let place = (&mut args.value, &mut args.value_size);
        args.value_deleter = Some(free);
        hand_over(value, place, args.callback_error)
    }
}

unsafe extern "C" fn try_get(args: *mut KeyValueTryGetArgs) -> Handle {
    // SAFETY: as in `get`.
    unsafe {
        let args = &mut *args;
        let value = answer(args.user_arg, args.key, args.key_size, |store, key| store.try_get(key));
        let place = (&mut args.value, &mut args.value_size);
        args.value_deleter = Some(free);
        hand_over(value, place, args.callback_error)
    }
}

unsafe extern "C" fn put(args: *mut KeyValuePutArgs) -> Handle {
    // SAFETY: as in `get`. The value is readable during the call.
    unsafe {
        let args = &mut *args;
        let value = bytes(args.value, args.value_size);
        match answer(args.user_arg, args.key, args.key_size, |store, key| store.put(key, value)) {
            Ok(()) => null_mut(),
            Err(error) => report(&error, args.callback_error),
        }
    }
}

/// Call the store. A panic must not unwind into the plugin, so it becomes an error.
///
/// # Safety
///
/// `user_arg` must be that of [`pass`], and `key` must point to `size` readable bytes.
unsafe fn answer<R>(
    user_arg: *mut c_void,
    key: *const c_char,
    size: usize,
    call: impl FnOnce(&dyn KeyValueStore, &str) -> Result<R>,
) -> Result<R> {
    // SAFETY: the caller passes the pointer that `pass` made, which is never freed, and a readable key.
    let (store, key) = unsafe { (&*user_arg.cast::<Shared>(), bytes(key, size)) };
    let key = std::str::from_utf8(key)
        .map_err(|_| Error::invalid("key-value store", format!("the key {key:?} is not UTF-8 text")))?;
    catch_unwind(AssertUnwindSafe(|| call(&**store, key))).unwrap_or_else(|panic| {
        let message = format!("the store panicked at key {key}: {}", text_of(&*panic));
        // The payload's own destructor may panic, too.
        std::mem::forget(panic);
        Err(Error::new(Code::Internal, "key-value store", message))
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Give a value to the plugin, which frees it with [`free`], or the error.
///
/// # Safety
///
/// `error` must be null or the plugin's function.
unsafe fn hand_over(
    value: Result<Vec<u8>>,
    (place, size): (&mut *mut c_char, &mut usize),
    error: *const CallbackError,
) -> Handle {
    let copied = value.and_then(|value| {
        // SAFETY: the new memory has room for the value, and at least one byte, so that it is not null.
        unsafe {
            let memory = libc::malloc(value.len().max(1));
            if memory.is_null() {
                let message = format!("no memory for a value of {} bytes", value.len());
                return Err(Error::new(Code::ResourceExhausted, "key-value store", message));
            }
            std::ptr::copy_nonoverlapping(value.as_ptr(), memory.cast::<u8>(), value.len());
            Ok((memory.cast::<c_char>(), value.len()))
        }
    });
    match copied {
        Ok((memory, length)) => {
            (*place, *size) = (memory, length);
            null_mut()
        }
        Err(e) => {
            (*place, *size) = (null_mut(), 0);
            // SAFETY: the caller passes the plugin's function.
            unsafe { report(&e, error) }
        }
    }
}

/// Free a value. The plugin calls this once it has copied the value.
unsafe extern "C" fn free(value: *mut c_char) {
    // SAFETY: the value was made by `malloc`, or is null.
    unsafe { libc::free(value.cast()) }
}

/// Make an error of the plugin's.
///
/// # Safety
///
/// `make` must be null or point to the plugin's function.
unsafe fn report(error: &Error, make: *const CallbackError) -> Handle {
    let message = error.message();
    // SAFETY: the caller passes the plugin's function, which copies the message. A plugin without one cannot be told.
    let make = unsafe { make.as_ref() }.copied().flatten();
    match make {
        // SAFETY: as above.
        Some(make) => unsafe { make(error.code().to_raw() as c_int, message.as_ptr().cast(), message.len()) },
        None => null_mut(),
    }
}

/// # Safety
///
/// `start` must be null or point to `size` bytes that are readable for `'a`.
unsafe fn bytes<'a>(start: *const c_char, size: usize) -> &'a [u8] {
    if start.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: the caller passes readable bytes.
    unsafe { slice::from_raw_parts(start.cast(), size) }
}

#[cfg(test)]
mod tests {
    //! A plugin of this process whose clients call the store, as those of several processes do.

    use super::*;
    use crate::client::Client;
    use crate::ffi::{Api, HandleArgs, IntArgs, TextArgs};
    use crate::plugin::Plugin;
    use std::collections::BTreeMap;
    use std::mem::zeroed;
    use std::sync::{Condvar, Mutex};

    /// A store of this process.
    #[derive(Default)]
    struct Map {
        values: Mutex<BTreeMap<String, Vec<u8>>>,
        added: Condvar,
    }

    impl KeyValueStore for Map {
        fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
            let values = self.values.lock().unwrap();
            let (values, _) = self.added.wait_timeout_while(values, timeout, |v| !v.contains_key(key)).unwrap();
            let late = || Error::new(Code::DeadlineExceeded, "get", format!("no {key}"));
            values.get(key).cloned().ok_or_else(late)
        }
        fn try_get(&self, key: &str) -> Result<Vec<u8>> {
            if key == "broken" {
                panic!("this store is broken");
            }
            let absent = || Error::new(Code::NotFound, "try_get", format!("no {key}"));
            self.values.lock().unwrap().get(key).cloned().ok_or_else(absent)
        }
        fn put(&self, key: &str, value: &[u8]) -> Result<()> {
            if key == "refused" {
                return Err(Error::new(Code::PermissionDenied, "put", "not this key"));
            }
            self.values.lock().unwrap().insert(key.into(), value.into());
            self.added.notify_all();
            Ok(())
        }
    }

    /// The plugin's errors: a code and a message in a box.
    unsafe extern "C" fn make_error(code: c_int, message: *const c_char, size: usize) -> Handle {
        // SAFETY: the caller passes a readable message.
        let text = String::from_utf8(unsafe { bytes(message, size) }.to_vec()).unwrap();
        Box::into_raw(Box::new((code, text))).cast()
    }

    type Made = (c_int, String);

    unsafe extern "C" fn error_code(args: *mut IntArgs) -> Handle {
        // SAFETY: the handle is an error of `make_error`.
        unsafe { (*args).value = (*(*args).handle.cast::<Made>()).0 };
        null_mut()
    }

    unsafe extern "C" fn error_text(args: *mut TextArgs) {
        // SAFETY: as above.
        unsafe {
            let text = &(*(*args).handle.cast::<Made>()).1;
            ((*args).text, (*args).size) = (text.as_ptr().cast(), text.len());
        }
    }

    unsafe extern "C" fn destroy_error(args: *mut HandleArgs) {
        // SAFETY: as above, and nothing uses the error after this call.
        drop(unsafe { Box::from_raw((*args).handle.cast::<Made>()) });
    }

    /// What a plugin keeps of the functions.
    #[derive(Clone, Copy)]
    struct Calls {
        args: ClientCreateArgs,
        error: CallbackError,
    }

    // SAFETY: the functions may be called from any thread.
    unsafe impl Send for Calls {}

    impl Calls {
        fn value(value: *mut c_char, size: usize, deleter: Option<unsafe extern "C" fn(*mut c_char)>) -> Vec<u8> {
            // SAFETY: the store has handed these bytes over.
            unsafe {
                let copy = bytes(value, size).to_vec();
                deleter.unwrap()(value);
                copy
            }
        }
        fn made(error: Handle) -> Made {
            // SAFETY: `callback_error` of this plugin has made it, and it belongs to the caller.
            *unsafe { Box::from_raw(error.cast()) }
        }
        fn get(self, key: &str, timeout_ms: c_int) -> std::result::Result<Vec<u8>, Made> {
            // SAFETY: all zeros is a valid value of each field.
            let mut args: KeyValueGetArgs = unsafe { zeroed() };
            (args.key, args.key_size) = (key.as_ptr().cast(), key.len());
            (args.timeout_ms, args.callback_error, args.user_arg) = (timeout_ms, &self.error, self.args.kv_get_arg);
            // SAFETY: the arguments are alive.
            match unsafe { self.args.kv_get.unwrap()(&mut args) } {
                error if error.is_null() => Ok(Self::value(args.value, args.value_size, args.value_deleter)),
                error => Err(Self::made(error)),
            }
        }
        fn try_get(self, key: &[u8]) -> std::result::Result<Vec<u8>, Made> {
            // SAFETY: all zeros is a valid value of each field.
            let mut args: KeyValueTryGetArgs = unsafe { zeroed() };
            (args.key, args.key_size) = (key.as_ptr().cast(), key.len());
            (args.callback_error, args.user_arg) = (&self.error, self.args.kv_try_get_arg);
            // SAFETY: as in `get`.
            match unsafe { self.args.kv_try_get.unwrap()(&mut args) } {
                error if error.is_null() => Ok(Self::value(args.value, args.value_size, args.value_deleter)),
                error => Err(Self::made(error)),
            }
        }
        fn put(self, key: &str, value: &[u8]) -> std::result::Result<(), Made> {
            // SAFETY: all zeros is a valid value of each field.
            let mut args: KeyValuePutArgs = unsafe { zeroed() };
            (args.key, args.key_size) = (key.as_ptr().cast(), key.len());
            (args.value, args.value_size) = (value.as_ptr().cast(), value.len());
            (args.callback_error, args.user_arg) = (&self.error, self.args.kv_put_arg);
            // SAFETY: as in `get`.
            match unsafe { self.args.kv_put.unwrap()(&mut args) } {
                error if error.is_null() => Ok(()),
                error => Err(Self::made(error)),
            }
        }
    }

    /// A client that meets its peer and then refuses to start, with what it has found as the message.
    unsafe extern "C" fn create(args: *mut ClientCreateArgs) -> Handle {
        // SAFETY: the arguments are alive. The functions stay usable.
        let calls = Calls { args: unsafe { *args }, error: Some(make_error) };
        let fail = |text: String| {
            // SAFETY: the text is alive.
            unsafe { make_error(13, text.as_ptr().cast(), text.len()) }
        };
        if calls.args.kv_get.is_none() {
            return fail("no store".into());
        }
        let peer = std::thread::spawn(move || {
            let seen = calls.get("node/0", 60_000);
            calls.put("node/1", b"\0binary").unwrap();
            calls.put("empty", b"").unwrap();
            seen
        });
        calls.put("node/0", b"here").unwrap();
        let found = calls.get("node/1", 60_000);
        let peer = peer.join().unwrap();
        fail(format!(
            "{:?}",
            [
                found,
                peer,
                calls.try_get(b"empty"),
                calls.try_get(b"absent"),
                calls.get("absent", 10),
                calls.try_get(b"broken"),
                calls.try_get(b"\xff"),
                calls.put("refused", b"").map(|()| Vec::new()),
            ]
        ))
    }

    fn plugin() -> Arc<Plugin> {
        let mut api = Api::empty();
        api.PJRT_Error_Destroy = Some(destroy_error);
        api.PJRT_Error_Message = Some(error_text);
        api.PJRT_Error_GetCode = Some(error_code);
        api.PJRT_Client_Create = Some(create);
        Arc::new(Plugin::of_table(api))
    }

    #[test]
    fn clients_of_several_processes_meet_in_the_store() {
        let store = Arc::new(Map::default());
        let error = Client::create_with(&plugin(), &[], Some(store.clone())).unwrap_err();
        let found = [
            "Ok([0, 98, 105, 110, 97, 114, 121])",
            "Ok([104, 101, 114, 101])",
            "Ok([])",
            "Err((5, \"no absent\"))",
            "Err((4, \"no absent\"))",
            "Err((13, \"the store panicked at key broken: this store is broken\"))",
            "Err((3, \"the key [255] is not UTF-8 text\"))",
            "Err((7, \"not this key\"))",
        ];
        assert_eq!(error.message(), format!("[{}]", found.join(", ")));
        assert_eq!((error.code(), error.context()), (Code::Internal, "PJRT_Client_Create"));
        assert_eq!(store.values.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_client_of_one_process_gets_no_store() {
        assert_eq!(Client::create(&plugin(), &[]).unwrap_err().message(), "no store");
    }
}
