//! Random bits, Fourier transforms, triangular matrices and custom calls.

use crate::func::{Array, List, Types, push_quoted};
use crate::{ElementType, Func, Type, Value};
use std::mem::take;

/// The Fourier transform that [`Func::fft`] computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FftKind {
    /// Complex to complex.
    Fft,
    /// Complex to complex, inverse, divided by the number of elements.
    Ifft,
    /// Real to the non-negative frequencies.
    Rfft,
    /// The non-negative frequencies to real, inverse, divided by the number of elements.
    Irfft,
}

impl FftKind {
    fn mlir(self) -> &'static str {
        match self {
            FftKind::Fft => "FFT",
            FftKind::Ifft => "IFFT",
            FftKind::Rfft => "RFFT",
            FftKind::Irfft => "IRFFT",
        }
    }
}

/// Return the layout of an array of `rank` dimensions in row-major order.
pub(crate) fn row_major(rank: usize) -> String {
    let order: Vec<usize> = (0..rank).rev().collect();
    let dense = if rank == 0 { String::new() } else { format!("{order:?}") };
    format!("dense<{dense}> : tensor<{rank}xindex>")
}

/// The algorithm of [`Func::rng_bit_generator`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RngAlgorithm {
    /// Threefry 2x32 with 20 rounds. Every compiler draws the same bits.
    Threefry,
    /// The algorithm that is fastest on the device. The compiler also chooses the next state.
    Fastest,
}

impl RngAlgorithm {
    fn mlir(self) -> &'static str {
        match self {
            RngAlgorithm::Threefry => "THREE_FRY",
            RngAlgorithm::Fastest => "DEFAULT",
        }
    }
}

impl Func {
    /// Draw random bits of type `ty` (`U32` or `U64`) from a state of two `U64`. Return the next state and the bits.
    pub fn rng_bit_generator(&mut self, state: &Value, ty: &Type, algorithm: RngAlgorithm) -> (Value, Value) {
        let name = "rng_bit_generator";
        let wanted = Type::new(&[2], ElementType::U64);
        assert!(*state.ty() == wanted, "{name} (C2): the state is {}, but must be {wanted}", state.ty());
        assert!(
            matches!(ty.element, ElementType::U32 | ElementType::U64),
            "{name}: the bits are {ty}, but must be ui32 or ui64"
        );
        let results = self.op_many(
            &[wanted.clone(), ty.clone()],
            format_args!("stablehlo.{name} {state}, algorithm = {} : ({wanted}) -> ({wanted}, {ty})", algorithm.mlir()),
        );
        let [state, bits] = &results[..] else { unreachable!("two types give two values") };
        (state.clone(), bits.clone())
    }

    /// Call `target`, a function that the runtime knows, through XLA's typed FFI. The function gets `kernel` and
    /// `numbers` as attributes and row-major arrays, and returns arrays of types `outs`. Result `r` takes the memory of
    /// argument `a` for each `(r, a)` of `in_place`. The values of [`Func::call_after`] are further arguments.
    pub fn custom_call(
        &mut self,
        target: &str,
        args: &[Value],
        outs: &[Type],
        in_place: &[(usize, usize)],
        kernel: &str,
        numbers: &[i64],
    ) -> Vec<Value> {
        let (mut symbol, mut name) = (String::new(), String::new());
        push_quoted(&mut symbol, target);
        push_quoted(&mut name, kernel);
        self.calls += 1;
        let args = [args, &take(&mut self.call_after)].concat();
        let operand_layouts: Vec<String> = args.iter().map(|a| row_major(a.rank())).collect();
        let result_layouts: Vec<String> = outs.iter().map(|t| row_major(t.rank())).collect();
        let alias = |&(result, operand): &(usize, usize)| {
            assert!(*args[operand].ty() == outs[result], "custom_call: result {result} in place of argument {operand}");
            let index = if outs.len() == 1 { String::new() } else { result.to_string() };
            format!(
                "#stablehlo.output_operand_alias<output_tuple_indices = [{index}], operand_index = {operand}, \
                 operand_tuple_indices = []>"
            )
        };
        let aliases: Vec<String> = in_place.iter().map(alias).collect();
        let numbers = Array(numbers);
        self.op_many(
            outs,
            format_args!(
                "stablehlo.custom_call @{symbol}({}) {{api_version = 4 : i32, \
                 backend_config = {{kernel = {name}, numbers = {numbers}}}, output_operand_aliases = [{}], \
                 operand_layouts = [{}], result_layouts = [{}]}} : ({}) -> ({})",
                List(&args),
                List(&aliases),
                List(&operand_layouts),
                List(&result_layouts),
                Types(&args),
                List(outs)
            ),
        )
    }

