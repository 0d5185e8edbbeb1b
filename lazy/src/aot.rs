//! Compilation for a TPU that is not here.
//!
//! libtpu has the whole TPU compiler, and describes any machine by its name. So a laptop can compute the cost of a
//! program on a pod.

use crate::chips::{self, Chip};
use crate::disk::DiskCache;
use crate::{bundle, device, options};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use torchtpu_pjrt::{
    AotExecutable, Collectives, CompileOptions, DeviceDescription, Estimate, Kernel, OptionValue, Plugin, Topology,
    find_libtpu,
};
use torchtpu_stablehlo::Profile;
use torchtpu_tensor::{Error, Result};

/// A machine to compile for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// The machine, such as `v5e:2x2`.
    pub topology: String,
    /// Options of the compiler by name, such as `xla_tpu_scoped_vmem_limit_kib`. Values that look like integers, truth
    /// values or numbers are read as such.
    pub options: Vec<(String, String)>,
    /// Number of devices that a program is divided over. Both 0 and 1 mean one device.
    pub num_partitions: usize,
    /// Bytes of device memory to assume, instead of all that the device has.
    pub memory_bytes: Option<u64>,
}

impl Target {
    /// Make a target of one device of the machine named `topology`, with the compiler's own options.
    pub fn new(topology: &str) -> Target {
        Target { topology: topology.into(), ..Target::default() }
    }
}

/// The report of the TPU compiler about a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine, such as `v5e:2x2`.
    pub topology: String,
    /// Its devices.
    pub devices: usize,
    /// Their kind, such as `TPU v5 lite`.
    pub device_kind: String,
    /// The version of the compiler.
    pub compiler: String,
    /// Estimated time of one execution in seconds: the larger of `compute_seconds` and `memory_seconds`, and the part
    /// of `network_seconds` in which nothing is computed.
    pub seconds: f64,
    /// Estimated cycles over the device's clock and the time of `kernels`, but at least `flops` over the device's peak.
    pub compute_seconds: f64,
    /// Bytes accessed over the bandwidth of the device's memory.
    pub memory_seconds: f64,
    /// Bytes that collectives send over the bandwidth of the links between devices.
    pub network_seconds: f64,
    /// The part of `network_seconds` beside which the program computes.
    pub hidden_seconds: f64,
    /// The compiler's estimate of cycles, summed over the optimized program. It has none for `kernels`.
    pub cycles: f64,
    /// Loops whose number of iterations is unknown. They count as one iteration.
    pub unknown_loops: usize,
    /// The kernels of users, by name.
    pub kernels: Vec<KernelCost>,
    /// Floating-point operations per execution.
    pub flops: f64,
    /// `flops` divided by `seconds` and by the device's peak of `bfloat16` operations a second.
    pub peak_share: f64,
    /// Bytes read and written per execution.
    pub bytes_accessed: f64,
    /// The compiler's roofline of one execution in seconds, or `None` if the compiler has none. The compiler counts -1
    /// for each op of unknown cost. These are added back: see `unknown_costs`. If there are many such ops, a short time
    /// is lost in rounding.
    pub optimal_seconds: Option<f64>,
    /// Number of ops that `optimal_seconds` leaves out.
    pub unknown_costs: u64,
    /// Instructions of the optimized program, outside of fusions.
    pub instructions: usize,
    /// Instructions without an estimate of cycles, by opcode.
    pub uncosted: Vec<(String, usize)>,
    /// Bytes of machine code.
    pub code_bytes: i64,
    /// Bytes of arguments.
    pub argument_bytes: i64,
    /// Bytes of results.
    pub output_bytes: i64,
    /// Bytes of results that lie in the memory of donated arguments.
    pub alias_bytes: i64,
    /// Bytes of intermediate values.
    pub temp_bytes: i64,
    /// Peak of bytes while it runs: arguments, results that are not aliases, intermediate values and code.
    pub total_bytes: i64,
    /// The compiler's peak of bytes in use, if it reports one.
    pub peak_bytes: i64,
    /// Bytes of memory that the device has.
    pub memory_bytes: u64,
    /// Seconds that the compiler took.
    pub compile_seconds: f64,
    /// Whether the report was made by an earlier process.
    pub from_disk: bool,
    /// Cycles by the compiler's names of instructions, as name, count and cycles. Most cycles come first.
    pub groups: Vec<(String, usize, f64)>,
    /// The instructions with most cycles: name, type, cycles.
    pub largest: Vec<(String, String, f64)>,
    /// Bytes of arrays along the schedule, without the padding of tiles.
    pub live_bytes: Vec<u64>,
    /// The largest arrays where `live_bytes` is highest: name, type, bytes.
    pub largest_at_peak: Vec<(String, String, u64)>,
    /// All entries of the compiler's cost analysis.
    pub costs: BTreeMap<String, f64>,
    /// Ranks that run the program together.
    pub ranks: usize,
    /// The collectives of one execution, by kind.
    pub collectives: Vec<Collective>,
}

