//! Tests of programs compiled and run on XLA:CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use torchtpu_pjrt::{
    AlignedBytes, Buffer, Client, Code, CompileOptions, ElementType, Error, Executable, HostView, OptionValue, Plugin,
};

static CLIENT: LazyLock<Arc<Client>> =
    LazyLock::new(|| Client::create(&Plugin::find(Some("cpu")).unwrap(), &[]).unwrap());

const ADD: &str = "func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %a, %b : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
}";

fn compile(text: &str) -> Executable {
    CLIENT.compile(text, &CompileOptions::default()).unwrap()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

fn floats(buffer: &Buffer) -> Vec<f32> {
    let bytes = buffer.to_vec().unwrap();
    bytes.chunks_exact(4).map(|chunk| f32::from_ne_bytes(chunk.try_into().unwrap())).collect()
}

fn f32s(values: &[f32], dims: &[i64]) -> Buffer {
    CLIENT.buffer_from_host(&bytes(values), ElementType::F32, dims).unwrap()
}

fn error_of<T>(result: Result<T, Error>) -> Error {
    result.err().expect("an error")
}

#[test]
fn a_program_adds_two_buffers() {
    let executable = compile(ADD);
    let (a, b) = (f32s(&[1., 2., 3., 4., 5., 6.], &[2, 3]), f32s(&[10., 20., 30., 40., 50., 60.], &[2, 3]));
    let outputs = executable.execute(&[&a, &b], &[]).unwrap();
    assert_eq!(outputs.len(), 1);
    let sum = &outputs[0];
    assert_eq!(floats(sum), [11., 22., 33., 44., 55., 66.]);
    assert_eq!(sum.element_type().unwrap(), ElementType::F32);
    assert_eq!(sum.dimensions().unwrap(), [2, 3]);
    assert_eq!(sum.logical_dimensions().unwrap(), [2, 3]);
    assert_eq!(sum.host_bytes().unwrap(), 24);
    assert!(sum.on_device_bytes().unwrap() >= 24);
    sum.await_ready().unwrap();
    assert!(sum.is_ready().unwrap());
    assert_eq!(sum.device().unwrap().id(), 0);
    assert_eq!(format!("{sum:?}"), "Buffer(tensor<2x3xf32>)");
}

#[test]
fn an_executable_describes_itself() {
    let executable = compile(ADD);
    assert_eq!(executable.num_outputs(), 1);
    assert_eq!(executable.num_devices(), 1);
    let shown = |types: &[torchtpu_pjrt::TensorType]| types.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(executable.parameters()), ["tensor<2x3xf32>", "tensor<2x3xf32>"]);
    assert_eq!(shown(&executable.output_types().unwrap()), ["tensor<2x3xf32>"]);
    let stats = executable.memory_stats().unwrap();
    assert_eq!((stats.argument_bytes, stats.output_bytes), (48, 24));
    assert!(!executable.fingerprint().unwrap().is_empty());
    assert_eq!(executable.fingerprint().unwrap(), compile(ADD).fingerprint().unwrap());
    assert!(!executable.name().unwrap().is_empty());
    // Not every XLA:CPU plugin has a cost model. One that has counts one operation per element.
    match executable.cost_analysis() {
        Ok(costs) => assert_eq!(costs["flops"], 6., "{costs:?}"),
        Err(error) => assert_eq!(error.code(), Code::Unimplemented, "{error}"),
    }
}

#[test]
fn a_program_returns_outputs_of_several_types() {
    let outputs = 40;
    let names: Vec<String> = (0..outputs).map(|i| format!("%r{i}")).collect();
    let types = vec!["tensor<2xf32>"; outputs].join(", ");
    let body: String = names
        .iter()
        .map(|name| format!("{name} = stablehlo.constant dense<{}.0> : tensor<2xf32>\n", &name[2..]))
        .collect();
    let text = format!(
        "func.func @main(%p: tensor<i1>) -> (tensor<i1>, tensor<0x2xbf16>, {types}) {{
            %e = stablehlo.constant dense<> : tensor<0x2xbf16>
            {body}
            return %p, %e, {} : tensor<i1>, tensor<0x2xbf16>, {types}
        }}",
        names.join(", ")
    );
    let executable = compile(&text);
    let p = CLIENT.buffer_from_host(&[1], ElementType::PRED, &[]).unwrap();
    let results = executable.execute(&[&p], &[]).unwrap();
    assert_eq!(results.len(), outputs + 2);
    assert_eq!(results[0].to_vec().unwrap(), [1]);
    assert_eq!(results[0].dimensions().unwrap(), [0i64; 0]);
    assert_eq!(results[1].to_vec().unwrap(), [0u8; 0]);
    for (i, result) in results[2..].iter().enumerate() {
        assert_eq!(floats(result), [i as f32; 2]);
    }
    let types = executable.output_types().unwrap();
    assert_eq!(types[1].to_string(), "tensor<0x2xbf16>");
    assert_eq!(types[outputs + 1].to_string(), "tensor<2xf32>");
}

