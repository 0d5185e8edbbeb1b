//! A compiled program: its properties that need no execution, and its serialised form.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::estimate::Estimate;
use crate::ffi::{
    CompiledMemoryStatsArgs, CountedAttributesArgs, Handle, OptimizedProgramArgs, OutputDimensionsArgs,
    OutputElementTypesArgs, Program, SerializeArgs, SizeArgs,
};
use crate::options::{CompileOptions, OptionValue, from_named_values};
use crate::plugin::{Plugin, call};
use crate::signature;
use crate::tensor_type::{ElementType, TensorType};

/// A compiled program: the common part of [`Executable`](crate::Executable) and
/// [`AotExecutable`](crate::AotExecutable).
pub struct Compiled {
    raw: Handle,
    plugin: Arc<Plugin>,
    platform_name: String,
    num_outputs: usize,
    parameters: Option<Vec<TensorType>>,
    pub(crate) is_deserialized: bool,
}

// SAFETY: the C API lets any thread use an executable, and the rest is plain data.
unsafe impl Send for Compiled {}
// SAFETY: the C API lets several threads use an executable at once, and the rest is plain data that does not change.
unsafe impl Sync for Compiled {}

/// Return the parameter types from the program's text, before it is compiled. Return `None` if XLA partitions the
/// program: it then partitions the parameters too, and the text does not give their types.
pub(crate) fn parameters_for(text: &str, options: &CompileOptions) -> Result<Option<Vec<TensorType>>> {
    let parameters = signature::parameters_of_text(text)?;
    Ok(if options.num_partitions == 1 { parameters } else { None })
}

