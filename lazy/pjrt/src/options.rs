//! Options: named values for clients and topologies, and a protocol buffer for compilation.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::{fmt, slice};

use prost::Message;

use crate::error::{Error, Result};
use crate::ffi::{NamedValue, NamedValueUnion};

/// The value of a client option, of a compile option override, or of an attribute that a plugin reports.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// Text.
    String(String),
    /// A 64-bit integer.
    Int64(i64),
    /// A list of 64-bit integers, such as coordinates.
    Int64List(Vec<i64>),
    /// A floating-point number.
    Float(f32),
    /// A truth value.
    Bool(bool),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::String(value) => f.write_str(value),
            OptionValue::Int64(value) => write!(f, "{value}"),
            OptionValue::Int64List(value) => write!(f, "{value:?}"),
            OptionValue::Float(value) => write!(f, "{value}"),
            OptionValue::Bool(value) => write!(f, "{value}"),
        }
    }
}

impl From<&str> for OptionValue {
    fn from(value: &str) -> Self {
        OptionValue::String(value.to_string())
    }
}

impl From<i64> for OptionValue {
    fn from(value: i64) -> Self {
        OptionValue::Int64(value)
    }
}

impl From<bool> for OptionValue {
    fn from(value: bool) -> Self {
        OptionValue::Bool(value)
    }
}

/// Attributes of a plugin, a device or a topology, by name.
pub type Attributes = BTreeMap<String, OptionValue>;

/// Convert options to their C form, which borrows from them and must not outlive them.
pub(crate) fn to_named_values(options: &[(&str, OptionValue)]) -> Vec<NamedValue> {
    let named_value = |(name, value): &(&str, OptionValue)| {
        let (kind, union, size) = match value {
            OptionValue::String(s) => (0, NamedValueUnion { string: s.as_ptr().cast::<c_char>() }, s.len()),
            OptionValue::Int64(i) => (1, NamedValueUnion { int64: *i }, 1),
            OptionValue::Int64List(list) => (2, NamedValueUnion { int64_list: list.as_ptr() }, list.len()),
            OptionValue::Float(x) => (3, NamedValueUnion { float: *x }, 1),
            OptionValue::Bool(b) => (4, NamedValueUnion { boolean: *b }, 1),
        };
        let mut named = NamedValue::new();
        named.name = name.as_ptr().cast();
        named.name_size = name.len();
        named.kind = kind;
        named.value = union;
        named.value_size = size;
        named
    };
    options.iter().map(named_value).collect()
}

/// Read a plugin's list of named values. Unknown kinds are skipped.
///
/// # Safety
///
/// `values` must be null or point to `count` named values, each with a name and a value of its kind.
pub(crate) unsafe fn from_named_values(values: *const NamedValue, count: usize) -> Attributes {
    let mut attributes = Attributes::new();
    if values.is_null() {
        return attributes;
    }
    for i in 0..count {
        // SAFETY: the caller passes `count` values. The step is their stated size, so that values of a plugin with a
        // longer struct are read too.
        let named = unsafe {
            let stride = (*values).struct_size.next_multiple_of(align_of::<NamedValue>()).max(size_of::<NamedValue>());
            &*values.cast::<u8>().add(i * stride).cast::<NamedValue>()
        };
        // SAFETY: the caller passes values whose union holds a value of `kind` with `value_size` elements.
        let value = unsafe {
            match named.kind {
                0 => OptionValue::String(text(named.value.string, named.value_size)),
                1 => OptionValue::Int64(named.value.int64),
                2 if named.value_size == 0 => OptionValue::Int64List(Vec::new()),
                2 => OptionValue::Int64List(slice::from_raw_parts(named.value.int64_list, named.value_size).to_vec()),
                3 => OptionValue::Float(named.value.float),
                4 => OptionValue::Bool(named.value.boolean),
                _ => continue,
            }
        };
        // SAFETY: the caller passes values with valid names.
        attributes.insert(unsafe { text(named.name, named.name_size) }, value);
    }
    attributes
}

/// Convert a plugin's string to a Rust string.
///
/// # Safety
///
/// `start` must be null or point to `size` readable bytes.
pub(crate) unsafe fn text(start: *const c_char, size: usize) -> String {
    if start.is_null() || size == 0 {
        return String::new();
    }
    // SAFETY: the caller passes `size` readable bytes.
    String::from_utf8_lossy(unsafe { slice::from_raw_parts(start.cast::<u8>(), size) }).into_owned()
}