#[test]
fn a_program_without_outputs_runs() {
    let executable = compile("func.func @main(%a: tensor<f32>) { return }");
    assert_eq!(executable.num_outputs(), 0);
    assert!(executable.execute(&[&f32s(&[1.], &[])], &[]).unwrap().is_empty());
}

const DONATES: &str = "func.func @main(%a: tensor<1024xf32> {jax.buffer_donor = true}) -> tensor<1024xf32> {
    %0 = stablehlo.add %a, %a : tensor<1024xf32>
    return %0 : tensor<1024xf32>
}";

#[test]
fn donation_deletes_the_argument_unless_it_is_non_donatable() {
    let executable = compile(DONATES);
    let a = f32s(&[1.; 1024], &[1024]);
    let kept = executable.execute(&[&a], &[0]).unwrap().remove(0);
    assert!(!a.is_deleted().unwrap());
    assert_eq!(floats(&kept), [2.; 1024]);
    let address = a.device_address().unwrap();
    let result = executable.execute(&[&a], &[]).unwrap().remove(0);
    assert!(a.is_deleted().unwrap());
    assert_eq!(result.device_address().unwrap(), address);
    assert_eq!(floats(&result), [2.; 1024]);
    // Using a donated buffer is an error, not a crash. Its type is still known.
    assert!(a.to_vec().is_err());
    assert!(executable.execute(&[&a], &[]).is_err());
    assert_eq!(a.dimensions().unwrap(), [1024]);
    assert!(error_of(executable.execute(&[&result], &[1])).message().contains("argument 1 of 1"));
}

#[test]
fn one_buffer_cannot_be_donated_twice_in_one_call() {
    let text = "func.func @main(%a: tensor<64xf32> {jax.buffer_donor = true}, %b: tensor<64xf32>) -> tensor<64xf32> {
        %0 = stablehlo.add %a, %b : tensor<64xf32>
        return %0 : tensor<64xf32>
    }";
    let executable = compile(text);
    let a = f32s(&[1.; 64], &[64]);
    assert!(executable.execute(&[&a, &a], &[]).is_err());
    let a = f32s(&[1.; 64], &[64]);
    assert_eq!(floats(&executable.execute(&[&a, &a], &[0]).unwrap()[0]), [2.; 64]);
}

#[test]
fn a_result_is_computed_into_uninitialised_memory() {
    let executable = compile(
        "func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2x3xf32> {
            %0 = stablehlo.add %a, %a : tensor<2x3xf32>
            return %0 : tensor<2x3xf32>
        }",
    );
    assert!(CLIENT.makes_uninitialized_buffers());
    let a = f32s(&[1., 2., 3., 4., 5., 6.], &[2, 3]);
    let memory = CLIENT.uninitialized_buffer(ElementType::F32, &[2, 3]).unwrap();
    assert_eq!(memory.tensor_type().unwrap().to_string(), "tensor<2x3xf32>");
    let address = memory.device_address().unwrap();
    let sum = executable.execute(&[&a, &memory], &[]).unwrap().remove(0);
    assert_eq!(floats(&sum), [2., 4., 6., 8., 10., 12.]);
    assert_eq!(sum.device_address().unwrap(), address);
    assert!(memory.is_deleted().unwrap());
}

#[test]
fn running_out_of_memory_is_an_error() {
    let huge = error_of(CLIENT.uninitialized_buffer(ElementType::F32, &[1 << 30, 1 << 20]));
    assert_eq!(huge.code(), Code::ResourceExhausted, "{huge}");
}

