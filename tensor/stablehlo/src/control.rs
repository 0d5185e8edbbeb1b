//! Loops and branches.

use crate::func::{List, Types, put};
use crate::{ElementType, Func, Type, Value};

impl Func {
    /// Repeat `body` on the carried values while `cond` is true for them. Return the last carried values.
    ///
    /// Both closures get the carried values and append to the same function, whose other values they may use. `cond`
    /// returns a boolean scalar, `body` the next carried values, of the same types.
    pub fn while_loop(
        &mut self,
        init: &[Value],
        cond: impl FnOnce(&mut Func, &[Value]) -> Value,
        body: impl FnOnce(&mut Func, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = init.iter().map(|value| value.ty().clone()).collect();
        let (cond, _) = self.region(
            &types,
            |f, carried| vec![cond(f, carried)],
            |results| {
                let fits = matches!(results, [p] if p.rank() == 0 && p.element() == ElementType::Pred);
                assert!(fits, "while (C1): the condition is {}, but must be tensor<i1>", Types(results));
            },
        );
        let (body, _) = self.region(&types, body, |results| {
            let fits = results.iter().map(Value::ty).eq(&types);
            assert!(fits, "while (C2): the body gives ({}), but must give ({})", Types(results), List(&types));
        });
        self.op_many(
            &types,
            format_args!(
                "\"stablehlo.while\"({}) ({cond}, {body}) : ({}) -> ({})",
                List(init),
                List(&types),
                List(&types)
            ),
        )
    }

    /// Compute `on_true` if the scalar `pred` is true, else `on_false`. Both return values of the same types, and may
    /// use the function's other values. Unlike [`Func::select`], only one side runs.
    pub fn if_else(
        &mut self,
        pred: &Value,
        on_true: impl FnOnce(&mut Func) -> Vec<Value>,
        on_false: impl FnOnce(&mut Func) -> Vec<Value>,
    ) -> Vec<Value> {
        let is_condition = pred.rank() == 0 && pred.element() == ElementType::Pred;
        assert!(is_condition, "if (I1): the predicate is {}, but must be tensor<i1>", pred.ty());
        let (on_true, types) = self.region(&[], |f, _| on_true(f), |_| ());
        let (on_false, _) = self.region(
            &[],
            |f, _| on_false(f),
            |results| {
                let fits = results.iter().map(Value::ty).eq(&types);
                assert!(fits, "if (C2): the branches give ({}) and ({})", List(&types), Types(results));
            },
        );
        self.op_many(
            &types,
            format_args!("\"stablehlo.if\"({pred}) ({on_true}, {on_false}) : ({}) -> ({})", pred.ty(), List(&types)),
        )
    }

    /// Keep the compiler from moving or merging operations across this point. Return the operands.
    pub fn optimization_barrier(&mut self, operands: &[Value]) -> Vec<Value> {
        let types: Vec<Type> = operands.iter().map(|value| value.ty().clone()).collect();
        self.op_many(&types, format_args!("stablehlo.optimization_barrier {} : {}", List(operands), Types(operands)))
    }

    /// Build a region of one block with arguments of `types`. Return its text and the types it returns.
    fn region(
        &mut self,
        types: &[Type],
        build: impl FnOnce(&mut Func, &[Value]) -> Vec<Value>,
        check: impl FnOnce(&[Value]),
    ) -> (String, Vec<Type>) {
        let outer = self.enter_region();
        let args: Vec<Value> = types.iter().map(|ty| self.fresh(ty)).collect();
        let results = build(self, &args);
        check(&results);
        let body = self.leave_region(outer);
        let mut text = String::from("{\n");
        if !args.is_empty() {
            text.push_str("    ^bb0(");
            for (i, arg) in args.iter().enumerate() {
                put(&mut text, format_args!("{}{arg}: {}", if i > 0 { ", " } else { "" }, arg.ty()));
            }
            text.push_str("):\n");
        }
        text.push_str(&body);
        if results.is_empty() {
            text.push_str("    stablehlo.return\n    }");
        } else {
            put(&mut text, format_args!("    stablehlo.return {} : {}\n    }}", List(&results), Types(&results)));
        }
        (text, results.iter().map(|value| value.ty().clone()).collect())
    }
}