impl Compiled {
    /// # Safety
    ///
    /// `raw` must be a (not loaded) executable of the plugin. The result owns it.
    pub(crate) unsafe fn from_raw(
        raw: Handle,
        plugin: Arc<Plugin>,
        platform_name: String,
        parameters: Option<Vec<TensorType>>,
    ) -> Result<Compiled> {
        let mut compiled = Compiled { raw, plugin, platform_name, num_outputs: 0, parameters, is_deserialized: false };
        let mut args = SizeArgs::new();
        args.handle = raw;
        // SAFETY: the executable is alive.
        unsafe { call!(&compiled.plugin, PJRT_Executable_NumOutputs, &mut args)? };
        compiled.num_outputs = args.value;
        if compiled.parameters.is_none() {
            compiled.parameters = compiled.parameters_of_optimized_program();
        }
        Ok(compiled)
    }

    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }

    pub(crate) fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Return the types of the arguments for one device, if they are known. They are always known for an
    /// [`Executable`](crate::Executable).
    pub fn parameter_types(&self) -> Option<&[TensorType]> {
        self.parameters.as_deref()
    }

    /// Return the name of the module.
    pub fn name(&self) -> Result<String> {
        // SAFETY: the executable is alive.
        unsafe { self.plugin.text_of("PJRT_Executable_Name", self.plugin.api.PJRT_Executable_Name, self.raw) }
    }

    /// Return the number of buffers that one execution gives per device.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// Return the types of the outputs. Bounded dimensions have the sizes of their bounds.
    pub fn output_types(&self) -> Result<Vec<TensorType>> {
        let mut types = OutputElementTypesArgs::new();
        types.executable = self.raw;
        let mut dims = OutputDimensionsArgs::new();
        dims.executable = self.raw;
        // Older plugins check the expected count. Newer plugins fill it in.
        dims.num_outputs = self.num_outputs;
        // SAFETY: the executable is alive.
        unsafe {
            call!(&self.plugin, PJRT_Executable_OutputElementTypes, &mut types)?;
            call!(&self.plugin, PJRT_Executable_OutputDimensions, &mut dims)?;
        }
        if types.count != dims.num_outputs {
            let message = format!("{} element types for {} outputs", types.count, dims.num_outputs);
            return Err(Error::new(Code::Internal, "output_types", message));
        }
        let mut start = 0;
        (0..types.count)
            .map(|i| {
                // SAFETY: both lists have one entry per output, and `dims` has the sizes of all outputs one after the
                // other.
                let (code, dims) = unsafe {
                    let rank = *dims.dim_sizes.add(i);
                    let sizes = if rank == 0 { &[] } else { slice::from_raw_parts(dims.dims.add(start), rank) };
                    start += rank;
                    (*types.types.add(i), sizes)
                };
                let element_type = ElementType::from_code(code).ok_or_else(|| {
                    Error::new(Code::Unimplemented, "output_types", format!("element type {code} of the C API"))
                })?;
                Ok(TensorType::new(element_type, dims))
            })
            .collect()
    }

    /// Return a text that is equal for equal programs that are compiled in the same way.
    pub fn fingerprint(&self) -> Result<String> {
        let api = &self.plugin.api;
        // SAFETY: the executable is alive.
        unsafe { self.plugin.text_of("PJRT_Executable_Fingerprint", api.PJRT_Executable_Fingerprint, self.raw) }
    }

    /// Return the size of the machine code in bytes.
    pub fn code_bytes(&self) -> Result<i64> {
        let mut args = SizeArgs::new();
        args.handle = self.raw;
        // SAFETY: the executable is alive.
        unsafe { call!(&self.plugin, PJRT_Executable_SizeOfGeneratedCodeInBytes, &mut args)? };
        Ok(args.value as i64)
    }

    /// Return the memory that the executable takes per device.
    pub fn memory_stats(&self) -> Result<CompiledMemoryStats> {
        let mut args = CompiledMemoryStatsArgs::new();
        args.executable = self.raw;
        // SAFETY: the executable is alive.
        unsafe { call!(&self.plugin, PJRT_Executable_GetCompiledMemoryStats, &mut args)? };
        Ok(CompiledMemoryStats {
            generated_code_bytes: args.generated_code,
            argument_bytes: args.argument,
            output_bytes: args.output,
            alias_bytes: args.alias,
            temp_bytes: args.temp,
            host_generated_code_bytes: args.host_generated_code,
            host_argument_bytes: args.host_argument,
            host_output_bytes: args.host_output,
            host_alias_bytes: args.host_alias,
            host_temp_bytes: args.host_temp,
            peak_bytes: args.peak,
        })
    }

    /// Return the compiler's estimates: `flops`, `bytes accessed`, `optimal_seconds` and others, as far as the plugin
    /// has a model of its device. Fails with `Unimplemented` if it has none.
    pub fn cost_analysis(&self) -> Result<BTreeMap<String, f64>> {
        let mut args = CountedAttributesArgs::new();
        args.handle = self.raw;
        // SAFETY: the executable is alive, and the properties live as long as it does.
        let properties = unsafe {
            call!(&self.plugin, PJRT_Executable_GetCostAnalysis, &mut args)?;
            from_named_values(args.attributes, args.count)
        };
        let number = |value| match value {
            OptionValue::Float(value) => Some(f64::from(value)),
            OptionValue::Int64(value) => Some(value as f64),
            _ => None,
        };
        Ok(properties.into_iter().filter_map(|(name, value)| Some((name, number(value)?))).collect())
    }

    /// Serialise the executable for [`Client::deserialize`](crate::Client::deserialize): the plugin's own form, and a
    /// header with its platform, a checksum and the parameter types.
    ///
    /// # Errors
    ///
    /// Fails with `FailedPrecondition` for an executable that was itself deserialised: XLA:CPU keeps no object code of
    /// it, and would write bytes without its functions. Otherwise fails with the plugin's error.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        if self.is_deserialized {
            let message = "the executable was made of serialized bytes: keep those".to_string();
            return Err(Error::new(Code::FailedPrecondition, "serialize", message));
        }
        let abi_version = self.abi_version()?.unwrap_or_default();
        let mut args = SerializeArgs::new();
        args.executable = self.raw;
        // SAFETY: the executable is alive. The bytes live until the deleter is called with their owner.
        unsafe {
            call!(&self.plugin, PJRT_Executable_Serialize, &mut args)?;
            let payload = if args.size == 0 { &[] } else { slice::from_raw_parts(args.bytes.cast::<u8>(), args.size) };
            let version = self.plugin.api_version();
            let sealed = envelope::seal(payload, &self.platform_name, version, &abi_version, self.parameter_types());
            if let Some(deleter) = args.deleter {
                deleter(args.backing);
            }
            Ok(sealed)
        }
    }

    /// Whether [`Client::deserialize`](crate::Client::deserialize) made the executable.
    pub fn is_deserialized(&self) -> bool {
        self.is_deserialized
    }

    /// Return the optimised program, in XLA's own form `hlo_with_config`.
    ///
    /// # Errors
    ///
    /// Fails with the plugin's error, or with `Unimplemented` if the plugin gives another form.
    pub fn optimized_hlo(&self) -> Result<Vec<u8>> {
        let mut program = Program::new();
        let mut args = OptimizedProgramArgs::new();
        args.executable = self.raw;
        args.program = &raw mut program;
        // SAFETY: executable and program are alive. The first call returns the size and the format. The second call
        // fills the number of bytes that the program struct states.
        unsafe {
            call!(&self.plugin, PJRT_Executable_OptimizedProgram, &mut args)?;
            let mut code = vec![0u8; program.code_size];
            program.code = code.as_mut_ptr().cast();
            call!(&self.plugin, PJRT_Executable_OptimizedProgram, &mut args)?;
            let format = crate::options::text(program.format, program.format_size);
            if format == "hlo_with_config" {
                return Ok(code);
            }
            let message = format!("the plugin gives optimised programs in the format {format}");
            Err(Error::new(Code::Unimplemented, "optimized_hlo", message))
        }
    }

    /// Return the estimates in the optimised program. The compiler of libtpu writes them.
    ///
    /// # Errors
    ///
    /// Fails like [`Compiled::optimized_hlo`], and with `DataLoss` if the program cannot be read.
    pub fn estimate(&self) -> Result<Estimate> {
        Estimate::of_hlo(&self.optimized_hlo()?)
    }

    /// Return the optimised program as text to read: one line per instruction, with its type, its operands and its
    /// cycles.
    ///
    /// # Errors
    ///
    /// Fails like [`Compiled::estimate`].
    pub fn optimized_text(&self) -> Result<String> {
        crate::estimate::text_of_hlo(&self.optimized_hlo()?)
    }

    fn parameters_of_optimized_program(&self) -> Option<Vec<TensorType>> {
        signature::parameters_of_hlo(&self.optimized_hlo().ok()?)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        // SAFETY: this value owns the executable and is being dropped.
        unsafe { self.plugin.destroy("PJRT_Executable_Destroy", self.plugin.api.PJRT_Executable_Destroy, self.raw) }
    }
}