#[test]
fn deleted_buffers_are_errors() {
    let a = f32s(&[1.; 6], &[2, 3]);
    a.delete().unwrap();
    assert!(a.is_deleted().unwrap());
    a.delete().unwrap();
    assert!(a.to_vec().is_err());
    assert!(compile(ADD).execute(&[&a, &a], &[]).is_err());
}

#[test]
fn serialised_executables_run() {
    let bytes = compile(ADD).serialize().unwrap();
    let executable = CLIENT.deserialize(&bytes).unwrap();
    let a = f32s(&[1.; 6], &[2, 3]);
    assert_eq!(floats(&executable.execute(&[&a, &a], &[]).unwrap()[0]), [2.; 6]);
    assert_eq!(executable.parameters().len(), 2);
    assert!(error_of(executable.execute(&[&a], &[])).message().contains("takes 2 arguments"));
    // XLA:CPU would write the executable without its functions.
    assert!(executable.is_deserialized());
    assert_eq!(error_of(executable.serialize()).code(), Code::FailedPrecondition);
}

#[test]
fn damaged_executables_are_refused_and_the_client_stays_usable() {
    let bytes = compile(ADD).serialize().unwrap();
    for i in [0, 9, 30, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[i] ^= 1;
        assert_eq!(error_of(CLIENT.deserialize(&damaged)).code(), Code::DataLoss);
        assert_eq!(error_of(CLIENT.deserialize(&bytes[..i])).code(), Code::DataLoss);
    }
    assert!(CLIENT.deserialize(&bytes).is_ok());
}

#[test]
fn malformed_text_is_an_error_with_xlas_message() {
    let error =
        error_of(CLIENT.compile("func.func @main(%a: tensor<f32>) -> tensor<f32> { oops }", &Default::default()));
    assert_eq!(error.context(), "PJRT_Client_Compile");
    assert!(error.message().contains("oops") || error.message().contains("parse"), "{error}");
    for text in ["", "nonsense", "func.func @main(%a: tensor<f32>", "module {}", "\u{0}"] {
        assert!(CLIENT.compile(text, &Default::default()).is_err(), "{text:?}");
    }
    // The types do not match: the text is parsed, then refused.
    let text = ADD.replace("%b: tensor<2x3xf32>", "%b: tensor<3x2xf32>");
    assert!(CLIENT.compile(&text, &Default::default()).is_err());
    compile(ADD);
}

#[test]
fn an_unknown_option_is_an_error() {
    let options = CompileOptions {
        env_overrides: vec![("xla_no_such_option".into(), OptionValue::Bool(true))],
        ..Default::default()
    };
    let error = error_of(CLIENT.compile(ADD, &options));
    assert!(error.message().contains("xla_no_such_option"), "{error}");
}

#[test]
fn an_override_changes_the_program() {
    let text = "func.func @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.maximum %a, %b : tensor<3xf32>
        return %0 : tensor<3xf32>
    }";
    let options = CompileOptions {
        env_overrides: vec![
            ("xla_cpu_enable_fast_min_max".into(), false.into()),
            ("xla_backend_optimization_level".into(), OptionValue::Int64(1)),
        ],
        ..Default::default()
    };
    let (a, b) = (f32s(&[1., f32::NAN, 3.], &[3]), f32s(&[f32::NAN, 1., 4.], &[3]));
    let result = floats(&CLIENT.compile(text, &options).unwrap().execute(&[&a, &b], &[]).unwrap()[0]);
    assert!(result[0].is_nan() && result[1].is_nan() && result[2] == 4., "{result:?}");
}

#[test]
fn wrong_arguments_are_refused_before_xla_sees_them() {
    let executable = compile(ADD);
    let a = f32s(&[1.; 6], &[2, 3]);
    for args in [&[][..], &[&a][..], &[&a, &a, &a][..]] {
        let error = error_of(executable.execute(args, &[]));
        assert_eq!((error.code(), error.context()), (Code::InvalidArgument, "execute"));
        assert!(error.message().contains(&format!("takes 2 arguments, but {} were given", args.len())), "{error}");
    }
    let transposed = f32s(&[1.; 6], &[3, 2]);
    let error = error_of(executable.execute(&[&a, &transposed], &[]));
    assert_eq!(error.message(), "argument 1 is tensor<3x2xf32>, but the program takes tensor<2x3xf32>");
    let integers = CLIENT.buffer_from_host(&[0; 24], ElementType::S32, &[2, 3]).unwrap();
    let error = error_of(executable.execute(&[&integers, &a], &[]));
    assert_eq!(error.message(), "argument 0 is tensor<2x3xi32>, but the program takes tensor<2x3xf32>");
    let other = Client::create(CLIENT.plugin(), &[]).unwrap();
    let foreign = other.buffer_from_host(&[0; 24], ElementType::F32, &[2, 3]).unwrap();
    assert!(
        error_of(executable.execute(&[&a, &foreign], &[])).message().contains("argument 1 belongs to another client")
    );
    assert!(error_of(executable.execute_on_all(&[], &[])).message().contains("arguments for 0 devices"));
}

