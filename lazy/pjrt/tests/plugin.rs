//! Tests of choosing and loading plugins, and of files that are not plugins.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use torchtpu_pjrt::{Client, Code, CompileOptions, ElementType, Plugin, Topology, find_cpu_plugins, find_libtpu};

#[test]
fn the_cpu_plugin_is_found_and_has_attributes() {
    let plugin = Plugin::find(Some("cpu")).unwrap();
    let (major, minor) = plugin.api_version();
    assert_eq!(major, 0);
    assert!(minor >= 81, "API 0.{minor}");
    assert!(plugin.path().is_absolute());
    assert!(plugin.attributes().contains_key("xla_version"), "{:?}", plugin.attributes());
}

#[test]
fn loading_a_path_twice_gives_the_same_plugin() {
    let plugin = Plugin::find(Some("cpu")).unwrap();
    assert!(Arc::ptr_eq(&plugin, &Plugin::load(plugin.path()).unwrap()));
    let path = plugin.path().to_str().unwrap();
    assert!(Arc::ptr_eq(&plugin, &Plugin::find(Some(path)).unwrap()));
}

#[test]
fn a_missing_file_is_not_found() {
    let error = Plugin::load("/nonexistent/plugin.so").unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.message().contains("/nonexistent/plugin.so"), "{error}");
}

#[test]
fn a_text_file_is_not_a_plugin() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "not a shared library").unwrap();
    let error = Plugin::load(file.path()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("is not a PJRT plugin"), "{error}");
}

#[test]
fn a_folder_is_not_a_plugin() {
    let error = Plugin::load(std::env::temp_dir()).unwrap_err();
    assert!(error.message().contains("not a file"), "{error}");
}

#[test]
fn a_truncated_plugin_is_an_error_and_not_a_bus_error() {
    let plugin = Plugin::find(Some("cpu")).unwrap();
    for bytes in [40, 100, 4096, 1 << 20] {
        let mut start = vec![0; bytes];
        std::fs::File::open(plugin.path()).unwrap().read_exact(&mut start).unwrap();
        let file = tempfile::NamedTempFile::with_suffix(".so").unwrap();
        std::fs::write(file.path(), &start).unwrap();
        let error = Plugin::load(file.path()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains("is not a PJRT plugin"), "{error}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn another_library_is_not_a_plugin() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so")).unwrap();
    let error = Plugin::load(PathBuf::from(libc)).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("does not export GetPjrtApi"), "{error}");
}

#[test]
fn the_error_for_a_missing_plugin_says_how_to_install_one() {
    let empty = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_cpu_plugin_is_found_and_has_attributes", "--nocapture"])
        .env_clear()
        .env("PATH", empty.path())
        .current_dir(empty.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let shown = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    assert!(shown.contains("no XLA:CPU PJRT plugin found"), "{shown}");
    assert!(shown.contains("pip install xla-cpu-pjrt"), "{shown}");
}

#[test]
fn every_installed_cpu_plugin_runs_in_one_process() {
    let mut tried = 0;
    for path in find_cpu_plugins() {
        let plugin = Plugin::load(&path).unwrap();
        let client = Client::create(&plugin, &[]).unwrap();
        let text = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.tanh %a : tensor<2xf32>
            return %0 : tensor<2xf32>
        }";
        let executable = client.compile(text, &CompileOptions::default()).unwrap();
        let a = client.buffer_from_host(&[0; 8], ElementType::F32, &[2]).unwrap();
        assert_eq!(executable.execute(&[&a], &[]).unwrap()[0].to_vec().unwrap(), [0; 8], "{}", path.display());
        // One version must not read executables of another version.
        let foreign = Client::create(&Plugin::find(Some("cpu")).unwrap(), &[]).unwrap();
        let loaded = foreign.deserialize(&executable.serialize().unwrap());
        if foreign.plugin().api_version() == plugin.api_version() {
            assert!(loaded.is_ok());
        } else {
            assert_eq!(loaded.err().unwrap().code(), Code::FailedPrecondition);
        }
        tried += 1;
        eprintln!("ran on {} (API {:?})", path.display(), plugin.api_version());
    }
    assert!(tried > 0, "no XLA:CPU plugin found: pip install xla-cpu-pjrt");
}