/// The calls of one kernel of a user, in one execution of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelCost {
    /// Its name in the optimized program.
    pub name: String,
    /// Number of calls.
    pub count: f64,
    /// Floating-point operations that its author stated.
    pub flops: f64,
    /// Bytes of operands and results. If the author of the kernel stated more, that number.
    pub bytes: f64,
    /// The least time: the larger of `flops` over the peak and `bytes` over the bandwidth of the device.
    pub seconds: f64,
    /// Whether its author stated its cost.
    pub is_estimated: bool,
}

impl KernelCost {
    fn of(k: Kernel) -> KernelCost {
        KernelCost {
            name: k.name,
            count: k.count,
            flops: k.flops,
            bytes: k.bytes,
            seconds: 0.0,
            is_estimated: k.is_estimated,
        }
    }
}

/// Collectives of one kind among equally many devices, in one execution of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collective {
    /// Opcode, such as `all-gather`.
    pub kind: String,
    /// Whether the program does other work until they are done.
    pub is_async: bool,
    /// Devices of each group, or 0 if the program does not say it.
    pub devices: usize,
    /// Directions of links that the compiler's algorithm uses at once, or 0 if it does not say it.
    pub links: usize,
    /// Number of collectives.
    pub count: f64,
    /// Bytes of the whole arrays: of the results of `all-gather` and `all-reduce`, and of the operands of
    /// `reduce-scatter`.
    pub bytes: f64,
    /// Bytes that each device sends, over the bandwidth of its links.
    pub seconds: f64,
    /// Cycles of the work between start and end.
    pub overlapped_cycles: f64,
}

impl Collective {
    fn of(c: Collectives) -> Collective {
        Collective {
            kind: c.kind,
            is_async: c.is_async,
            devices: c.devices,
            links: c.links,
            count: c.count,
            bytes: c.bytes,
            seconds: 0.0,
            overlapped_cycles: c.overlapped_cycles,
        }
    }
    /// Return the bytes that each device sends in a ring.
    fn sent_bytes(&self) -> f64 {
        let others = if self.devices > 0 { 1.0 - 1.0 / self.devices as f64 } else { 1.0 };
        match &*self.kind {
            "all-reduce" => 2.0 * others * self.bytes,
            "collective-permute" => self.bytes,
            _ => others * self.bytes,
        }
    }
}

/// Directions of links that a collective uses, where the compiler does not say it: both of a ring.
const RING_LINKS: usize = 2;

/// A compiler for one target.
pub struct Compiler {
    target: Target,
    machine: Topology,
    chip: Chip,
    options: CompileOptions,
    disk: Option<DiskCache>,
}

impl Compiler {
    /// The compiler for `target`.
    ///
    /// # Errors
    /// `Runtime` if libtpu is not found or does not know the machine.
    pub fn new(target: Target) -> Result<Compiler> {
        let path = find_libtpu().ok_or_else(|| {
            Error::runtime("compiling for a TPU needs libtpu, which was not found").note("pip install libtpu")
        })?;
        let fail = |e: torchtpu_pjrt::Error| failure(&target.topology, &e);
        let chip = chips::of_topology(&target.topology).ok_or_else(|| {
            Error::value(format!(
                "topology: '{}' is not a TPU generation. Expected one of {} with its shape, such as 'v5e:2x2'",
                target.topology,
                chips::names()
            ))
        })?;
        let plugin = Plugin::load(path).map_err(fail)?;
        let machine = Topology::create(&plugin, &target.topology, &[]).map_err(fail)?;
        let partitions = target.num_partitions.max(1) as i64;
        let options = CompileOptions {
            num_partitions: partitions,
            use_spmd_partitioning: partitions > 1,
            use_shardy_partitioner: partitions > 1,
            env_overrides: options::of_profile(&Profile::TPU)
                .into_iter()
                .chain(target.options.iter().map(|(k, v)| (k.clone(), option_value(v))))
                .collect(),
            ..CompileOptions::default()
        };
        Ok(Compiler { machine, chip, options, disk: device::requested_cache(), target })
    }