#[test]
fn host_data_must_fit_its_shape() {
    let error = error_of(CLIENT.buffer_from_host(&[0; 23], ElementType::F32, &[2, 3]));
    assert_eq!(error.message(), "tensor<2x3xf32> takes 24 bytes, but 23 were given");
    let error = error_of(CLIENT.buffer_from_host(&[], ElementType::F32, &[-1]));
    assert!(error.message().contains("not a valid shape"), "{error}");
    assert!(CLIENT.buffer_from_host(&[], ElementType::F32, &[i64::MAX, i64::MAX]).is_err());
    let error = error_of(f32s(&[1., 2.], &[2]).to_host(&mut [0; 7]));
    assert_eq!(error.message(), "the buffer has 8 bytes, but the destination has 7");
}

#[test]
fn every_element_type_survives_the_round_trip() {
    for &element_type in ElementType::ALL {
        let data: Vec<u8> = (0..6 * element_type.size_in_bytes()).map(|i| (i % 2) as u8).collect();
        let buffer = CLIENT.buffer_from_host(&data, element_type, &[3, 2]).unwrap();
        assert_eq!(buffer.element_type().unwrap(), element_type);
        assert_eq!(buffer.to_vec().unwrap(), data, "{element_type:?}");
    }
}

#[test]
fn empty_buffers_survive_the_round_trip() {
    for dims in [&[0][..], &[3, 0][..], &[0, 5, 2][..]] {
        let buffer = CLIENT.buffer_from_host(&[], ElementType::F64, dims).unwrap();
        assert_eq!(buffer.dimensions().unwrap(), dims);
        assert!(buffer.to_vec().unwrap().is_empty());
        let owner = Arc::new(AlignedBytes::zeroed(0));
        let buffer = CLIENT.buffer_from_host_zero_copy(owner, ElementType::F64, dims).unwrap();
        assert!(buffer.to_vec().unwrap().is_empty());
    }
}

/// Host memory that reports when it is freed.
struct Watched {
    bytes: AlignedBytes,
    offset: usize,
    freed: Arc<AtomicBool>,
}

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.as_ref()[self.offset..]
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::SeqCst);
    }
}

fn watched(values: &[f32], offset: usize) -> (Arc<Watched>, Arc<AtomicBool>) {
    let mut bytes = AlignedBytes::zeroed(offset + values.len() * 4);
    bytes.as_mut()[offset..].copy_from_slice(&self::bytes(values));
    let freed = Arc::new(AtomicBool::new(false));
    (Arc::new(Watched { bytes, offset, freed: freed.clone() }), freed)
}

#[test]
fn aligned_memory_is_shared_and_kept_alive() {
    let values: Vec<f32> = (0..1024).map(|i| i as f32).collect();
    let (owner, freed) = watched(&values, 0);
    let address = (*owner).as_ref().as_ptr() as usize;
    assert_eq!(address % AlignedBytes::ALIGNMENT, 0);
    let buffer = CLIENT.buffer_from_host_zero_copy(owner, ElementType::F32, &[1024]).unwrap();
    assert_eq!(buffer.device_address().unwrap(), address);
    assert!(!freed.load(Ordering::SeqCst));
    // Donating shared memory gives a fresh result and does not change the host's bytes.
    let result = compile(DONATES).execute(&[&buffer], &[]).unwrap().remove(0);
    assert_ne!(result.device_address().unwrap(), address);
    assert_eq!(floats(&result)[7], 14.);
    drop((buffer, result));
    let start = std::time::Instant::now();
    while !freed.load(Ordering::SeqCst) {
        assert!(start.elapsed().as_secs() < 10, "the owner was never freed");
        std::thread::yield_now();
    }
}

