//! Random bits, custom calls, and what else stands alone.

use crate::func::{List, Types, push_quoted, put};
use crate::{ElementType, Func, Type, Value};

impl Func {
    /// Draws random bits of type `ty` (`U32` or `U64`) by Threefry from a state of two `U64`; gives the next state and the
    /// bits. The algorithm is named, so every back end draws the same.
    pub fn rng_bit_generator(&mut self, state: &Value, ty: &Type) -> (Value, Value) {
        let name = "rng_bit_generator";
        let wanted = Type::new(&[2], ElementType::U64);
        assert!(*state.ty() == wanted, "{name} (C2): the state is {}, but must be {wanted}", state.ty());
        assert!(
            matches!(ty.element, ElementType::U32 | ElementType::U64),
            "{name}: the bits are {ty}, but must be ui32 or ui64"
        );
        let results = self.op_many(
            &[wanted.clone(), ty.clone()],
            format_args!("stablehlo.{name} {state}, algorithm = THREE_FRY : ({wanted}) -> ({wanted}, {ty})"),
        );
        let [state, bits] = &results[..] else { unreachable!("two types give two values") };
        (state.clone(), bits.clone())
    }

    /// Calls `name`, which the back end must know.
    pub fn custom_call(&mut self, name: &str, args: &[Value], outs: &[Type], backend_config: &str) -> Vec<Value> {
        let mut target = String::new();
        push_quoted(&mut target, name);
        let mut attributes = String::new();
        if !backend_config.is_empty() {
            attributes.push_str(" {backend_config = ");
            push_quoted(&mut attributes, backend_config);
            attributes.push('}');
        }
        let mut types = String::new();
        match outs {
            [only] => put(&mut types, format_args!("{only}")),
            _ => put(&mut types, format_args!("({})", List(outs))),
        }
        self.op_many(
            outs,
            format_args!("stablehlo.custom_call @{target}({}){attributes} : ({}) -> {types}", List(args), Types(args)),
        )
    }
}
