//! The PJRT C API, loaded at run time, behind a safe interface.
//!
//! PJRT is what a machine-learning framework and a device have in common: a C function table through which programs in
//! StableHLO are compiled and run. Each kind of device brings a *plugin*, a shared library that exports one function,
//! `GetPjrtApi`, which returns the table. This crate loads such a library when the program runs, so that one binary serves
//! XLA:CPU, CUDA and TPU, in old versions and new, and needs none of them to be built.
//!
//! Three types to know:
//!
//! * [`Plugin`]: a loaded library. [`Plugin::find`] chooses one, [`Plugin::load`] takes the one named.
//! * [`Client`]: a plugin at work on its devices. It compiles text to an [`Executable`] and takes data from the host.
//! * [`Buffer`]: an array on a device, perhaps still being computed. [`Executable::execute`] takes some and gives some, without
//!   waiting; [`Buffer::to_host`] waits.
//!
//! [`Topology`] stands beside them: a machine that is only described. libtpu compiles for any TPU without one.
//!
//! # Versions
//!
//! The C API grows by appending, to the table and to each argument struct, and every struct opens with its size. So the table
//! is copied as far as it reaches, entries beyond are absent, and calling one of those is an error that names it. Our own
//! structs have the sizes of version 0.81, and later plugins take the rest as not given.
//!
//! # What is checked here
//!
//! Nothing that a caller does through this interface may abort the process or touch memory that is not there, so whatever XLA
//! leaves unchecked is checked before: arguments of an execution against the program's parameters in number, type and client;
//! host data against its shape; serialised executables by a checksum. What XLA checks is left to it, and its message is passed
//! on in full. Errors are [`Error`]: a code, a message, and the C entry that reported it.
//!
//! Everything is `Send + Sync`. Buffers and executables keep their client alive, and the client its plugin. A library is never
//! unloaded. All `unsafe` of the way to devices lives in this crate.
//!
//! ```no_run
//! use torchtpu_pjrt::{Client, CompileOptions, ElementType, Plugin};
//!
//! # fn main() -> torchtpu_pjrt::Result<()> {
//! let plugin = Plugin::find(None)?;
//! let client = Client::create(&plugin, &[])?;
//! let program = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!     %y = stablehlo.add %x, %x : tensor<2xf32>
//!     return %y : tensor<2xf32>
//! }";
//! let executable = client.compile(program, &CompileOptions::default())?;
//! let data: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
//! let x = client.buffer_from_host(&data, ElementType::F32, &[2])?;
//! let y = executable.execute(&[&x], &[])?.remove(0);
//! assert_eq!(y.to_vec()?[..4], 2.0f32.to_ne_bytes());
//! # Ok(())
//! # }
//! ```

mod abi;
mod buffer;
mod client;
mod compiled;
mod custom_call;
mod device;
mod error;
mod estimate;
mod event;
mod executable;
mod extension;
mod ffi;
mod fork;
mod options;
mod plugin;
mod search;
mod signature;
mod tensor_type;
mod topology;

pub use buffer::{AlignedBytes, Buffer, HostView};
pub use client::Client;
pub use compiled::{Compiled, CompiledMemoryStats};
pub use custom_call::{CallFrame, CustomCall, Operand, OperandMut, Threads};
pub use device::{Device, DeviceDescription, DeviceMemoryStats};
pub use error::{Code, Error, Result};
pub use estimate::{Estimate, Group, Instruction};
pub use event::Event;
pub use executable::Executable;
pub use fork::{is_forked, watch_forks};
pub use options::{Attributes, CompileOptions, OptionValue};
pub use plugin::Plugin;
pub use search::{add_search_path, find_cpu_plugins, find_libtpu, tpu_chips_present};
pub use tensor_type::{ElementType, TensorType};
pub use topology::{AotExecutable, Topology};
