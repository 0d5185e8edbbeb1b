//! From a form to StableHLO text.

use crate::failure::Failure;
use crate::form::{DTYPES, Form, Input, Source};
use std::panic::{AssertUnwindSafe, catch_unwind};
use torchtpu_stablehlo::{Func, Profile, Type, Value, Window};
use torchtpu_tensor::op::{Layout, Prim};
use torchtpu_tensor::{DType, Dims, ErrorKind, Meta, meta::element_type};

/// A program for the device's compiler.
pub(crate) struct Module {
    pub(crate) text: String,
    /// Types of the memory that it gets for results. The contents have no meaning.
    pub(crate) pooled: Vec<Meta>,
    /// Number of products that ask the compiler for the precision of their op.
    pub(crate) precise_products: usize,
    /// Whether its last argument and its last result are tokens: see [`crate::xla_cpu::collectives`].
    pub(crate) is_chained: bool,
}

/// Make the module that computes `outputs` of `form`. Its arguments are those of the form, one vector of numbers per
/// dtype, and memory for results. Rank `ranks[i]` runs it on device `i`. Without ranks, rank `r` is device `r`.
///
/// # Errors
/// If an op's lowering breaks a rule of StableHLO or disagrees with the op's shape rule. This is a bug of that op,
/// which the error names.
pub(crate) fn module(form: &Form, outputs: &[u32], profile: &Profile, ranks: &[usize]) -> Result<Module, Failure> {
    let overwritten = form.overwritten(outputs);
    let mut building = Building::new(form, profile, ranks);
    for &(argument, output) in &overwritten {
        building.f.alias_output(argument, output);
    }
    if profile.calls_kernels {
        building.late_readers = form.late_readers(outputs, &overwritten);
    }
    let f = &mut building.f;
    let mut pooled = Vec::new();
    for position in form.pooled(outputs, &overwritten) {
        let meta = form.values[outputs[position] as usize];
        let argument = f.arg_count();
        f.arg(meta.ty());
        f.alias_output(argument, position);
        pooled.push(meta);
    }
    let is_chained = profile.calls_collectives && form.has_effects();
    if is_chained {
        let token = f.arg(Type::new(&[], element_type(DType::I32)));
        f.set_token(token);
    }
    let needed = form.needed(outputs);
    (0..form.nodes.len()).filter(|&i| needed[i]).try_for_each(|i| building.lower_node(i))?;
    let Building { mut f, values, .. } = building;
    let mut outputs: Vec<Value> =
        outputs.iter().map(|&v| values[v as usize].clone().expect("nodes of outputs are needed")).collect();
    if is_chained {
        outputs.push(f.token());
    }
    let precise_products = f.precise_products();
    Ok(Module { text: f.finish("segment", &outputs), pooled, precise_products, is_chained })
}

/// A module under construction.
struct Building<'a> {
    form: &'a Form,
    f: Func,
    args: Vec<Value>,
    numbers: [Numbers; DTYPES],
    values: Vec<Option<Value>>,
    /// Nodes that write in place, each with a node that reads the overwritten value.
    late_readers: Vec<(usize, usize)>,
    /// Whether each node calls a kernel.
    is_call: Vec<bool>,
}