/// Options of a compilation.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Number of copies of the program that run in parallel, each on its own data.
    pub num_replicas: i64,
    /// Number of devices that each copy is partitioned over.
    pub num_partitions: i64,
    /// Whether XLA partitions the program by its sharding annotations. Required if `num_partitions` is above 1.
    pub use_spmd_partitioning: bool,
    /// Whether the annotations are Shardy's (`sdy.mesh`, `sdy.sharding`).
    pub use_shardy_partitioner: bool,
    /// Ids of the devices to run on, `[partition][replica]`. `None` means the client's default assignment.
    pub device_assignment: Option<Vec<Vec<i64>>>,
    /// XLA flags for this compilation only, such as `xla_cpu_enable_fast_min_max`. An unknown name fails the
    /// compilation.
    pub env_overrides: Vec<(String, OptionValue)>,
}

impl Default for CompileOptions {
    /// Return one replica, one partition, and no overrides.
    fn default() -> Self {
        CompileOptions {
            num_replicas: 1,
            num_partitions: 1,
            use_spmd_partitioning: false,
            use_shardy_partitioner: false,
            device_assignment: None,
            env_overrides: Vec::new(),
        }
    }
}

impl CompileOptions {
    /// Return the serialised `CompileOptionsProto`. Equal options give equal bytes, so the bytes may be part of a cache
    /// key.
    ///
    /// # Errors
    ///
    /// Fails with `InvalidArgument` for counts below 1, a device assignment of another shape, or a list as an override.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        const OP: &str = "compile options";
        if self.num_replicas < 1 || self.num_partitions < 1 {
            let counts = format!("num_replicas = {}, num_partitions = {}", self.num_replicas, self.num_partitions);
            return Err(Error::invalid(OP, format!("{counts}: both must be at least 1")));
        }
        let mut env_option_overrides = BTreeMap::new();
        for (name, value) in &self.env_overrides {
            let value = match value {
                OptionValue::String(value) => proto::OverrideValue::String(value.clone()),
                OptionValue::Bool(value) => proto::OverrideValue::Bool(*value),
                OptionValue::Int64(value) => proto::OverrideValue::Int64(*value),
                OptionValue::Float(value) => proto::OverrideValue::Double(f64::from(*value)),
                OptionValue::Int64List(_) => {
                    return Err(Error::invalid(OP, format!("{name}: an override cannot be a list")));
                }
            };
            env_option_overrides.insert(name.clone(), proto::OptionOverride { value: Some(value) });
        }
        let device_assignment = match &self.device_assignment {
            None => None,
            Some(ids) => {
                let (partitions, replicas) = (self.num_partitions as usize, self.num_replicas as usize);
                if ids.len() != partitions || ids.iter().any(|row| row.len() != replicas) {
                    let message = format!(
                        "device_assignment {ids:?}: must have {partitions} partitions of {replicas} replicas each"
                    );
                    return Err(Error::invalid(OP, message));
                }
                let row = |ids: &Vec<i64>| proto::ComputationDevice { replica_device_ids: ids.clone() };
                Some(proto::DeviceAssignment {
                    replica_count: replicas as i32,
                    computation_count: partitions as i32,
                    computation_devices: ids.iter().map(row).collect(),
                })
            }
        };
        let executable_build_options = proto::ExecutableBuildOptions {
            // -1 means any device of the assignment. 0 would contradict an assignment to another device.
            device_ordinal: if device_assignment.is_some() { -1 } else { 0 },
            num_replicas: self.num_replicas,
            num_partitions: self.num_partitions,
            use_spmd_partitioning: self.use_spmd_partitioning,
            device_assignment,
            use_shardy_partitioner: self.use_shardy_partitioner,
        };
        let options =
            proto::CompileOptions { executable_build_options: Some(executable_build_options), env_option_overrides };
        Ok(options.encode_to_vec())
    }
}

