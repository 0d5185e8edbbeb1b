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
    // Fields are dropped in this order.
    compiled: Compiled,
    loaded: Loaded,
    num_devices: usize,
}

/// The plugin's handle, which is destroyed before the client.
struct Loaded {
    raw: Handle,
    client: Arc<Client>,
}

// SAFETY: the C API lets any thread use an executable.
unsafe impl Send for Loaded {}
// SAFETY: the C API lets several threads use an executable at once.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        let plugin = self.client.plugin();
        // SAFETY: this value owns the executable and is being dropped.
        unsafe { plugin.destroy("PJRT_LoadedExecutable_Destroy", plugin.api.PJRT_LoadedExecutable_Destroy, self.raw) }
    }
}

/// Where a launch runs. Without a device, it runs on all devices of the program.
struct Place {
    device: Handle,
    launch_id: i32,
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
    /// `raw` must be a loaded executable of this client. The result owns it.
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
        // SAFETY: the loaded executable is alive, and `compiled` owns the executable that it returns.
        let compiled = unsafe {
            call!(client.plugin(), PJRT_LoadedExecutable_GetExecutable, &mut executable)?;
            let platform_name = client.platform_name().to_string();
            Compiled::from_raw(executable.child, client.plugin().clone(), platform_name, parameters)?
        };
        // SAFETY: the loaded executable is alive.
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

    /// Return the client.
    pub fn client(&self) -> &Arc<Client> {
        &self.loaded.client
    }

    /// Return the number of devices of this process that one execution runs on.
    pub fn num_devices(&self) -> usize {
        self.num_devices
    }

    /// Return the types of the arguments for one device.
    pub fn parameters(&self) -> &[TensorType] {
        self.compiled.parameter_types().expect("checked when the executable was made")
    }

    /// Run the program on its one device, without waiting. An error of the computation itself is reported when an
    /// output is awaited or read.
    ///
    /// Arguments that the program donates (`jax.buffer_donor`, `tf.aliasing_output`) are deleted, except those at
    /// positions in `non_donatable`.
    ///
    /// # Errors
    ///
    /// Fails with `InvalidArgument`, before the plugin is called, if arguments do not match the parameters in number,
    /// type or client. Fails with the plugin's error for a deleted buffer or one on another device.
    pub fn execute(&self, args: &[&Buffer], non_donatable: &[usize]) -> Result<Vec<Buffer>> {
        if self.num_devices != 1 {
            let message = format!("the program runs on {} devices; use execute_on_all", self.num_devices);
            return Err(Error::invalid("execute", message));
        }
        self.check(args)?;
        let handles: SmallVec<[Handle; 16]> = args.iter().map(|arg| arg.raw).collect();
        let mut outputs: SmallVec<[Handle; 16]> = smallvec![ptr::null_mut(); self.num_outputs()];
        // SAFETY: there is one list of checked arguments and one list of outputs, for the one device.
        unsafe { self.launch(&[handles.as_ptr()], args.len(), non_donatable, &[outputs.as_mut_ptr()])? };
        Ok(self.own(&outputs))
    }

    /// Run the program on all its devices of this process. `args[d]` are the arguments for the `d`-th device, and entry
    /// `d` of the result holds its outputs.
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
        // SAFETY: for each device there is one list of checked arguments and one list of outputs.
        unsafe { self.launch(&argument_lists, self.parameters().len(), non_donatable, &output_lists)? };
        Ok(outputs.iter().map(|list| self.own(list)).collect())
    }

    /// Run the program on one of its devices. Other threads run it on the others, each with the same `launch_id`, which
    /// no other launch has. `device` is a position in the list of the client's devices.
    ///
    /// # Errors
    ///
    /// Fails like [`Executable::execute`], and if there is no such device.
    pub fn execute_on(&self, device: usize, launch_id: i32, args: &[&Buffer]) -> Result<Vec<Buffer>> {
        let Some(device) = self.loaded.client.devices().get(device) else {
            return Err(Error::invalid("execute", format!("the client has no device {device}")));
        };
        self.check(args)?;
        let handles: SmallVec<[Handle; 16]> = args.iter().map(|arg| arg.raw).collect();
        let mut outputs: SmallVec<[Handle; 16]> = smallvec![ptr::null_mut(); self.num_outputs()];
        let place = Place { device: device.raw, launch_id };
        // SAFETY: there is one list of checked arguments and one list of outputs, for the one device.
        unsafe { self.launch_at(place, &[handles.as_ptr()], args.len(), &[], &[outputs.as_mut_ptr()])? };
        Ok(self.own(&outputs))
    }

    fn own(&self, outputs: &[Handle]) -> Vec<Buffer> {
        // SAFETY: an execution that succeeded filled in each handle, and its caller owns them.
        outputs.iter().map(|&raw| unsafe { Buffer::from_raw(raw, self.loaded.client.clone()) }).collect()
    }

    /// # Safety
    ///
    /// There is one list of each kind per device. The arguments are checked, and there are as many outputs as the
    /// program has.
    unsafe fn launch(
        &self,
        argument_lists: &[*const Handle],
        num_args: usize,
        non_donatable: &[usize],
        output_lists: &[*mut Handle],
    ) -> Result<()> {
        let place = Place { device: ptr::null_mut(), launch_id: 0 };
        // SAFETY: the caller passes what the function needs.
        unsafe { self.launch_at(place, argument_lists, num_args, non_donatable, output_lists) }
    }

    /// # Safety
    ///
    /// As for `launch`. A device is one of the client's.
    unsafe fn launch_at(
        &self,
        place: Place,
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
        options.launch_id = place.launch_id;
        let mut args = ExecuteArgs::new();
        args.executable = self.loaded.raw;
        args.options = &raw mut options;
        args.argument_lists = argument_lists.as_ptr();
        args.num_devices = argument_lists.len();
        args.num_args = num_args;
        args.output_lists = output_lists.as_ptr();
        args.execute_device = place.device;
        // A program without outputs has no buffer to report its error, so wait for its event.
        let mut events: SmallVec<[Handle; 1]> = SmallVec::new();
        if self.num_outputs() == 0 {
            events.resize(argument_lists.len(), ptr::null_mut());
            args.device_complete_events = events.as_mut_ptr();
        }
        // SAFETY: all lists have the given lengths and outlive the call. The arguments are alive and match the program.
        unsafe { call!(self.loaded.client.plugin(), PJRT_LoadedExecutable_Execute, &mut args)? };
        for event in events {
            // SAFETY: the execution filled in the event, and it is owned here.
            unsafe { self.loaded.client.event(event).await_ready()? };
        }
        Ok(())
    }

    /// Check the arguments. XLA aborts if their number is wrong, and reads invalid memory if their size is wrong.
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
