//! Modules that were made elsewhere, as parts of programs.

use torchtpu_stablehlo::ElementType::{F32, S32};
use torchtpu_stablehlo::{Func, Library, Type, Value};

const MODULE: &str = r#"
#loc = loc("ignored")
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32> {tf.aliasing_output = 1 : i32}, %arg1: tensor<i32> loc("x"(#loc)))
      -> (tensor<i32> {jax.result_info = "n, m"}, tensor<2xf32>) {
    // A comment that says call @helper.
    %0 = call @helper(%arg0) {note = "call @helper"} : (tensor<2xf32>) -> tensor<2xf32> loc(#loc)
    %1 = stablehlo.custom_call @helper(%0) {called_computations = [@helper]} : (tensor<2xf32>) -> tensor<2xf32>
    return %arg1, %1 : tensor<i32>, tensor<2xf32>
  }
  func.func private @helper(%arg0: tensor<2xf32> {mhlo.sharding = "{replicated}"}) -> tensor<2xf32> {
    return %arg0 : tensor<2xf32>
  }
} loc(#loc)
#loc1 = loc(callsite(#loc at #loc))
"#;

fn calls(n: usize) -> String {
    let library = Library::parse(MODULE).unwrap();
    let mut f = Func::new();
    let (mut x, count) = (f.arg(Type::new(&[2], F32)), f.arg(Type::new(&[], S32)));
    for _ in 0..n {
        let results: Vec<Value> = f.call(&library, &[x, count.clone()]);
        x = results[1].clone();
    }
    f.finish("segment", &[x])
}

#[test]
fn functions_get_names_that_no_other_library_has() {
    let library = Library::parse(MODULE).unwrap();
    let text = calls(1);
    let prefix = format!("k{:032x}_", library.hash());
    // Space is as it was given, and as locations leave it.
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(
        words(&text.replace(&prefix, "k_").replace(" ,", ",").replace(" )", ")")),
        words(
            r#"module @segment {
  func.func public @main(%a0: tensor<2xf32>, %a1: tensor<i32>) -> (tensor<2xf32>) {
    %0, %1 = func.call @k_main(%a0, %a1) : (tensor<2xf32>, tensor<i32>) -> (tensor<i32>, tensor<2xf32>)
    return %1 : tensor<2xf32>
  }
  func.func private @k_main(%arg0: tensor<2xf32>, %arg1: tensor<i32>) -> (tensor<i32>, tensor<2xf32>) {
    %0 = call @k_helper(%arg0) {note = "call @helper"} : (tensor<2xf32>) -> tensor<2xf32> 
    %1 = stablehlo.custom_call @helper(%0) {called_computations = [@k_helper]} : (tensor<2xf32>) -> tensor<2xf32>
    return %arg1, %1 : tensor<i32>, tensor<2xf32>
  }
  func.func private @k_helper(%arg0: tensor<2xf32> {mhlo.sharding = "{replicated}"}) -> tensor<2xf32> {
    return %arg0 : tensor<2xf32>
  }
}
"#
        )
    );
    assert_eq!(calls(3).matches("func.func private").count(), 2);
}

#[test]
fn the_signature_is_that_of_main() {
    let library = Library::parse(MODULE).unwrap();
    assert_eq!(library.args(), [Type::new(&[2], F32), Type::new(&[], S32)]);
    assert_eq!(library.results(), [Type::new(&[], S32), Type::new(&[2], F32)]);
    assert_eq!(library.aliases(), [(0, 1)]);
    let one = "func.func @other(%x: tensor<1x2x3xcomplex<f32>>) -> tensor<1x2x3xcomplex<f32>> { return %x : \
        tensor<1x2x3xcomplex<f32>> }";
    assert_eq!(Library::parse(one).unwrap().results()[0].to_string(), "tensor<1x2x3xcomplex<f32>>");
}

#[test]
fn comments_and_locations_change_no_hash() {
    let hash = |text: &str| Library::parse(text).unwrap().hash();
    assert_eq!(
        hash(MODULE),
        hash(&MODULE.replace("A comment", "Another comment").replace(r#"loc("x"(#loc))"#, r#"loc("y")"#))
    );
    assert_ne!(hash(MODULE), hash(&MODULE.replace("return %arg1, %1", "return %arg1, %0")));
    let bare = Library::without_locations(MODULE).unwrap();
    assert!(!bare.contains("loc(") && !bare.contains("//") && bare.contains("tf.aliasing_output"));
    assert_eq!(hash(&bare), hash(MODULE));
}

#[test]
fn a_result_takes_only_memory_of_its_own_type() {
    let e = Library::parse(&MODULE.replace("aliasing_output = 1", "aliasing_output = 0")).unwrap_err();
    assert_eq!(e, "a result cannot take the memory of an argument of another type");
    assert!(Library::parse(&MODULE.replace("aliasing_output = 1", "aliasing_output = 7")).is_err());
}

#[test]
#[should_panic(expected = "call: (tensor<3xf32>, tensor<i32>) given for (tensor<2xf32>, tensor<i32>)")]
fn arguments_of_other_types_panic() {
    let mut f = Func::new();
    let args = [f.arg(Type::new(&[3], F32)), f.arg(Type::new(&[], S32))];
    f.call(&Library::parse(MODULE).unwrap(), &args);
}

#[test]
fn damaged_texts_are_errors_and_never_panic() {
    for end in 0..MODULE.len() {
        if MODULE.is_char_boundary(end) {
            let _ = Library::parse(&MODULE[..end]);
        }
    }
    for cut in (0..MODULE.len() - 1).step_by(3) {
        let mut text = MODULE.to_string();
        text.replace_range(cut..=cut, ")");
        let _ = Library::parse(&text);
        text.replace_range(cut..=cut, "\"");
        let _ = Library::parse(&text);
        text.replace_range(cut..=cut, "é");
        let _ = Library::parse(&text);
    }
}
