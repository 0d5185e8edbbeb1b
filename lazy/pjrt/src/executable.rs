//! A loaded executable: a compiled program on the devices of a client.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::buffer::Buffer;
use crate::client::Client;
use crate::compiled::Compiled;
use crate::error::{Error, Result};
use crate::ffi::{ChildArgs, ExecuteArgs, ExecuteOptions, Handle, ListArgs};
use crate::plugin::call;
use crate::tensor_type::TensorType;

/// A program that is ready to run. Any number of threads may execute it at once.
pub struct Executable {
    // Fields end in this order.
    compiled: Compiled,
    loaded: Loaded,
    num_devices: usize,
}

/// The plugin's handle, which ends before the client does.
struct Loaded {
    raw: Handle,
    client: Arc<Client>,
}

// SAFETY: the C API lets any thread use an executable.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        let plugin = self.client.plugin();
        // SAFETY: owned by this value, which ends here.
        unsafe { plugin.destroy("PJRT_LoadedExecutable_Destroy", plugin.api.PJRT_LoadedExecutable_Destroy, self.raw) }
    }
}

impl Deref for Executable {
    type Target = Compiled;

    fn deref(&self) -> &Compiled {
        &self.compiled
    }
}

impl Executable {
    /// # Safety
    ///
    /// `raw` must be a loaded executable of this client; its ownership passes to the result.
    pub(crate) unsafe fn from_raw(
        raw: Handle,
        client: Arc<Client>,
        parameters: Option<Vec<TensorType>>,
    ) -> Result<Executable> {
        let loaded = Loaded { raw, client };
        let client = &loaded.client;
        let mut executable = ChildArgs::new();
        executable.handle = raw;
        let mut devices = ListArgs::new();
        devices.handle = raw;
        // SAFETY: the loaded executable is alive; the executable that it gives is ours.
        let compiled = unsafe {
            call!(client.plugin(), PJRT_LoadedExecutable_GetExecutable, &mut executable)?;
            let platform_name = client.platform_name().to_string();
            Compiled::from_raw(executable.child, client.plugin().clone(), platform_name, parameters)?
        };
        // SAFETY: as above.
        unsafe { call!(client.plugin(), PJRT_LoadedExecutable_AddressableDevices, &mut devices)? };
        if compiled.parameter_types().is_none() {
            // Unchecked arguments would be memory-unsafe on XLA:CPU.
            return Err(Error::invalid("compile", "the parameter types of @main cannot be told from the program"));
        }
        Ok(Executable { compiled, loaded, num_devices: devices.count })
    }

    pub(crate) fn mark_deserialized(&mut self) {
        self.compiled.is_deserialized = true;
    }

    /// The client.
    pub fn client(&self) -> &Arc<Client> {
        &self.loaded.client
    }

    /// Devices of this process that one execution runs on.
    pub fn num_devices(&self) -> usize {
        self.num_devices
    }

    /// The types of the arguments that one device is given.
    pub fn parameters(&self) -> &[TensorType] {
        self.compiled.parameter_types().expect("checked when the executable was made")
    }

    /// Runs it on its one device, without waiting: an error of the computation itself shows when an output is awaited or read.
    ///
    /// Arguments that the program donates (`jax.buffer_donor`, `tf.aliasing_output`) are deleted by it, except those whose
    /// positions are in `non_donatable`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, before the plugin is called, for arguments that do not fit the parameters in number, type or client;
    /// the plugin's own for a deleted buffer or one on another device.
    pub fn execute(&self, args: &[&Buffer], non_donatable: &[usize]) -> Result<Vec<Buffer>> {
        if self.num_devices != 1 {
            let message = format!("the program runs on {} devices; use execute_on_all", self.num_devices);
            return Err(Error::invalid("execute", message));
        }
        self.check(args)?;
        let handles: SmallVec<[Handle; 16]> = args.iter().map(|arg| arg.raw).collect();
        let mut outputs: SmallVec<[Handle; 16]> = smallvec![ptr::null_mut(); self.num_outputs()];
        // SAFETY: one list of checked arguments and one of outputs, for the one device.
        unsafe { self.launch(&[handles.as_ptr()], args.len(), non_donatable, &[outputs.as_mut_ptr()])? };
        Ok(self.own(&outputs))
    }