impl Building<'_> {
    /// Begin a module with the arguments of the form, and one vector of numbers for each dtype.
    fn new<'a>(form: &'a Form, profile: &Profile, ranks: &[usize]) -> Building<'a> {
        let mut f = Func::with_profile(profile);
        f.set_ranks(ranks.to_vec());
        let args: Vec<Value> = form.args.iter().map(|a| f.arg(a.meta.ty())).collect();
        let mut numbers: [Numbers; DTYPES] = [const { Numbers { vector: None, taken: Vec::new() } }; DTYPES];
        for (i, &n) in form.numbers.iter().enumerate() {
            if n > 0 {
                numbers[i].vector = Some(f.arg(Type::new(&[n as usize], element_type(DType::ALL[i]))));
                numbers[i].taken = vec![None; n as usize];
            }
        }
        let values = vec![None; form.values.len()];
        Building { form, f, args, numbers, values, late_readers: Vec::new(), is_call: vec![false; form.nodes.len()] }
    }

    /// Append the operations of a node.
    ///
    /// # Errors
    /// See [`module`].
    fn lower_node(&mut self, i: usize) -> Result<(), Failure> {
        let node = &self.form.nodes[i];
        self.f.set_precision(node.precision);
        let x: Vec<Value> = self.form.inputs_of(i).iter().map(|&input| self.read(input)).collect();
        let range = self.form.values_of(i);
        let y: &[Meta] = &self.form.values[range.clone()];
        let name = node.op.name();
        let fail = |why: String| {
            Failure::new(ErrorKind::Runtime, format!("{name}: lowering to StableHLO failed: {why}"))
                .note(format!("the op is {:?}", node.op))
        };
        // A kernel that writes in place waits for the kernels that read the overwritten value. Otherwise the compiler
        // would copy the value for them.
        let readers = self.late_readers.iter().filter(|(writer, reader)| *writer == i && self.is_call[*reader]);
        let first = |reader: usize| self.values[self.form.values_of(reader).start].clone();
        self.f.call_after(readers.filter_map(|&(_, reader)| first(reader)).collect());
        let calls = self.f.custom_calls();
        let (x, offsets) = x.split_at(x.len() - node.offsets as usize);
        let f = &mut self.f;
        let results = catch_unwind(AssertUnwindSafe(|| match offsets {
            [] => node.op.lower(f, x, y),
            _ => node.op.lower_at(f, x, y, offsets),
        }))
        .map_err(|panic| fail(text(&*panic)))?;
        self.is_call[i] = self.f.custom_calls() > calls;
        if results.len() != y.len() {
            return Err(fail(format!("{} results instead of {}", results.len(), y.len())));
        }
        for ((slot, value), meta) in self.values[range.clone()].iter_mut().zip(results).zip(y) {
            if *value.ty() != meta.ty() {
                return Err(fail(format!("the result is {}, but must be {}", value.ty(), meta.ty())));
            }
            *slot = Some(value);
        }
        if self.f.profile().calls_kernels
            && offsets.is_empty()
            && let Some(y) = &self.values[range.start]
        {
            see_through(&mut self.f, &node.op, x, y);
        }
        Ok(())
    }

    fn read(&mut self, input: Input) -> Value {
        match input.source() {
            Source::Value(i) => self.values[i].clone().expect("a needed node's inputs are needed"),
            Source::Arg(i) => self.args[i].clone(),
            Source::Number(dtype, i) => {
                let n = &mut self.numbers[dtype as usize];
                if let Some(v) = &n.taken[i] {
                    return v.clone();
                }
                let vector = n.vector.as_ref().expect("numbers are counted when they are recorded");
                let one = self.f.slice(vector, &[i], &[i + 1], &[1]);
                let scalar = self.f.reshape(&one, &[]);
                n.taken[i] = Some(scalar.clone());
                scalar
            }
        }
    }
}

/// Record in `f` the positions of the elements of `y`, a view of `x`, in the value at the start of the chain of views.
fn see_through(f: &mut Func, op: &Prim, x: &[Value], y: &Value) {
    if !op.facts().is_window {
        return;
    }
    let dims = Dims::new(x[0].shape());
    let (of, layout) = match f.window(&x[0]) {
        Some(w) => (w.of.clone(), Layout { dims, strides: Dims::new(&w.strides), offset: w.offset }),
        None => (x[0].clone(), Layout::contiguous(dims)),
    };
    // A reshape that must move elements starts a new chain of views.
    let Ok(layout) = op.layout(&layout) else { return };
    let moves = layout.strides != layout.dims.contiguous_strides() || layout.dims.numel() != of.ty().numel();
    if moves {
        f.set_window(y, Window { of, offset: layout.offset, strides: layout.strides.to_vec() });
    }
}

/// Numbers of one dtype: the vector that has them, and those already taken out.
#[derive(Default)]
struct Numbers {
    vector: Option<Value>,
    taken: Vec<Option<Value>>,
}

/// Return the text of a panic.
pub(crate) fn text(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(s), _) => s.clone(),
        (_, Some(s)) => (*s).to_string(),
        _ => "panic".to_string(),
    }
}