#[test]
fn unaligned_memory_is_copied_and_freed() {
    let (owner, freed) = watched(&[1., 2., 3., 4.], 4);
    let address = (*owner).as_ref().as_ptr() as usize;
    let buffer = CLIENT.buffer_from_host_zero_copy(owner, ElementType::F32, &[4]).unwrap();
    assert_ne!(buffer.device_address().unwrap(), address);
    assert_eq!(floats(&buffer), [1., 2., 3., 4.]);
    drop(buffer);
    let start = std::time::Instant::now();
    while !freed.load(Ordering::SeqCst) {
        assert!(start.elapsed().as_secs() < 10, "the owner was never freed");
        std::thread::yield_now();
    }
}

#[test]
fn results_are_row_major() {
    let text = "func.func @main(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {
        %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
        return %0 : tensor<3x2xf32>
    }";
    let a = f32s(&[1., 2., 3., 4., 5., 6.], &[2, 3]);
    let result = compile(text).execute(&[&a], &[]).unwrap().remove(0);
    assert_eq!(floats(&result), [1., 4., 2., 5., 3., 6.]);
}

#[test]
fn a_column_major_result_is_an_error() {
    let text = "func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\"}) {
        %0 = stablehlo.negate %a : tensor<2x3xf32>
        return %0 : tensor<2x3xf32>
    }";
    let result = compile(text).execute(&[&f32s(&[1.; 6], &[2, 3])], &[]).unwrap().remove(0);
    let error = error_of(result.to_vec());
    assert!(error.message().contains("layout [0, 1]"), "{error}");
}

#[test]
fn bounded_results_have_the_size_in_use() {
    let text = "func.func @main(%x: tensor<8x2xf32>, %n: tensor<i32>) -> tensor<?x2xf32, #stablehlo.bounds<8, ?>> {
        %0 = stablehlo.set_dimension_size %x, %n, dim = 0
            : (tensor<8x2xf32>, tensor<i32>) -> tensor<?x2xf32, #stablehlo.bounds<8, ?>>
        return %0 : tensor<?x2xf32, #stablehlo.bounds<8, ?>>
    }";
    let executable = compile(text);
    let x = f32s(&(0..16).map(|i| i as f32).collect::<Vec<_>>(), &[8, 2]);
    let n = CLIENT.buffer_from_host(&3i32.to_ne_bytes(), ElementType::S32, &[]).unwrap();
    let result = executable.execute(&[&x, &n], &[]).unwrap().remove(0);
    assert_eq!(result.dimensions().unwrap(), [8, 2]);
    assert_eq!(result.logical_dimensions().unwrap(), [3, 2]);
    assert_eq!(floats(&result), [0., 1., 2., 3., 4., 5.]);
}

#[test]
fn several_threads_execute_one_program() {
    let executable = compile(ADD);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let executable = &executable;
            scope.spawn(move || {
                let a = f32s(&[thread as f32; 6], &[2, 3]);
                let mut sum = f32s(&[0.; 6], &[2, 3]);
                for _ in 0..200 {
                    sum = executable.execute(&[&sum, &a], &[]).unwrap().remove(0);
                }
                assert_eq!(floats(&sum), [200. * thread as f32; 6]);
            });
        }
    });
}

#[test]
fn threads_read_one_buffer_while_another_deletes_it() {
    for _ in 0..50 {
        let a = f32s(&[3.; 4096], &[4096]);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    // The bytes are complete, or there is an error. Freed memory is never read.
                    if let Ok(bytes) = a.to_vec() {
                        assert_eq!(bytes, self::bytes(&[3.; 4096]));
                    }
                });
            }
            scope.spawn(|| a.delete().unwrap());
        });
        assert!(a.is_deleted().unwrap());
    }
}

#[test]
fn buffers_and_executables_outlive_their_client_handle() {
    let client = Client::create(CLIENT.plugin(), &[]).unwrap();
    let a = client.buffer_from_host(&bytes(&[1.; 6]), ElementType::F32, &[2, 3]).unwrap();
    let executable = client.compile(ADD, &CompileOptions::default()).unwrap();
    drop(client);
    let sum = executable.execute(&[&a, &a], &[]).unwrap().remove(0);
    drop((executable, a));
    assert_eq!(floats(&sum), [2.; 6]);
}

