//! The PJRT C API, loaded at run time, behind a safe interface.
//!
//! PJRT is the interface between machine-learning frameworks and devices: a C function table that compiles and runs
//! StableHLO programs. Each kind of device has a *plugin*, a shared library that exports one function, `GetPjrtApi`,
//! which returns the table. This crate loads such a library at run time. So one binary supports XLA:CPU, CUDA and TPU,
//! in old and new versions, and needs none of them to build.
//!
//! Three types to know:
//!
//! * [`Plugin`]: a loaded library. [`Plugin::find`] chooses one, and [`Plugin::load`] loads the given file.
//! * [`Client`]: a started plugin with its devices. It compiles text to an [`Executable`] and takes data from the host.
//! * [`Buffer`]: an array on a device, perhaps still being computed. [`Executable::execute`] takes and returns buffers
//!   without waiting. [`Buffer::to_host`] waits.
//!
//! A [`Topology`] describes a machine that need not exist. With it, libtpu compiles for any TPU without one.
//!
//! # Versions
//!
//! The C API grows by appending to the table and to each argument struct, and every struct starts with its size. So the
//! table is copied as far as it goes. Later entries are absent, and calling one of them is an error that names it. The
//! structs of this crate have the sizes of version 0.81, and later plugins treat missing fields as not given.
//!
//! # Checks
//!
//! No call through this interface may abort the process or access invalid memory, so this crate checks everything that
//! XLA does not: the arguments of an execution against the program's parameters in number, type and client, host data
//! against its shape, and serialised executables by a checksum. XLA's own checks are not repeated, and its messages are
//! passed on in full. Errors are [`Error`]: a code, a message, and the C entry that reported it.
//!
//! Everything is `Send + Sync`. Buffers and executables keep their client alive, and the client its plugin. A library
//! is never unloaded. All `unsafe` code for devices is in this crate.
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
mod key_value;
mod options;
mod plugin;
mod search;
mod signals;
mod signature;
mod tensor_type;
mod topology;

pub use buffer::{AlignedBytes, Buffer, HostView};
pub use client::Client;
pub use compiled::{Compiled, CompiledMemoryStats};
pub use custom_call::{CallFrame, CustomCall, Operand, OperandMut, Threads};
pub use device::{Device, DeviceDescription, DeviceMemoryStats};
pub use error::{Code, Error, Result};
pub use estimate::{Collectives, Estimate, Group, Instruction, Kernel};
pub use event::Event;
pub use executable::Executable;
pub use fork::{is_forked, watch_forks};
pub use key_value::KeyValueStore;
pub use options::{Attributes, CompileOptions, OptionValue};
pub use plugin::Plugin;
pub use search::{PluginKind, add_search_path, find_cpu_plugins, find_libtpu, tpu_chips_present};
pub use signals::on_libtpu_loaded;
pub use tensor_type::{ElementType, TensorType};
pub use topology::{AotExecutable, Topology};
