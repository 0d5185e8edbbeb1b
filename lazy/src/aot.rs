//! Compiling for a TPU that is not here.
//!
//! libtpu contains the whole TPU compiler, and describes any machine by its name. So the cost of a program on a pod can be
//! asked for on a laptop.

use std::collections::BTreeMap;
use torchtpu_pjrt::{CompileOptions, Plugin, Topology, find_libtpu};
use torchtpu_stablehlo::Platform;
use torchtpu_tensor::{Error, Result};

/// What the TPU compiler says about a program.
#[derive(Clone, Debug)]
pub struct Report {
    /// The machine, such as `v5e:2x2`.
    pub topology: String,
    /// Its devices.
    pub devices: usize,
    /// Their kind, such as `TPU v5 lite`.
    pub device_kind: String,
    /// Floating-point operations per execution.
    pub flops: f64,
    /// Bytes read and written per execution.
    pub bytes_accessed: f64,
    /// The compiler's estimate of the time of one execution, in seconds; `None` where it gives none.
    pub optimal_seconds: Option<f64>,
    /// Bytes of machine code.
    pub code_bytes: i64,
    /// Bytes of arguments.
    pub argument_bytes: i64,
    /// Bytes of results.
    pub output_bytes: i64,
    /// Bytes of intermediate values.
    pub temp_bytes: i64,
    /// All that the compiler's cost analysis says.
    pub costs: BTreeMap<String, f64>,
}

/// Compiles StableHLO text for the machine named `topology` and reports what it would cost.
///
/// # Errors
/// `Runtime` when libtpu is not found, does not know the machine, or refuses the program.
pub fn compile(stablehlo: &str, topology: &str) -> Result<Report> {
    let fail = |e: torchtpu_pjrt::Error| Error::runtime(format!("compiling for {topology}: {}", e.message()));
    let path = find_libtpu().ok_or_else(|| {
        Error::runtime("compiling for a TPU needs libtpu, which was not found").note("pip install libtpu")
    })?;
    let plugin = Plugin::load(path).map_err(fail)?;
    let machine = Topology::create(&plugin, topology, &[]).map_err(fail)?;
    let program = machine.compile(stablehlo, &CompileOptions::default()).map_err(fail)?;
    let costs = program.cost_analysis().map_err(fail)?;
    let memory = program.memory_stats().map_err(fail)?;
    let cost = |name: &str| costs.get(name).copied();
    Ok(Report {
        topology: topology.to_string(),
        devices: machine.devices().len(),
        device_kind: machine.devices().first().map(|d| d.kind.clone()).unwrap_or_default(),
        flops: cost("flops").unwrap_or(0.0),
        bytes_accessed: cost("bytes accessed").unwrap_or(0.0),
        optimal_seconds: cost("optimal_seconds").filter(|s| *s >= 0.0),
        code_bytes: memory.generated_code_bytes,
        argument_bytes: memory.argument_bytes,
        output_bytes: memory.output_bytes,
        temp_bytes: memory.temp_bytes,
        costs,
    })
}

/// The text of what would compute a recorded value on another machine, in the spelling that such machines want.
///
/// # Errors
/// `Value` when the value is computed already.
pub fn text_of_value(handle: u64) -> Result<String> {
    crate::engine().dump(handle, Platform::Any)
}

/// Compiles what would compute a recorded value for another machine, in the spelling that such machines want; see
/// [`compile`].
///
/// # Errors
/// As [`compile`], and `Value` when the value is computed already.
pub fn compile_value(handle: u64, topology: &str) -> Result<Report> {
    compile(&text_of_value(handle)?, topology)
}

/// As [`compile_value`], for several values that were recorded since the last cut: one program computes them all.
///
/// # Errors
/// As [`compile_value`], and `Value` when the values are not of one segment.
pub fn compile_values(handles: &[u64], topology: &str) -> Result<Report> {
    compile(&crate::engine().dump_all(handles, Platform::Any)?, topology)
}
