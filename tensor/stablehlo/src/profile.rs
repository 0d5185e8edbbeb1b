//! Platforms, as lists of what their compilers and runtimes do well.

/// Defines [`Profile`] from its capabilities, and lists them in [`Profile::CAPABILITIES`].
macro_rules! profile {
    ($($(#[$doc:meta])* $capability:ident)*) => {
        /// A platform: the capabilities of its compiler and runtime.
        ///
        /// A program has the same meaning with every profile. Capabilities choose between spellings of different speed
        /// or precision, and they tell the engine when to cut, compile and launch. Code asks for a capability, not for
        /// a platform, so a new platform is a constant and a line in [`Profile::PLATFORMS`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct Profile {
            /// The name of the platform in messages. Most plugins name their devices better.
            pub name: &'static str,
            /// Options of the compiler that all programs need.
            pub options: &'static [(&'static str, bool)],
            /// The number of multiplications, or of elements read, below which a call of a kernel costs more than it
            /// saves.
            pub least_call_work: usize,
            $($(#[$doc])* pub $capability: bool,)*
        }

        impl Profile {
            /// The names of the capabilities, and how to reach their fields. For tests.
            pub const CAPABILITIES: &'static [(&'static str, fn(&mut Profile) -> &mut bool)] =
                &[$((stringify!($capability), |p| &mut p.$capability)),*];
        }
    };
}

profile! {
    // Which spellings lowerings use.

    /// Programs call the kernels of device `cpu` by custom calls.
    calls_kernels
    /// Programs call the collectives of the process groups by custom calls. Otherwise collectives are the compiler's,
    /// and the ranks must launch equal programs.
    calls_collectives
    /// A product of `float32` takes several passes over `bfloat16`, and its precision can be chosen.
    multiplies_in_passes
    /// Integers of 64 bits are as fast as those of 32 bits.
    has_int64
    /// `float64` is computed by the hardware at nearly the speed of `float32`.
    has_f64
    /// A large sum needs several reductions to be precise: see [`Func::reduce`](crate::Func::reduce).
    sums_in_stages
    /// A sum over a large window needs a reduction for each dimension to be precise and fast.
    splits_windows
    /// Functions of one `float32` that the compiler does not vectorise are written as polynomials.
    spells_functions
    /// `atan2` is written as a polynomial in `float64`.
    spells_atan2
    /// `rsqrt` is written as a division by a root.
    spells_rsqrt
    /// A fusion may contain a division whose result has several readers.
    fuses_divisions
    /// A sum over classes shares the loop of the other sums over them, so it is not avoided.
    fuses_sums
    /// A convolution may read its kernel backwards.
    reverses_windows
    /// Convolutions for which the compiler has no fast path are written as products of matrices.
    unfolds_windows
    /// The gradient of a grouped convolution for its weight is written as a convolution by groups of the batch.
    groups_batches
    /// `select_and_scatter` is fast.
    selects_and_scatters
    /// A single row is written by `dynamic_update_slice` instead of `scatter`.
    updates_slices
    /// The generator of the device gives random bits faster than Threefry.
    generates_bits

    // Which ops are recorded.

    /// Attention without kernel calls stays one op, whose gradient reads the output.
    lowers_attention
    /// Batch norm stays one op, which has a lowering of its own.
    lowers_batch_norm

    // What the engine does.

    /// Programs run on the processor of this process: executables fit one kind of processor, and custom operators use
    /// their functions for device `cpu`.
    runs_on_host
    /// The host reads and writes the memory of buffers directly.
    shares_memory
    /// New programs are computed op by op, because compilation takes longer.
    interprets
    /// The runtime takes memory from `malloc`. The engine keeps the memory of dropped results for later results, and
    /// bounds the size of temporaries.
    pools
    /// A training step should be one program, however many ops it has.
    compiles_whole_steps
    /// Ops carry the lines of the user's program to the compiler, for its errors and profiles.
    records_lines
    /// The first `float32` product prints a hint about its precision.
    hints_at_precision
}