    /// Runs it on all its devices of this process: `args[d]` are the arguments for the `d`th, and so are the results.
    ///
    /// # Errors
    ///
    /// Fails like [`Executable::execute`].
    pub fn execute_on_all(&self, args: &[&[&Buffer]], non_donatable: &[usize]) -> Result<Vec<Vec<Buffer>>> {
        if args.len() != self.num_devices {
            let message = format!("arguments for {} devices, but the program runs on {}", args.len(), self.num_devices);
            return Err(Error::invalid("execute", message));
        }
        for args in args {
            self.check(args)?;
        }
        let handles: Vec<Vec<Handle>> = args.iter().map(|args| args.iter().map(|arg| arg.raw).collect()).collect();
        let argument_lists: Vec<*const Handle> = handles.iter().map(|list| list.as_ptr()).collect();
        let mut outputs = vec![vec![ptr::null_mut(); self.num_outputs()]; args.len()];
        let output_lists: Vec<*mut Handle> = outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        // SAFETY: for each device one list of checked arguments and one of outputs.
        unsafe { self.launch(&argument_lists, self.parameters().len(), non_donatable, &output_lists)? };
        Ok(outputs.iter().map(|list| self.own(list)).collect())
    }

    fn own(&self, outputs: &[Handle]) -> Vec<Buffer> {
        // SAFETY: each was filled in by an execution that succeeded, and belongs to the caller of that.
        outputs.iter().map(|&raw| unsafe { Buffer::from_raw(raw, self.loaded.client.clone()) }).collect()
    }

    /// # Safety
    ///
    /// As many lists of each kind as devices; arguments checked; outputs as many as the program has.
    unsafe fn launch(
        &self,
        argument_lists: &[*const Handle],
        num_args: usize,
        non_donatable: &[usize],
        output_lists: &[*mut Handle],
    ) -> Result<()> {
        let non_donatable: SmallVec<[i64; 16]> = non_donatable.iter().map(|&i| i as i64).collect();
        if let Some(i) = non_donatable.iter().find(|&&i| i < 0 || i >= num_args as i64) {
            return Err(Error::invalid("execute", format!("non_donatable names argument {i} of {num_args}")));
        }
        let mut options = ExecuteOptions::new();
        options.non_donatable = non_donatable.as_ptr();
        options.num_non_donatable = non_donatable.len();
        let mut args = ExecuteArgs::new();
        args.executable = self.loaded.raw;
        args.options = &raw mut options;
        args.argument_lists = argument_lists.as_ptr();
        args.num_devices = argument_lists.len();
        args.num_args = num_args;
        args.output_lists = output_lists.as_ptr();
        // A program without outputs has no buffer that would tell its error: it is awaited.
        let mut events: SmallVec<[Handle; 1]> = SmallVec::new();
        if self.num_outputs() == 0 {
            events.resize(argument_lists.len(), ptr::null_mut());
            args.device_complete_events = events.as_mut_ptr();
        }
        // SAFETY: all lists have the lengths given and outlive the call; the arguments are alive and fit the program.
        unsafe { call!(self.loaded.client.plugin(), PJRT_LoadedExecutable_Execute, &mut args)? };
        for event in events {
            // SAFETY: filled in by the execution, and ours.
            unsafe { self.loaded.client.event(event).await_ready()? };
        }
        Ok(())
    }

    /// XLA aborts on arguments of a wrong number, and reads memory that is not there on ones of a wrong size.
    fn check(&self, args: &[&Buffer]) -> Result<()> {
        let parameters = self.parameters();
        if args.len() != parameters.len() {
            let message = format!("the program takes {} arguments, but {} were given", parameters.len(), args.len());
            return Err(Error::invalid("execute", message));
        }
        for (i, (arg, parameter)) in args.iter().zip(parameters).enumerate() {
            if !Arc::ptr_eq(&arg.client, &self.loaded.client) {
                return Err(Error::invalid("execute", format!("argument {i} belongs to another client")));
            }
            if arg.element_type()? != parameter.element_type || arg.dimensions()? != parameter.dims.as_slice() {
                let message = format!("argument {i} is {}, but the program takes {parameter}", arg.tensor_type()?);
                return Err(Error::invalid("execute", message));
            }
        }
        Ok(())
    }
}