/// Memory of an executable per device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledMemoryStats {
    /// Bytes of machine code.
    pub generated_code_bytes: i64,
    /// Bytes of arguments.
    pub argument_bytes: i64,
    /// Bytes of results.
    pub output_bytes: i64,
    /// Bytes of results that use the memory of donated arguments.
    pub alias_bytes: i64,
    /// Bytes of intermediate values.
    pub temp_bytes: i64,
    /// Bytes of machine code on the host.
    pub host_generated_code_bytes: i64,
    /// Bytes of arguments on the host.
    pub host_argument_bytes: i64,
    /// Bytes of results on the host.
    pub host_output_bytes: i64,
    /// Bytes of results on the host that use the memory of donated arguments.
    pub host_alias_bytes: i64,
    /// Bytes of intermediate values on the host.
    pub host_temp_bytes: i64,
    /// Largest number of bytes in use at any time, if the plugin reports it.
    pub peak_bytes: i64,
}

/// The serialised form: magic bytes, checksum, message.
pub(crate) mod envelope {
    use prost::Message;

    use super::*;

    const MAGIC: &[u8; 8] = b"ttpjrt\0\x01";
    const HEADER: usize = MAGIC.len() + size_of::<u64>();
    const OP: &str = "deserialize";

    #[derive(Clone, PartialEq, Message)]
    struct Contents {
        #[prost(string, tag = "1")]
        platform_name: String,
        #[prost(int32, tag = "2")]
        api_major: i32,
        #[prost(int32, tag = "3")]
        api_minor: i32,
        #[prost(message, optional, tag = "4")]
        parameters: Option<Parameters>,
        #[prost(bytes = "vec", tag = "5")]
        payload: Vec<u8>,
        #[prost(bytes = "vec", tag = "6")]
        abi_version: Vec<u8>,
    }

    /// The contents of an envelope.
    pub(crate) struct Opened {
        pub payload: Vec<u8>,
        pub parameters: Option<Vec<TensorType>>,
        /// Bytes of the ABI version. Empty if the plugin has no versions.
        pub abi_version: Vec<u8>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Parameters {
        #[prost(message, repeated, tag = "1")]
        types: Vec<Type>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Type {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(int64, repeated, tag = "2")]
        dims: Vec<i64>,
    }

