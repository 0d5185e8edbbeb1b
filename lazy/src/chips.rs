//! Performance of TPU devices: published numbers, for one device as PJRT counts them.
//!
//! A device is a chip, except for v4 and TPU7x, whose chips are two devices each. The matrix units of a generation
//! multiply a known number of 16-bit floats a cycle, so the clock follows from the published peak.

/// A kind of device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Chip {
    /// The start of its topologies, such as `v5e`.
    name: &'static str,
    /// Cycles a second.
    pub(crate) clock: f64,
    /// `bfloat16` operations per second.
    pub(crate) flops: f64,
    /// Bytes per second from device memory.
    pub(crate) bandwidth: f64,
    /// Bytes of device memory.
    pub(crate) memory_bytes: u64,
    /// Bytes per second to one neighbour. The two devices of a chip share its links, so each has one half.
    pub(crate) link: f64,
}

/// Hundredths of a GiB. `memory_bytes` is the memory that libtpu 0.0.52 leaves to programs, from its error for a
/// program that does not fit.
const CENTI_GIB: u64 = (1 << 30) / 100;

/// Sources: the system architecture pages of Google Cloud TPU.
const CHIPS: [Chip; 5] = [
    Chip {
        name: "v4",
        clock: 1.05e9,
        flops: 137.5e12,
        bandwidth: 0.614e12,
        memory_bytes: 1525 * CENTI_GIB,
        link: 25e9,
    },
    Chip {
        name: "v5e",
        clock: 1.503e9,
        flops: 197e12,
        bandwidth: 0.819e12,
        memory_bytes: 1575 * CENTI_GIB,
        link: 50e9,
    },
    Chip {
        name: "v5p",
        clock: 1.751e9,
        flops: 459e12,
        bandwidth: 2.765e12,
        memory_bytes: 9573 * CENTI_GIB,
        link: 100e9,
    },
    Chip {
        name: "v6e",
        clock: 1.751e9,
        flops: 918e12,
        bandwidth: 1.64e12,
        memory_bytes: 3124 * CENTI_GIB,
        link: 100e9,
    },
    Chip {
        name: "TPU7x",
        clock: 2.2e9,
        flops: 1153.5e12,
        bandwidth: 3.69e12,
        memory_bytes: 9474 * CENTI_GIB,
        link: 50e9,
    },
];

/// The chip of a topology such as `v5e:2x2`.
pub(crate) fn of_topology(topology: &str) -> Option<Chip> {
    let name = topology.split(':').next().unwrap_or_default();
    CHIPS.into_iter().find(|c| c.name.eq_ignore_ascii_case(name))
}

/// The names that [`of_topology`] knows.
pub(crate) fn names() -> String {
    CHIPS.map(|c| c.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_found_by_their_prefix() {
        assert_eq!(of_topology("v5e:2x2").map(|c| c.memory_bytes), Some(1575 * CENTI_GIB));
        assert_eq!(of_topology("TPU7x:2x2x1").map(|c| c.name), Some("TPU7x"));
        assert_eq!(of_topology("v5:2x2"), None);
    }
}