#[test]
fn a_client_lists_its_devices() {
    let plugin = Plugin::find(Some("cpu")).unwrap();
    let client = Client::create(&plugin, &[("cpu_device_count", 3i64.into())]).unwrap();
    assert_eq!(client.platform_name(), "cpu");
    assert!(!client.platform_version().is_empty());
    let ids: Vec<i32> = client.addressable_devices().map(|device| device.id()).collect();
    assert_eq!(ids, [0, 1, 2]);
    let device = client.default_device();
    assert_eq!(device.id(), 0);
    assert_eq!(device.local_hardware_id(), Some(0));
    assert!(!device.kind().is_empty());
    assert!(!device.debug_string().is_empty());
    assert_eq!(device.description().process_index, 0);
}

#[test]
fn a_device_of_another_client_is_refused() {
    let plugin = Plugin::find(Some("cpu")).unwrap();
    let (one, two) = (Client::create(&plugin, &[]).unwrap(), Client::create(&plugin, &[]).unwrap());
    let error = one.device_memory_stats(two.default_device()).unwrap_err();
    assert!(error.message().contains("another client"), "{error}");
}

#[test]
fn tpu_compiles_ahead_of_time_where_libtpu_is_installed() {
    let Some(path) = find_libtpu() else {
        eprintln!("libtpu is absent: nothing was compiled for TPU (pip install libtpu)");
        return;
    };
    let plugin = Plugin::load(path).unwrap();
    let topology = Topology::create(&plugin, "v5e:2x2", &[]).unwrap();
    assert_eq!(topology.platform_name(), "tpu");
    assert_eq!(topology.devices().len(), 4);
    let device = &topology.devices()[3];
    assert_eq!(device.kind, "TPU v5 lite");
    assert!(device.coords().is_some_and(|coords| coords.len() == 3), "{:?}", device.attributes);
    assert!(device.attributes.contains_key("device_memory_bytes_limit"), "{:?}", device.attributes);

    let text = "func.func @main(%a: tensor<256x256xf32>, %b: tensor<256x256xf32>) -> tensor<256x256xf32> {
        %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
            : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
        return %0 : tensor<256x256xf32>
    }";
    let executable = topology.compile(text, &Default::default()).unwrap();
    assert_eq!(executable.num_outputs(), 1);
    assert_eq!(executable.output_types().unwrap()[0].to_string(), "tensor<256x256xf32>");
    let costs = executable.cost_analysis().unwrap();
    assert!(costs["flops"] >= 2.0 * 256f64.powi(3), "{costs:?}");
    assert!(executable.memory_stats().unwrap().argument_bytes >= 2 * 256 * 256 * 4);
    assert!(executable.code_bytes().unwrap() > 0);
    assert!(executable.serialize().unwrap().len() > 1000);
    // libtpu reports which runtimes can load the executable.
    let version = executable.abi_version().unwrap().expect("libtpu has the extension");
    assert!(!version.is_empty());

    let error = topology.compile("func.func @main() { nonsense }", &Default::default()).err().unwrap();
    assert_eq!(error.context(), "PJRT_Compile");
    let error = Topology::create(&plugin, "v99:2x2", &[]).unwrap_err();
    assert_eq!(error.context(), "PJRT_TopologyDescription_Create");

    // The program is partitioned over the four chips, so its parameters differ from those in the text.
    let options = CompileOptions {
        num_partitions: 4,
        use_spmd_partitioning: true,
        use_shardy_partitioner: true,
        ..Default::default()
    };
    let executable = topology.compile(SHARDED, &options).unwrap();
    assert_eq!(executable.output_types().unwrap().len(), 1);
    assert_eq!(executable.parameter_types().unwrap()[0].to_string(), "tensor<2x4xf32>");
}

const SHARDED: &str = r#"module {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}"#;
