//! Collectives between the devices of a program, and calls that must run exactly once.

use crate::func::{Array, List, Types, push_quoted, put};
use crate::reduction::ReduceKind;
use crate::special::row_major;
use crate::{Direction, ElementType, Func, Type, Value};

/// The function that a collective combines elements with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// One of the reductions over dimensions.
    Reduce(ReduceKind),
    /// Bitwise or logical "exclusive or".
    Xor,
}

impl Combine {
    fn op(self) -> &'static str {
        match self {
            Combine::Reduce(kind) => kind.op(),
            Combine::Xor => "stablehlo.xor",
        }
    }
}

/// Lists of devices that do a collective together. Each device is in at most one list, and all lists are equally long.
pub type Groups<'a> = &'a [Vec<usize>];

/// Return lists of numbers as an MLIR attribute: `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`.
fn matrix(rows: &[Vec<usize>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    assert!(rows.iter().all(|row| row.len() == columns), "collective: the lists {rows:?} are not equally long");
    format!("dense<{rows:?}> : tensor<{}x{columns}xi64>", rows.len())
}

impl Func {
    /// Set the ranks that run the program: the one at position `i` is device `i`. Without a call, rank `r` is device
    /// `r`.
    pub fn set_ranks(&mut self, ranks: Vec<usize>) {
        self.ranks = ranks;
    }

    /// Return groups of devices from groups of ranks. Groups with ranks that do not run the program are left out.
    pub fn devices_of(&self, groups: &[Vec<usize>]) -> Vec<Vec<usize>> {
        if self.ranks.is_empty() {
            return groups.to_vec();
        }
        let device = |rank: &usize| self.ranks.iter().position(|r| r == rank);
        groups.iter().filter_map(|group| group.iter().map(device).collect()).collect()
    }

    /// Set the value that the next call of [`Func::ordered_call`] waits for: a scalar `i32` without meaning.
    pub fn set_token(&mut self, token: Value) {
        self.token = Some(token);
    }

    /// Return the value that depends on all [ordered calls](Func::ordered_call) so far.
    pub fn token(&mut self) -> Value {
        match &self.token {
            Some(token) => token.clone(),
            None => self.scalar_i64(0, ElementType::S32),
        }
    }

    /// Call `target`, a function that the runtime knows, after all earlier calls of this kind. The call runs exactly
    /// once, even if no value depends on it. It gets `kernel` and `numbers` as attributes. Its last argument and its
    /// last result are the [token](Func::token). With `in_place`, the result takes the memory of the first argument.
    ///
    /// The order is a data dependency, because the runtime may start independent calls in any order.
    pub fn ordered_call(
        &mut self,
        target: &str,
        args: &[Value],
        out: &Type,
        in_place: bool,
        kernel: &str,
        numbers: &[i64],
    ) -> Value {
        let (token, mut symbol) = (self.token(), String::new());
        push_quoted(&mut symbol, target);
        let args = [args, std::slice::from_ref(&token)].concat();
        let outs = [out.clone(), token.ty().clone()];
        let layouts = |ranks: &mut dyn Iterator<Item = usize>| ranks.map(row_major).collect::<Vec<_>>();
        let operand_layouts = layouts(&mut args.iter().map(Value::rank));
        let result_layouts = layouts(&mut outs.iter().map(Type::rank));
        let alias = if in_place {
            assert!(args[0].ty() == out, "ordered_call: the result {out} in place of {}", args[0].ty());
            "#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>"
        } else {
            ""
        };
        self.calls += 1;
        let results = self.op_many(
            &outs,
            format_args!(
                "stablehlo.custom_call @{symbol}({}) {{api_version = 4 : i32, \
                 backend_config = {{kernel = \"{kernel}\", numbers = {}}}, has_side_effect = true, \
                 output_operand_aliases = [{alias}], operand_layouts = [{}], result_layouts = [{}]}} : ({}) -> ({})",
                List(&args),
                Array(numbers),
                List(&operand_layouts),
                List(&result_layouts),
                Types(&args),
                List(&outs)
            ),
        );
        let [result, token] = &results[..] else { unreachable!("two types give two values") };
        self.token = Some(token.clone());
        result.clone()
    }

    /// The region that combines two scalars of `e`.
    fn combiner(&mut self, combine: Combine, e: ElementType) -> String {
        let scalar = Type::new(&[], e);
        let (a, b, y) = (self.fresh(&scalar), self.fresh(&scalar), self.fresh(&scalar));
        let mut text = String::from("({\n");
        put(&mut text, format_args!("    ^bb0({a}: {scalar}, {b}: {scalar}):\n"));
        put(&mut text, format_args!("    {y} = {} {a}, {b} : {scalar}\n", combine.op()));
        put(&mut text, format_args!("    stablehlo.return {y} : {scalar}\n    }})"));
        text
    }

    /// Combine the elements of `x` of all devices of a group, on each of them.
    pub fn all_reduce(&mut self, x: &Value, combine: Combine, groups: Groups<'_>) -> Value {
        let region = self.combiner(combine, x.element());
        self.op(
            x.ty(),
            format_args!(
                "\"stablehlo.all_reduce\"({x}) <{{replica_groups = {}}}> {region} : \
                 ({}) -> {}",
                matrix(groups),
                x.ty(),
                x.ty()
            ),
        )
    }

    /// Concatenate the `x` of all devices of a group along dimension 0, on each of them.
    pub fn all_gather(&mut self, x: &Value, groups: Groups<'_>) -> Value {
        let mut shape = x.shape().to_vec();
        shape[0] *= groups[0].len();
        let ty = Type::new(&shape, x.element());
        self.op(
            &ty,
            format_args!(
                "\"stablehlo.all_gather\"({x}) <{{all_gather_dim = 0 : i64, replica_groups = {}}}> : ({}) -> {ty}",
                matrix(groups),
                x.ty()
            ),
        )
    }

    /// Combine the elements of `x` of all devices of a group, and hand each of them its part of dimension 0.
    pub fn reduce_scatter(&mut self, x: &Value, combine: Combine, groups: Groups<'_>) -> Value {
        let mut shape = x.shape().to_vec();
        let n = groups[0].len();
        assert!(shape[0].is_multiple_of(n), "reduce_scatter: {} rows for {n} devices", shape[0]);
        shape[0] /= n;
        let region = self.combiner(combine, x.element());
        let ty = Type::new(&shape, x.element());
        self.op(
            &ty,
            format_args!(
                "\"stablehlo.reduce_scatter\"({x}) <{{replica_groups = {}, scatter_dimension = 0 : i64}}> {region} : \
                 ({}) -> {ty}",
                matrix(groups),
                x.ty()
            ),
        )
    }

    /// Hand each device of a group an equal part of dimension 0 of `x`. The result has the parts of all devices in
    /// their order.
    pub fn all_to_all(&mut self, x: &Value, groups: Groups<'_>) -> Value {
        let n = groups[0].len();
        assert!(x.shape()[0].is_multiple_of(n), "all_to_all: {} rows for {n} devices", x.shape()[0]);
        self.op(
            x.ty(),
            format_args!(
                "\"stablehlo.all_to_all\"({x}) <{{concat_dimension = 0 : i64, replica_groups = {}, \
                 split_count = {n} : i64, split_dimension = 0 : i64}}> : ({}) -> {}",
                matrix(groups),
                x.ty(),
                x.ty()
            ),
        )
    }

    /// Send `x` along `pairs` of a source and a target device. A device that is no target gets zeros.
    pub fn collective_permute(&mut self, x: &Value, pairs: &[(usize, usize)]) -> Value {
        let rows: Vec<Vec<usize>> = pairs.iter().map(|&(from, to)| vec![from, to]).collect();
        self.op(
            x.ty(),
            format_args!(
                "\"stablehlo.collective_permute\"({x}) <{{source_target_pairs = {}}}> : ({}) -> {}",
                matrix(&rows),
                x.ty(),
                x.ty()
            ),
        )
    }

    /// Return whether the device that runs the program is one of `devices`, as a scalar.
    pub fn is_device(&mut self, devices: &[usize]) -> Value {
        let ty = Type::new(&[], ElementType::U32);
        let own = self.op(&ty, format_args!("stablehlo.replica_id : {ty}"));
        let mut found = self.splat(0.0, &Type::new(&[], ElementType::Pred));
        for &device in devices {
            let device = self.scalar_i64(device as i64, ElementType::U32);
            let is_this = self.compare(Direction::Eq, &own, &device);
            found = self.binary("stablehlo.or", &found, &is_this);
        }
        found
    }
}