    pub(crate) fn seal(
        payload: &[u8],
        platform_name: &str,
        (api_major, api_minor): (i32, i32),
        abi_version: &[u8],
        parameters: Option<&[TensorType]>,
    ) -> Vec<u8> {
        let type_of = |t: &TensorType| Type { code: t.element_type.code(), dims: t.dims.to_vec() };
        let contents = Contents {
            platform_name: platform_name.to_string(),
            api_major,
            api_minor,
            parameters: parameters.map(|types| Parameters { types: types.iter().map(type_of).collect() }),
            payload: payload.to_vec(),
            abi_version: abi_version.to_vec(),
        };
        let mut bytes = Vec::with_capacity(HEADER + contents.encoded_len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        contents.encode(&mut bytes).expect("a vector grows");
        let checksum = checksum(&bytes[HEADER..]);
        bytes[MAGIC.len()..HEADER].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn open(bytes: &[u8], platform_name: &str, (api_major, api_minor): (i32, i32)) -> Result<Opened> {
        let damaged = |what: &str| Error::new(Code::DataLoss, OP, format!("the serialised executable is {what}"));
        let Some((header, body)) = bytes.split_at_checked(HEADER) else {
            return Err(damaged(&format!("too short ({} bytes)", bytes.len())));
        };
        let (magic, sum) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(damaged("of another kind: its first bytes are wrong"));
        }
        if sum != checksum(body).to_le_bytes() {
            return Err(damaged("damaged: its checksum is wrong"));
        }
        let contents = Contents::decode(body).map_err(|error| damaged(&format!("damaged: {error}")))?;
        if contents.platform_name != platform_name || (contents.api_major, contents.api_minor) != (api_major, api_minor)
        {
            let message = format!(
                "the serialised executable is for {} (API {}.{}), but this is {platform_name} (API \
                {api_major}.{api_minor})",
                contents.platform_name, contents.api_major, contents.api_minor
            );
            return Err(Error::new(Code::FailedPrecondition, OP, message));
        }
        let parameters = contents.parameters.map(|parameters| {
            let type_of = |t: &Type| Some(TensorType::new(ElementType::from_code(t.code)?, &t.dims));
            parameters.types.iter().map(type_of).collect::<Option<Vec<_>>>()
        });
        let parameters = match parameters {
            Some(None) => return Err(damaged("of a later version: it names an unknown element type")),
            Some(parameters) => parameters,
            None => None,
        };
        Ok(Opened { payload: contents.payload, parameters, abi_version: contents.abi_version })
    }

    /// Compute a checksum. Every step is a bijection of the state, so that changing any one word changes the result. It
    /// detects accidental damage, not attacks.
    fn checksum(bytes: &[u8]) -> u64 {
        let step = |state: u64, word: u64| (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mut words = bytes.chunks_exact(8);
        let state = words.by_ref().fold(bytes.len() as u64, |state, word| {
            step(state, u64::from_le_bytes(word.try_into().expect("chunks of eight")))
        });
        words.remainder().iter().fold(state, |state, &byte| step(state, u64::from(byte)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn sealed_envelopes_open_and_any_damage_is_found() {
            let types = [TensorType::new(ElementType::BF16, &[2, 3]), TensorType::new(ElementType::PRED, &[])];
            let sealed = seal(b"a payload of some length", "cpu", (0, 81), b"v2", Some(&types));
            let opened = open(&sealed, "cpu", (0, 81)).unwrap();
            assert_eq!(opened.payload, b"a payload of some length");
            assert_eq!(opened.parameters.unwrap(), types);
            assert_eq!(opened.abi_version, b"v2");
            for i in 0..sealed.len() {
                let mut damaged = sealed.clone();
                damaged[i] ^= 0x10;
                assert_eq!(open(&damaged, "cpu", (0, 81)).err().unwrap().code(), Code::DataLoss, "byte {i}");
                assert_eq!(open(&sealed[..i], "cpu", (0, 81)).err().unwrap().code(), Code::DataLoss, "cut at {i}");
            }
        }

        #[test]
        fn foreign_bytes_are_refused() {
            let sealed = seal(b"x", "cpu", (0, 81), b"", None);
            assert!(open(&sealed, "cpu", (0, 81)).unwrap().parameters.is_none());
            for (platform, version) in [("tpu", (0, 81)), ("cpu", (0, 82))] {
                let error = open(&sealed, platform, version).err().unwrap();
                assert_eq!(error.code(), Code::FailedPrecondition);
                assert!(error.message().contains("cpu (API 0.81)"), "{error}");
            }
        }

        #[test]
        fn an_empty_parameter_list_differs_from_an_unknown_one() {
            let sealed = seal(b"x", "cpu", (0, 81), b"", Some(&[]));
            assert_eq!(open(&sealed, "cpu", (0, 81)).unwrap().parameters, Some(Vec::new()));
        }
    }
}