    /// Return the target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Return the kind of the devices, such as `TPU v5 lite`.
    pub fn device_kind(&self) -> String {
        self.machine.devices().first().map(|d| d.kind.clone()).unwrap_or_default()
    }

    /// Bytes of memory of a device.
    pub fn memory_bytes(&self) -> u64 {
        self.target.memory_bytes.unwrap_or(self.chip.memory_bytes)
    }

    /// Compile StableHLO text, and report its cost. If this or another process has compiled it before, its report is
    /// found by text, machine, options and version of the compiler.
    ///
    /// # Errors
    /// `Runtime` if the compiler refuses the program. `OutOfMemory` if it does not fit in the memory of a device.
    pub fn compile(&self, stablehlo: &str) -> Result<Report> {
        self.compile_with(stablehlo, &[], 1)
    }

    /// As [`Compiler::compile`], with options of the program in addition to those of the target, for a program that so
    /// many ranks run together.
    pub(crate) fn compile_with(
        &self,
        stablehlo: &str,
        own: &[(String, OptionValue)],
        replicas: usize,
    ) -> Result<Report> {
        let options = self.options_for(own, replicas)?;
        let key = self.key(stablehlo, &options);
        if let Some(disk) = &self.disk
            && let Some(bytes) = disk.load(&key)
        {
            match serde_json::from_slice::<Report>(&bytes) {
                Ok(report) => return Ok(self.complete(Report { from_disk: true, ..report })),
                Err(e) => disk.reject(&key, &e.to_string()),
            }
        }
        let start = Instant::now();
        let compiled = self.machine.compile(stablehlo, &options);
        let compile_seconds = start.elapsed().as_secs_f64();
        let measured = compiled.and_then(|program| self.measure(&program));
        let report = measured.map_err(|e| failure(&self.target.topology, &e))?;
        let report = Report { compile_seconds, ranks: replicas, ..report };
        if let Some(disk) = &self.disk
            && let Ok(bytes) = serde_json::to_vec(&report)
        {
            disk.store(&key, &bytes);
        }
        Ok(self.complete(report))
    }

    /// Return what a compiled program says about its cost.
    fn measure(&self, program: &AotExecutable) -> torchtpu_pjrt::Result<Report> {
        let costs = program.cost_analysis()?;
        let memory = program.memory_stats()?;
        let estimate = program.estimate()?;
        let cost = |name: &str| costs.get(name).copied();
        let (optimal_seconds, unknown_costs) = cost("optimal_seconds").map_or((None, 0), known_seconds);
        let Estimate {
            cycles,
            unknown_loops,
            repeated_flops,
            repeated_bytes,
            kernels,
            instructions,
            groups,
            uncosted,
            largest,
            live_bytes,
            largest_at_peak,
            collectives,
        } = estimate;
        let missing_bytes: f64 = kernels.iter().map(|k| k.missing_bytes).sum();
        Ok(Report {
            topology: self.target.topology.clone(),
            devices: self.machine.devices().len(),
            device_kind: self.device_kind(),
            compiler: self.machine.platform_version().to_string(),
            cycles,
            unknown_loops,
            kernels: kernels.into_iter().map(KernelCost::of).collect(),
            flops: cost("flops").unwrap_or(0.0) + repeated_flops,
            bytes_accessed: cost("bytes accessed").unwrap_or(0.0) + repeated_bytes + missing_bytes,
            optimal_seconds,
            unknown_costs,
            instructions,
            uncosted,
            code_bytes: memory.generated_code_bytes,
            argument_bytes: memory.argument_bytes,
            output_bytes: memory.output_bytes,
            alias_bytes: memory.alias_bytes,
            temp_bytes: memory.temp_bytes,
            peak_bytes: memory.peak_bytes,
            groups: groups.into_iter().map(|g| (g.name, g.count, g.cycles)).collect(),
            largest: largest.into_iter().map(|i| (i.name, i.shape, i.cycles)).collect(),
            live_bytes,
            largest_at_peak,
            costs,
            collectives: collectives.into_iter().map(Collective::of).collect(),
            ..Report::default()
        })
    }

    /// Return the number of devices of the machine.
    pub fn devices(&self) -> usize {
        self.machine.devices().len()
    }

