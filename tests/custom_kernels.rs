//! Tests of user-defined kernels from Rust, through `torchtpu::tpu`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use torchtpu::tpu::{Cost, CustomOp, Gradient, GradientInput, Kernel};
use torchtpu::{Backward, DType, Device, Meta, Result, Tensor, lazy};

fn product(x: &[Meta]) -> Result<String> {
    let ty = x[0].ty();
    Ok(format!(
        "module @product {{ func.func public @main(%x: {ty}, %y: {ty}) -> {ty} {{
           %0 = call @twice(%x) : ({ty}) -> {ty}
           %1 = stablehlo.multiply %0, %y : {ty}
           return %1 : {ty}
         }}
         func.func private @twice(%x: {ty}) -> {ty} {{ %0 = stablehlo.add %x, %x : {ty} return %0 : {ty} }} }}"
    ))
}

fn devices() -> [Device; 2] {
    ["cpu", "tpu"].map(|name| torchtpu::device(name).expect("a device"))
}

#[test]
fn a_module_is_an_operator() {
    let op = CustomOp::stablehlo("rust::product", product).unwrap();
    for device in devices() {
        for n in 1..3 {
            let x = Tensor::from_slice_on(&vec![3.0f32; n], &[n], device).unwrap();
            let y = op.call(&[&x.neg().unwrap(), &x]).unwrap();
            assert_eq!(y.len(), 1);
            assert_eq!(y[0].add_scalar(1.0).unwrap().to_vec::<f32>().unwrap(), vec![-17.0; n]);
        }
    }
    let x = Tensor::empty(&Meta::new(&[4], DType::F32, Device::META)).unwrap();
    assert_eq!(op.call(&[&x, &x]).unwrap()[0].dims()[..], [4]);
}

#[test]
fn a_kernel_has_its_given_gradient() {
    let op = CustomOp::new(|x| {
        let ty = x[0].ty();
        let backward = format!(
            "func.func @main(%x: {ty}, %y: {ty}, %g: {ty}) -> ({ty}, {ty}) {{
               %0 = stablehlo.add %g, %g : {ty}
               %1 = stablehlo.multiply %0, %y : {ty}
               %2 = stablehlo.multiply %0, %x : {ty}
               return %1, %2 : {ty}, {ty} }}"
        );
        let gradient = Gradient {
            kernel: Arc::new(Kernel::new("rust::product_backward", &backward)?),
            inputs: vec![GradientInput::Input(0), GradientInput::Input(1), GradientInput::Cotangent(0)],
            results: vec![Some(0), Some(1)],
        };
        Kernel::new("rust::product", &product(x)?)?.with_gradient(1, gradient)
    });
    for device in devices() {
        let x = Tensor::from_slice_on(&[1.0f32, 2.0], &[2], device).unwrap();
        let y = Tensor::from_slice_on(&[5.0f32, 7.0], &[2], device).unwrap();
        x.requires_grad_(true).unwrap();
        y.requires_grad_(true).unwrap();
        op.call(&[&x, &y]).unwrap()[0].sum().unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [10.0, 14.0]);
        assert_eq!(y.grad().unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
    }
}

#[test]
fn a_gradient_that_does_not_fit_is_refused() {
    let of = |inputs: Vec<GradientInput>, results| {
        let text = product(&[Meta::new(&[2], DType::F32, Device::CPU)]).unwrap();
        let kernel = Arc::new(Kernel::new("rust::g", &text).unwrap());
        Kernel::new("rust::f", &text)
            .unwrap()
            .with_gradient(1, Gradient { kernel, inputs, results })
            .unwrap_err()
            .to_string()
    };
    let both = vec![GradientInput::Input(0), GradientInput::Cotangent(0)];
    assert!(of(both[..1].to_vec(), vec![Some(0), None]).contains("it takes 2 tensors"));
    assert!(
        of(vec![GradientInput::Input(0), GradientInput::Output(1)], vec![Some(0), None]).contains("its argument 1")
    );
    assert!(of(both, vec![Some(1), None]).contains("its result 1"));
}

#[test]
fn names_without_a_namespace_are_refused() {
    for name in ["product", "a::b::c", "::b", "a::", "a::1"] {
        let e = CustomOp::stablehlo(name, product).unwrap_err();
        assert!(e.to_string().contains("form `namespace::name`"), "{e}");
    }
}

