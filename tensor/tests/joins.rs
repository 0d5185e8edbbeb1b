//! `cat` and `stack` of many operands, as a compiler sees them.

use torchtpu_stablehlo::{ElementType, Func, Profile, Type, Value};
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::ops::concat::{Cat, Stack};
use torchtpu_tensor::{DType, Device, Meta};

/// The program that joins `given` arguments and then `computed` sums of them, all of sizes `(2, 3)`.
fn program(op: Prim, given: usize, computed: usize, y: &[usize]) -> String {
    let mut f = Func::with_profile(&Profile::XLA_CPU);
    let args: Vec<Value> = (0..given.max(1)).map(|_| f.arg(Type::new(&[2, 3], ElementType::F32))).collect();
    let mut x: Vec<Value> = args[..given].to_vec();
    x.extend((0..computed).map(|i| f.binary("stablehlo.add", &args[0], &args[i % args.len()])));
    let results = op.lower(&mut f, &x, &[Meta::new(y, DType::F32, Device::TPU)]);
    f.finish("joined", &results)
}

fn counts(text: &str) -> (usize, usize) {
    (text.matches("stablehlo.concatenate").count(), text.matches("custom_call").count())
}

#[test]
fn few_operands_are_joined_by_the_compiler() {
    assert_eq!(counts(&program(Prim::Cat(Cat { dim: 1 }), 30, 30, &[2, 180])), (1, 0));
    assert_eq!(counts(&program(Prim::Stack(Stack { dim: 0 }), 30, 30, &[60, 2, 3])), (1, 0));
}

/// XLA:CPU computes up to eight operands within the loop that joins them. It compiled a kernel for each of a thousand
/// for 42 s.
#[test]
fn many_computed_operands_are_computed_in_groups() {
    for (op, y) in [
        (Prim::Cat(Cat { dim: 0 }), [2000, 3].as_slice()),
        (Prim::Cat(Cat { dim: 1 }), &[2, 3000]),
        (Prim::Stack(Stack { dim: 0 }), &[1000, 2, 3]),
        (Prim::Stack(Stack { dim: 1 }), &[2, 1000, 3]),
    ] {
        let text = program(op, 0, 1000, y);
        assert_eq!(counts(&text), (125, 1), "{y:?}");
    }
}

#[test]
fn arguments_are_joined_from_where_they_are() {
    assert_eq!(counts(&program(Prim::Cat(Cat { dim: 0 }), 1000, 0, &[2000, 3])), (0, 1));
    // Groups are those of the whole list: the first sums stand in one with arguments.
    assert_eq!(counts(&program(Prim::Cat(Cat { dim: 0 }), 100, 100, &[400, 3])), (12, 1));
}