impl Profile {
    /// A platform that this library does not know: the most general spellings, and one program for a step.
    pub const UNKNOWN: Profile = Profile {
        name: "an unknown platform",
        // A `bfloat16` product that a `float32` op reads is rounded first, as PyTorch rounds it. The compiler may leave
        // such roundings out otherwise.
        options: &[("xla_allow_excess_precision", false)],
        least_call_work: 1 << 14,
        calls_kernels: false,
        calls_collectives: false,
        multiplies_in_passes: true,
        has_int64: false,
        has_f64: false,
        sums_in_stages: false,
        splits_windows: false,
        spells_functions: false,
        spells_atan2: false,
        spells_rsqrt: false,
        fuses_divisions: true,
        fuses_sums: false,
        reverses_windows: true,
        unfolds_windows: false,
        groups_batches: true,
        selects_and_scatters: true,
        updates_slices: true,
        generates_bits: true,
        lowers_attention: true,
        lowers_batch_norm: true,
        runs_on_host: false,
        shares_memory: false,
        interprets: false,
        pools: false,
        compiles_whole_steps: true,
        records_lines: true,
        hints_at_precision: false,
    };

    /// TPUs, also those of a plan.
    pub const TPU: Profile = Profile { name: "TPU", hints_at_precision: true, ..Profile::UNKNOWN };

    /// GPUs of all makers. A maker with quirks gets a constant of its own.
    pub const GPU: Profile = Profile { name: "GPU", ..Profile::UNKNOWN };

    /// XLA:CPU, whose programs work in the memory of the host.
    pub const XLA_CPU: Profile = Profile {
        name: "XLA:CPU",
        // Fast min and max lose NaN.
        options: &[("xla_cpu_enable_fast_min_max", false)],
        least_call_work: 1 << 14,
        calls_kernels: true,
        calls_collectives: true,
        multiplies_in_passes: false,
        has_int64: true,
        has_f64: true,
        sums_in_stages: true,
        splits_windows: true,
        spells_functions: true,
        spells_atan2: true,
        spells_rsqrt: true,
        fuses_divisions: false,
        fuses_sums: true,
        reverses_windows: false,
        unfolds_windows: true,
        groups_batches: false,
        selects_and_scatters: false,
        updates_slices: false,
        generates_bits: false,
        lowers_attention: false,
        lowers_batch_norm: false,
        runs_on_host: true,
        shares_memory: true,
        interprets: true,
        pools: true,
        compiles_whole_steps: false,
        records_lines: false,
        hints_at_precision: false,
    };

    /// XLA:CPU with the lowerings and the cuts of accelerators, to test them without one.
    pub const REHEARSAL: Profile = Profile {
        name: "XLA:CPU",
        options: &[("xla_cpu_enable_fast_min_max", false), ("xla_allow_excess_precision", false)],
        runs_on_host: true,
        ..Profile::UNKNOWN
    };

    /// The profiles of platforms, by the names that PJRT plugins give them.
    pub const PLATFORMS: &'static [(&'static str, Profile)] = &[
        ("cpu", Profile::XLA_CPU),
        ("tpu", Profile::TPU),
        ("cuda", Profile::GPU),
        ("rocm", Profile::GPU),
        ("sycl", Profile::GPU),
    ];

    /// Return whether a program should call a kernel for so much work.
    pub fn calls_kernel_for(&self, work: usize) -> bool {
        self.calls_kernels && work >= self.least_call_work
    }

    /// Return the profile of the platform that a plugin names `name`.
    pub fn of(name: &str) -> Profile {
        let known = Profile::PLATFORMS.iter().find(|(platform, _)| platform.eq_ignore_ascii_case(name));
        known.map_or(Profile::UNKNOWN, |(_, profile)| *profile)
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::UNKNOWN
    }
}