#[test]
fn a_body_that_does_not_compile_names_the_operator() {
    let body = |x: &[Meta]| Ok(product(x)?.replace("stablehlo.multiply", "stablehlo.nothing"));
    let op = CustomOp::stablehlo("rust::wrong", body).unwrap();
    for device in devices() {
        let x = Tensor::from_slice_on(&[1.0f32], &[1], device).unwrap();
        let found = op.call(&[&x, &x]).and_then(|y| y[0].to_vec::<f32>());
        assert!(found.unwrap_err().to_string().contains("rust::wrong"));
    }
}

/// Return a kernel that adds a number, as Mosaic text.
fn add_one(x: &[Meta]) -> Result<String> {
    let (rows, columns) = (x[0].dims[0], x[0].dims[1]);
    let reference = format!("memref<{rows}x{columns}xf32, #tpu.memory_space<vmem>>");
    let block = format!("vector<{rows}x{columns}xf32>");
    let window = format!("{{transform_indices = @window, window_bounds = array<i64: {rows}, {columns}>}}");
    Ok(format!(
        r#""builtin.module"() ({{
  "stable_mosaic.func.func"() ({{
  ^bb0(%i: i32, %x: {reference}, %y: {reference}):
    %zero = "stable_mosaic.arith.constant"() {{value = 0 : index}} : () -> index
    %one = "stable_mosaic.arith.constant"() {{value = dense<1.0> : {block}}} : () -> {block}
    %0 = "stable_mosaic.vector.load"(%x, %zero, %zero) : ({reference}, index, index) -> {block}
    %1 = "stable_mosaic.arith.addf"(%0, %one) {{fastmath = #arith.fastmath<none>}} : ({block}, {block}) -> {block}
    "stable_mosaic.tpu.vector_store"(%1, %y, %zero, %zero)
      {{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}}
      : ({block}, {reference}, index, index) -> ()
    "stable_mosaic.func.return"() : () -> ()
  }}) {{dimension_semantics = [#tpu.dimension_semantics<arbitrary>],
    function_type = (i32, {reference}, {reference}) -> (), iteration_bounds = array<i64: 1>,
    scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, sym_name = "add_one",
    tpu.core_type = #tpu.core_type<tc>, window_params = [{window}, {window}]}} : () -> ()
  "stable_mosaic.func.func"() ({{
  ^bb0(%i: i32):
    %zero = "stable_mosaic.arith.constant"() {{value = 0 : i32}} : () -> i32
    "stable_mosaic.func.return"(%i, %zero) : (i32, i32) -> ()
  }}) {{function_type = (i32) -> (i32, i32), sym_name = "window"}} : () -> ()
}}) {{stable_mosaic.version = 11 : i64}} : () -> ()"#
    ))
}

#[test]
fn a_mosaic_kernel_runs_its_cpu_function() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let op = CustomOp::mosaic(
        "rust::add_one",
        add_one,
        |x| Ok(x.to_vec()),
        |x| Some(Cost { flops: x[0].numel() as u64, transcendentals: 0, bytes_accessed: 8 * x[0].numel() as u64 }),
        move |x| {
            counted.fetch_add(1, Relaxed);
            Ok(vec![x[0].add_scalar(1.0)?])
        },
    )
    .unwrap();
    for device in devices() {
        let x = Tensor::zeros(&[8, 128], DType::F32, device).unwrap();
        assert_eq!(op.call(&[&x]).unwrap()[0].to_vec::<f32>().unwrap(), vec![1.0; 1024]);
    }
    assert_eq!(calls.load(Relaxed), 2);
    // Check the module given to the compiler for TPUs, and that it compiles.
    let meta = [Meta::new(&[8, 128], DType::F32, Device::CPU)];
    let ty = [meta[0].ty()];
    let cost = Cost { flops: 1024, ..Cost::default() };
    let text = lazy::mosaic::module("rust::add_one", &add_one(&meta).unwrap(), &ty, &ty, Some(cost));
    if !lazy::aot::is_available() {
        assert!(std::env::var("CI").is_err(), "libtpu is missing: pip install libtpu");
        return;
    }
    for topology in ["v5e:2x2", "TPU7x:2x2x1"] {
        let target =
            lazy::aot::Target { topology: topology.into(), options: Vec::new(), num_partitions: 1, memory_bytes: None };
        let report = lazy::aot::Compiler::new(target).unwrap().compile(&text).unwrap();
        assert!(report.flops >= 1024.0, "{topology}: {} flops", report.flops);
    }
}