/// The used fields of XLA's messages. Readers skip unknown fields, so the others need no declaration.
pub(crate) mod proto {
    use std::collections::BTreeMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct CompileOptions {
        #[prost(message, optional, tag = "3")]
        pub executable_build_options: Option<ExecutableBuildOptions>,
        #[prost(btree_map = "string, message", tag = "7")]
        pub env_option_overrides: BTreeMap<String, OptionOverride>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ExecutableBuildOptions {
        #[prost(int64, tag = "1")]
        pub device_ordinal: i64,
        #[prost(int64, tag = "4")]
        pub num_replicas: i64,
        #[prost(int64, tag = "5")]
        pub num_partitions: i64,
        #[prost(bool, tag = "6")]
        pub use_spmd_partitioning: bool,
        #[prost(message, optional, tag = "9")]
        pub device_assignment: Option<DeviceAssignment>,
        #[prost(bool, tag = "19")]
        pub use_shardy_partitioner: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct DeviceAssignment {
        #[prost(int32, tag = "1")]
        pub replica_count: i32,
        #[prost(int32, tag = "2")]
        pub computation_count: i32,
        #[prost(message, repeated, tag = "3")]
        pub computation_devices: Vec<ComputationDevice>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ComputationDevice {
        #[prost(int64, repeated, tag = "1")]
        pub replica_device_ids: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct OptionOverride {
        #[prost(oneof = "OverrideValue", tags = "1, 2, 3, 4")]
        pub value: Option<OverrideValue>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum OverrideValue {
        #[prost(string, tag = "1")]
        String(String),
        #[prost(bool, tag = "2")]
        Bool(bool),
        #[prost(int64, tag = "3")]
        Int64(i64),
        #[prost(double, tag = "4")]
        Double(f64),
    }

    /// `HloModuleProtoWithConfig`: the result of `PJRT_Executable_OptimizedProgram` in the format `hlo_with_config`.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct HloModuleWithConfig {
        #[prost(message, optional, tag = "1")]
        pub hlo_module: Option<HloModule>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct HloModule {
        #[prost(message, optional, tag = "4")]
        pub host_program_shape: Option<ProgramShape>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ProgramShape {
        #[prost(message, repeated, tag = "1")]
        pub parameters: Vec<Shape>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Shape {
        #[prost(int32, tag = "2")]
        pub element_type: i32,
        #[prost(int64, repeated, tag = "3")]
        pub dimensions: Vec<i64>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_options_are_six_bytes() {
        assert_eq!(CompileOptions::default().to_bytes().unwrap(), [0x1a, 4, 0x20, 1, 0x28, 1]);
    }

    #[test]
    fn an_override_is_a_map_entry() {
        let mut options = CompileOptions::default();
        options.env_overrides.push(("xla_cpu_enable_fast_min_max".into(), false.into()));
        let bytes = options.to_bytes().unwrap();
        let mut expected = vec![0x1a, 4, 0x20, 1, 0x28, 1, 0x3a, 0x21, 0x0a, 0x1b];
        expected.extend_from_slice(b"xla_cpu_enable_fast_min_max");
        expected.extend_from_slice(&[0x12, 2, 0x10, 0]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn the_order_of_overrides_does_not_matter() {
        let (a, b) = (("a".to_string(), OptionValue::Int64(1)), ("b".to_string(), OptionValue::Float(0.5)));
        let first = CompileOptions { env_overrides: vec![a.clone(), b.clone()], ..Default::default() };
        let second = CompileOptions { env_overrides: vec![b, a], ..Default::default() };
        assert_eq!(first.to_bytes().unwrap(), second.to_bytes().unwrap());
    }

    #[test]
    fn wrong_options_are_refused() {
        let none = CompileOptions { num_replicas: 0, ..Default::default() };
        assert!(none.to_bytes().unwrap_err().message().contains("at least 1"));
        let list =
            CompileOptions { env_overrides: vec![("x".into(), OptionValue::Int64List(vec![1]))], ..Default::default() };
        assert!(list.to_bytes().unwrap_err().message().contains("x: an override cannot be a list"));
        let assignment = CompileOptions { device_assignment: Some(vec![vec![0, 1]]), ..Default::default() };
        assert!(assignment.to_bytes().unwrap_err().message().contains("1 partitions of 1 replicas"));
    }

    #[test]
    fn named_values_survive_a_round_trip() {
        let options = [
            ("s", OptionValue::from("text")),
            ("i", OptionValue::Int64(-3)),
            ("l", OptionValue::Int64List(vec![1, 2, 3])),
            ("f", OptionValue::Float(0.25)),
            ("b", OptionValue::Bool(true)),
        ];
        let named = to_named_values(&options);
        // SAFETY: the list was just made from options that are alive.
        let back = unsafe { from_named_values(named.as_ptr(), named.len()) };
        assert_eq!(back.len(), 5);
        for (name, value) in options {
            assert_eq!(back[name], value);
        }
    }
}