    /// Return the device of each rank. Rank `r` is the device with the `r`-th smallest id. Ids count the chips of the
    /// machine along its first dimension, then along the others.
    fn ranks(&self) -> Vec<&DeviceDescription> {
        let mut ranks: Vec<_> = self.machine.devices().iter().collect();
        ranks.sort_unstable_by_key(|device| device.id);
        ranks
    }

    /// Return the place of each rank in the machine. See [`crate::rank_coordinates`].
    pub(crate) fn rank_coordinates(&self) -> Option<Vec<Vec<i64>>> {
        self.ranks().into_iter().map(DeviceDescription::place).collect()
    }

    /// Return the options for a program that so many ranks run together.
    fn options_for(&self, own: &[(String, OptionValue)], replicas: usize) -> Result<CompileOptions> {
        let mut options = self.options.clone();
        options.env_overrides.extend_from_slice(own);
        options.num_replicas = replicas as i64;
        if replicas > 1 {
            let ranks = self.ranks();
            let (devices, topology) = (ranks.len(), &self.target.topology);
            if replicas > devices {
                let text = format!("the program is for {replicas} ranks, but {topology} has {devices} devices");
                return Err(Error::value(text));
            }
            options.device_assignment = Some(vec![ranks[..replicas].iter().map(|d| i64::from(d.id)).collect()]);
        }
        Ok(options)
    }

    /// Compile programs, and write their executables to a file that [`crate::load_cache`] reads on a device of this
    /// kind. A program is its StableHLO text, the number of its [options] and the number of its ranks. Return the
    /// number of executables. Programs that the compiler refuses are left out.
    ///
    /// # Errors
    /// `Runtime` if the file cannot be written, or no program compiles.
    pub fn save(&self, path: &Path, programs: &[(&str, u32, usize)]) -> Result<usize> {
        let mut executables = Vec::with_capacity(programs.len());
        let mut refused = None;
        for (text, number, ranks) in programs {
            let own = options::list(*number);
            let given = self.options_for(&own, *ranks)?;
            match self.machine.compile(text, &given).and_then(|program| program.serialize()) {
                // A device looks up a program by the text that it would compile itself.
                Ok(bytes) => {
                    let num_replicas = *ranks as i64;
                    let env_overrides =
                        options::of_profile(&Profile::TPU).into_iter().chain(own.iter().cloned()).collect();
                    let asked = CompileOptions { num_replicas, env_overrides, ..CompileOptions::default() };
                    executables.push((bundle::key(&asked, text), bytes));
                }
                Err(e) => refused = Some(failure(&self.target.topology, &e)),
            }
        }
        match refused {
            Some(error) if executables.is_empty() => return Err(error),
            _ => {}
        }
        let made_for =
            device::bundle_environment(self.machine.platform_name(), self.machine.api_version(), &self.device_kind());
        bundle::write(path, &made_for, &executables)?;
        Ok(executables.len())
    }

    /// Return the optimized program as text: one line per instruction with its type, operands and cycles. `ranks` run
    /// it together.
    ///
    /// # Errors
    /// Those of [`Compiler::compile`].
    pub fn optimized_text(&self, stablehlo: &str, ranks: usize) -> Result<String> {
        let fail = |e: torchtpu_pjrt::Error| failure(&self.target.topology, &e);
        self.machine.compile(stablehlo, &self.options_for(&[], ranks)?).and_then(|p| p.optimized_text()).map_err(fail)
    }

    /// Add the values that depend on the numbers of the device.
    fn complete(&self, mut r: Report) -> Report {
        let mut kernels = 0.0;
        for k in &mut r.kernels {
            k.seconds = (k.flops / self.chip.flops).max(k.bytes / self.chip.bandwidth);
            kernels += k.seconds;
        }
        r.compute_seconds = (r.cycles / self.chip.clock + kernels).max(r.flops / self.chip.flops);
        r.memory_seconds = r.bytes_accessed / self.chip.bandwidth;
        let mut hidden = 0.0;
        for c in &mut r.collectives {
            let links = if c.links > 0 { c.links } else { RING_LINKS };
            c.seconds = c.sent_bytes() / (links as f64 * self.chip.link);
            hidden += c.seconds.min(c.overlapped_cycles / self.chip.clock);
        }
        // The sum of none would be -0.
        r.network_seconds = r.collectives.iter().fold(0.0, |sum, c| sum + c.seconds);
        r.hidden_seconds = hidden;
        r.seconds = r.compute_seconds.max(r.memory_seconds) + r.network_seconds - r.hidden_seconds;
        r.peak_share = if r.seconds > 0.0 { r.flops / (r.seconds * self.chip.flops) } else { 0.0 };
        r.total_bytes = r.argument_bytes + r.output_bytes - r.alias_bytes + r.temp_bytes + r.code_bytes;
        r.memory_bytes = self.memory_bytes();
        r
    }