#[test]
fn replicas_sum_across_devices() {
    let client = Client::create(CLIENT.plugin(), &[("cpu_device_count", 2i64.into())]).unwrap();
    let text = "module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
        %0 = \"stablehlo.all_reduce\"(%a) ({
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %s = stablehlo.add %x, %y : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
    } }";
    let options = CompileOptions { num_replicas: 2, ..Default::default() };
    let executable = client.compile(text, &options).unwrap();
    assert_eq!(executable.num_devices(), 2);
    let on = |device: usize, values: &[f32]| {
        client.buffer_from_host_on(&client.devices()[device], &bytes(values), ElementType::F32, &[2]).unwrap()
    };
    let (a, b) = (on(0, &[1., 2.]), on(1, &[10., 20.]));
    assert_eq!(b.device().unwrap().id(), 1);
    let results = executable.execute_on_all(&[&[&a], &[&b]], &[]).unwrap();
    assert_eq!(floats(&results[0][0]), [11., 22.]);
    assert_eq!(floats(&results[1][0]), [11., 22.]);
    assert!(error_of(executable.execute(&[&a], &[])).message().contains("runs on 2 devices"));
    assert_eq!(floats(&a.copy_to_device(&client.devices()[1]).unwrap()), [1., 2.]);
}

#[test]
fn a_program_may_be_placed_on_another_device() {
    let client = Client::create(CLIENT.plugin(), &[("cpu_device_count", 2i64.into())]).unwrap();
    let options = CompileOptions { device_assignment: Some(vec![vec![1]]), ..Default::default() };
    let executable = client.compile(ADD, &options).unwrap();
    let place = |device: usize| {
        let device = &client.devices()[device];
        client.buffer_from_host_on(device, &bytes(&[1.; 6]), ElementType::F32, &[2, 3]).unwrap()
    };
    let (near, far) = (place(1), place(0));
    let sum = executable.execute(&[&near, &near], &[]).unwrap().remove(0);
    assert_eq!(sum.device().unwrap().id(), 1);
    assert!(executable.execute(&[&far, &far], &[]).is_err());
}

#[test]
fn a_partitioned_program_takes_partitioned_arguments() {
    let client = Client::create(CLIENT.plugin(), &[("cpu_device_count", 2i64.into())]).unwrap();
    let text = r#"module {
        sdy.mesh @mesh = <["x"=2]>
        func.func @main(%a: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<f32> {
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0, 1]
                : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
            return %0 : tensor<f32>
        }
    }"#;
    let options = CompileOptions {
        num_partitions: 2,
        use_spmd_partitioning: true,
        use_shardy_partitioner: true,
        ..Default::default()
    };
    let executable = client.compile(text, &options).unwrap();
    assert_eq!(executable.parameters()[0].to_string(), "tensor<2x2xf32>");
    let on = |device: usize, values: &[f32], dims: &[i64]| {
        client.buffer_from_host_on(&client.devices()[device], &bytes(values), ElementType::F32, dims).unwrap()
    };
    let (a, b) = (on(0, &[1., 2., 3., 4.], &[2, 2]), on(1, &[10., 20., 30., 40.], &[2, 2]));
    let results = executable.execute_on_all(&[&[&a], &[&b]], &[]).unwrap();
    assert_eq!(floats(&results[0][0]), [110.]);
    assert_eq!(floats(&results[1][0]), [110.]);
    let whole = on(0, &[0.; 8], &[4, 2]);
    assert!(error_of(executable.execute_on_all(&[&[&whole], &[&b]], &[])).message().contains("tensor<2x2xf32>"));
}

#[test]
fn a_host_view_reads_in_place_and_prevents_donation() {
    let executable = compile(DONATES);
    let a = Arc::new(f32s(&[1.; 1024], &[1024]));
    let view = HostView::new(a.clone()).unwrap().expect("memory of the host");
    assert_eq!(view.as_ref().as_ptr() as usize, a.device_address().unwrap());
    // The plugin gives new memory to the result instead.
    let result = executable.execute(&[&a], &[]).unwrap().remove(0);
    assert_eq!(floats(&result), [2.; 1024]);
    assert_ne!(result.device_address().unwrap(), view.as_ref().as_ptr() as usize);
    assert_eq!(view.as_ref(), bytes(&[1.; 1024]));
    drop(view);
    let empty = Arc::new(f32s(&[], &[0, 3]));
    assert!(HostView::new(empty).unwrap().expect("memory of the host").as_ref().is_empty());
}