    /// Return the number of custom calls so far.
    pub fn custom_calls(&self) -> usize {
        self.calls
    }

    /// Run the next [`Func::custom_call`] after `values` are computed. They become further arguments, which the call
    /// ignores. So a call that writes in place waits for the readers of the memory.
    pub fn call_after(&mut self, values: Vec<Value>) {
        self.call_after = values;
    }

    /// Compute the Fourier transform over the last `length.len()` dimensions (one to three), whose sizes in the time
    /// domain are `length`.
    pub fn fft(&mut self, x: &Value, kind: FftKind, length: &[usize]) -> Value {
        assert!(length.len() <= x.rank(), "fft (C1): {length:?} has more dimensions than {}", x.ty());
        assert!((1..=3).contains(&length.len()), "fft (C3): {length:?} must have one to three dimensions");
        let e = x.element();
        let fits =
            if kind == FftKind::Rfft { matches!(e, ElementType::F32 | ElementType::F64) } else { e.is_complex() };
        assert!(fits, "fft (C2): {kind:?} does not take {}", x.ty());
        let mut shape = x.shape().to_vec();
        let first = x.rank() - length.len();
        let half = |n: usize| if n == 0 { 0 } else { n / 2 + 1 };
        let mut wanted = length.to_vec();
        let last = length.len() - 1;
        if kind == FftKind::Irfft {
            wanted[last] = half(length[last]);
        }
        assert!(shape[first..] == wanted, "fft (C4, C5): {} must end in {wanted:?}", x.ty());
        let (element, last_size) = match (kind, e) {
            (FftKind::Rfft, ElementType::F32) => (ElementType::C64, half(length[last])),
            (FftKind::Rfft, _) => (ElementType::C128, half(length[last])),
            (FftKind::Irfft, _) => (e.real_part(), length[last]),
            _ => (e, length[last]),
        };
        shape[first + last] = last_size;
        let ty = Type::new(&shape, element);
        let kind = kind.mlir();
        self.op(
            &ty,
            format_args!("stablehlo.fft {x}, type = {kind}, length = [{}] : ({}) -> {ty}", List(length), x.ty()),
        )
    }

    /// Compute the Cholesky factor of each matrix. The other triangle of the result is undefined.
    pub fn cholesky(&mut self, a: &Value, lower: bool) -> Value {
        check_square("cholesky (C2)", "cholesky (C3)", a);
        self.op(a.ty(), format_args!("stablehlo.cholesky {a}, lower = {lower} : {}", a.ty()))
    }

    /// Solve `op(a) x = b` (`left_side`) or `x op(a) = b` for triangular `a`, where `op` transposes if `transpose`.
    pub fn triangular_solve(
        &mut self,
        a: &Value,
        b: &Value,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose: bool,
    ) -> Value {
        let name = "triangular_solve";
        assert!(a.element() == b.element(), "{name} (C1): {} and {} differ in element type", a.ty(), b.ty());
        check_square("triangular_solve (C2)", "triangular_solve (C3)", a);
        assert!(a.rank() == b.rank(), "{name} (C2): {} and {} differ in rank", a.ty(), b.ty());
        let batch = a.rank() - 2;
        let side = if left_side { batch } else { batch + 1 };
        let fits = a.shape()[..batch] == b.shape()[..batch] && b.shape()[side] == a.shape()[batch];
        assert!(fits, "{name} (C3): {} does not fit {}", b.ty(), a.ty());
        let transpose = if transpose { "TRANSPOSE" } else { "NO_TRANSPOSE" };
        self.op(
            b.ty(),
            format_args!(
                "\"stablehlo.{name}\"({a}, {b}) <{{left_side = {left_side}, lower = {lower}, \
                 unit_diagonal = {unit_diagonal}, transpose_a = #stablehlo<transpose {transpose}>}}> : ({}, {}) -> {}",
                a.ty(),
                b.ty(),
                b.ty()
            ),
        )
    }
}

fn check_square(rank: &str, square: &str, a: &Value) {
    assert!(a.rank() >= 2, "{rank}: {} is not a matrix", a.ty());
    let [rows, columns] = a.shape()[a.rank() - 2..] else { unreachable!("two dimensions were taken") };
    assert!(rows == columns, "{square}: the matrices of {} are not square", a.ty());
}