    fn key(&self, stablehlo: &str, options: &CompileOptions) -> Vec<u8> {
        const FORM: u32 = 4;
        format!(
            "torchtpu report {FORM}\n{}\n{}\n{options:?}\n{stablehlo}",
            self.machine.platform_version(),
            self.target.topology,
        )
        .into_bytes()
    }
}

/// Return the seconds in a sum that counts -1 for each op of unknown cost, and the number of such ops. The sum has 24
/// bits, so a short time is lost beside many such ops.
fn known_seconds(sum: f64) -> (Option<f64>, u64) {
    if sum >= 0.0 {
        return (Some(sum), 0);
    }
    let unknown = (-sum).ceil();
    let seconds = sum + unknown;
    let resolution = unknown * f64::from(f32::EPSILON);
    (Some(seconds).filter(|&s| s >= 8.0 * resolution), unknown as u64)
}

/// Return an option's value in the compiler's type.
fn option_value(text: &str) -> OptionValue {
    match text {
        "true" | "True" => OptionValue::Bool(true),
        "false" | "False" => OptionValue::Bool(false),
        _ => match (text.parse::<i64>(), text.parse::<f32>()) {
            (Ok(n), _) => OptionValue::Int64(n),
            (_, Ok(x)) => OptionValue::Float(x),
            _ => OptionValue::String(text.to_string()),
        },
    }
}

fn failure(topology: &str, e: &torchtpu_pjrt::Error) -> Error {
    let f = crate::failure::Failure::device(&format!("compiling for {topology}"), e);
    f.error()
}

/// Compile StableHLO text for the machine named `topology`, and report its cost.
///
/// # Errors
/// `Runtime` if libtpu is not found, does not know the machine, or refuses the program. `OutOfMemory` if the program
/// does not fit.
pub fn compile(stablehlo: &str, topology: &str) -> Result<Report> {
    Compiler::new(Target::new(topology))?.compile(stablehlo)
}

/// Return the text of the program that would compute a recorded value on another machine, with the lowerings of that
/// machine.
///
/// # Errors
/// `Value` if the value is computed already.
pub fn text_of_value(handle: u64) -> Result<String> {
    crate::engine().dump(handle, &Profile::TPU)
}

/// As [`text_of_value`], for several values that were recorded since the last cut: one program computes them all.
///
/// # Errors
/// `Value` if the values are not of one segment.
pub fn text_of_values(handles: &[u64]) -> Result<String> {
    crate::engine().dump_all(handles, &Profile::TPU)
}

/// Compile the program that would compute a recorded value for another machine, with the lowerings of that machine. See
/// [`compile`].
///
/// # Errors
/// Those of [`compile`]. `Value` if the value is computed already.
pub fn compile_value(handle: u64, topology: &str) -> Result<Report> {
    compile(&text_of_value(handle)?, topology)
}

/// As [`compile_value`], for several values that were recorded since the last cut: one program computes them all.
///
/// # Errors
/// Those of [`compile_value`]. `Value` if the values are not of one segment.
pub fn compile_values(handles: &[u64], topology: &str) -> Result<Report> {
    compile(&text_of_values(handles)?, topology)
}

/// Return whether libtpu is installed.
pub fn is_available() -> bool {
    find_libtpu().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_of_unknown_cost_are_taken_out_of_the_sum() {
        assert_eq!(known_seconds(0.25), (Some(0.25), 0));
        assert_eq!(known_seconds(-2.75), (Some(0.25), 3));
        assert_eq!(known_seconds(f64::from(-26.0f32 + 1e-6)), (None, 26));
    }

    #[test]
    fn option_values_are_read_by_their_form() {
        assert_eq!(option_value("true"), OptionValue::Bool(true));
        assert_eq!(option_value("-3"), OptionValue::Int64(-3));
        assert_eq!(option_value("0.5"), OptionValue::Float(0.5));
        assert_eq!(option_value("auto"), OptionValue::String("auto".into()));
    }
}
