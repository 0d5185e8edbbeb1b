//! Algebra, tried on random cases: views against index arithmetic, broadcasting against its definition, schemas against
//! their text.
//!
//! The cases are the same in every run, so that a failure repeats. proptest shrinks a failing one before it prints it.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use torchtpu::lazy::{self, Interpret};
use torchtpu::schema::{ParamDefault, Schema, Ty};
use torchtpu::{Device, Tensor};

fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..Config::default() }
}

/// One step of a chain of views. Numbers are taken modulo what fits, so that every chain is valid.
#[derive(Clone, Copy, Debug)]
enum Step {
    Transpose(usize, usize),
    Select(usize, usize),
    Narrow(usize, usize, usize),
    Every(usize, usize, usize),
    Unsqueeze(usize),
    Expand(usize, usize),
    Diagonal(i64),
    Unfold(usize, usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..8usize;
    prop_oneof![
        (n.clone(), n.clone()).prop_map(|(a, b)| Step::Transpose(a, b)),
        (n.clone(), n.clone()).prop_map(|(d, i)| Step::Select(d, i)),
        (n.clone(), n.clone(), n.clone()).prop_map(|(d, start, len)| Step::Narrow(d, start, len)),
        (n.clone(), n.clone(), 1..4usize).prop_map(|(d, start, by)| Step::Every(d, start, by)),
        n.clone().prop_map(Step::Unsqueeze),
        (n.clone(), 1..4usize).prop_map(|(d, times)| Step::Expand(d, times)),
        (-3..4i64).prop_map(Step::Diagonal),
        (n.clone(), 1..4usize, 1..3usize).prop_map(|(d, size, by)| Step::Unfold(d, size, by)),
    ]
}

/// A view as a table: for each of its elements in row-major order, the place in the base that it shows.
#[derive(Clone, Debug)]
struct Model {
    sizes: Vec<usize>,
    places: Vec<usize>,
}

impl Model {
    fn of(sizes: &[usize]) -> Model {
        Model { sizes: sizes.to_vec(), places: (0..sizes.iter().product()).collect() }
    }

    fn place(&self, index: &[usize]) -> usize {
        self.places[index.iter().zip(&self.sizes).fold(0, |at, (i, n)| at * n + i)]
    }

    /// The view of new sizes in which `source` says where an index was before.
    fn map(&self, sizes: Vec<usize>, source: impl Fn(&[usize]) -> Vec<usize>) -> Model {
        let places = indices(&sizes).iter().map(|index| self.place(&source(index))).collect();
        Model { sizes, places }
    }
}

/// All indices of an array in row-major order.
fn indices(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &n in sizes {
        all = all.iter().flat_map(|index| (0..n).map(move |i| [&index[..], &[i]].concat())).collect();
    }
    all
}

/// Takes a step of the tensor and of the model. One that needs another rank or size changes nothing.
fn take(x: Tensor, m: Model, step: Step) -> torchtpu::Result<(Tensor, Model)> {
    let rank = m.sizes.len();
    let mut sizes = m.sizes.clone();
    Ok(match step {
        Step::Unsqueeze(d) => {
            let d = d % (rank + 1);
            sizes.insert(d, 1);
            let source = |index: &[usize]| [&index[..d], &index[d + 1..]].concat();
            (x.unsqueeze(d as i64)?, m.map(sizes, source))
        }
        _ if rank == 0 => (x, m),
        Step::Transpose(a, b) => {
            let (a, b) = (a % rank, b % rank);
            sizes.swap(a, b);
            let source = |index: &[usize]| {
                let mut index = index.to_vec();
                index.swap(a, b);
                index
            };
            (x.transpose(a as i64, b as i64)?, m.map(sizes, source))
        }
        Step::Select(d, i) if sizes[d % rank] > 0 => {
            let d = d % rank;
            let i = i % sizes.remove(d);
            let source = |index: &[usize]| [&index[..d], &[i], &index[d..]].concat();
            (x.select(d as i64, i as i64)?, m.map(sizes, source))
        }
        Step::Narrow(d, start, len) => {
            let d = d % rank;
            let start = start % (sizes[d] + 1);
            let len = len % (sizes[d] - start + 1);
            sizes[d] = len;
            (x.narrow(d as i64, start as i64, len as i64)?, m.map(sizes, |index| moved(index, d, |i| start + i)))
        }
        Step::Every(d, start, by) => {
            let d = d % rank;
            let start = start % (sizes[d] + 1);
            sizes[d] = (sizes[d] - start).div_ceil(by);
            let view = x.slice(d as i64, Some(start as i64), None, by as i64)?;
            (view, m.map(sizes, |index| moved(index, d, |i| start + by * i)))
        }
        Step::Expand(d, times) if sizes[d % rank] == 1 => {
            let d = d % rank;
            sizes[d] = times;
            let wanted: Vec<i64> = sizes.iter().map(|&n| n as i64).collect();
            (x.expand(&wanted)?, m.map(sizes, |index| moved(index, d, |_| 0)))
        }
        Step::Diagonal(offset) if rank >= 2 => {
            let (rows, columns) = (sizes[0] as i64, sizes[1] as i64);
            let (r, c) = ((-offset).max(0), offset.max(0));
            let len = (rows - r).min(columns - c).max(0) as usize;
            sizes.drain(..2);
            sizes.push(len);
            let source = |index: &[usize]| {
                let (i, rest) = index.split_last().expect("a diagonal is a dimension");
                [&[r as usize + i, c as usize + i], rest].concat()
            };
            (x.diagonal(offset, 0, 1)?, m.map(sizes, source))
        }
        Step::Unfold(d, size, by) if size <= sizes[d % rank] => {
            let d = d % rank;
            sizes[d] = (sizes[d] - size) / by + 1;
            sizes.push(size);
            let source = |index: &[usize]| {
                let (i, rest) = index.split_last().expect("a window is a dimension");
                moved(rest, d, |w| w * by + i)
            };
            (x.unfold(d as i64, size as i64, by as i64)?, m.map(sizes, source))
        }
        Step::Select(..) | Step::Expand(..) | Step::Diagonal(..) | Step::Unfold(..) => (x, m),
    })
}

fn moved(index: &[usize], d: usize, f: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index[d] = f(index[d]);
    index
}

/// Reads a chain of views, writes through it where no two elements share a place, and looks at the base.
fn check_chain(sizes: &[usize], steps: &[Step], device: Device) -> Result<(), TestCaseError> {
    let fails = |e: torchtpu::Error| TestCaseError::fail(e.to_string());
    let mut model = Model::of(sizes);
    let numbers: Vec<f32> = model.places.iter().map(|&i| i as f32).collect();
    let base = Tensor::from_slice_on(&numbers, sizes, device).map_err(fails)?;
    let mut view = base.clone();
    for &step in steps {
        (view, model) = take(view, model, step).map_err(fails)?;
    }
    prop_assert_eq!(&view.dims()[..], &model.sizes[..]);
    let seen: Vec<f32> = view.to_vec().map_err(fails)?;
    let expected: Vec<f32> = model.places.iter().map(|&i| i as f32).collect();
    prop_assert_eq!(seen, expected);
    prop_assert!(view.shares_storage(&base));

    let mut places = model.places.clone();
    places.sort_unstable();
    places.dedup();
    if places.len() == model.places.len() {
        view.add_(&Tensor::from_slice_on(&[0.5f32], &[], device).map_err(fails)?).map_err(fails)?;
        let after: Vec<f32> = base.to_vec().map_err(fails)?;
        let expected: Vec<f32> =
            (0..numbers.len()).map(|i| i as f32 + if places.binary_search(&i).is_ok() { 0.5 } else { 0.0 }).collect();
        prop_assert_eq!(after, expected);
    }
    Ok(())
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..5usize, 0..4)
}

/// The sizes of a broadcast by its definition: aligned at the end, each pair equal or one of them 1.
fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], d: usize| if d + s.len() < rank { 1 } else { s[d + s.len() - rank] };
    (0..rank)
        .map(|d| match (at(a, d), at(b, d)) {
            (m, n) if m == n => Some(m),
            (1, n) | (n, 1) => Some(n),
            _ => None,
        })
        .collect()
}

/// A parameter as it stands in a schema, and what it is read as.
fn parameter() -> impl Strategy<Value = (String, Ty, bool, ParamDefault)> {
    let ty = prop_oneof![
        Just(("Tensor", Ty::Tensor)),
        Just(("Tensor[]", Ty::TensorList)),
        Just(("int", Ty::Int)),
        Just(("SymInt[]", Ty::IntList(0))),
        Just(("int[2]", Ty::IntList(2))),
        Just(("Scalar", Ty::Scalar)),
        Just(("float", Ty::Float)),
        Just(("bool", Ty::Bool)),
        Just(("str", Ty::Str)),
        Just(("ScalarType", Ty::DType)),
    ];
    let default = prop_oneof![
        Just((String::new(), ParamDefault::Required)),
        Just(("=None".into(), ParamDefault::None)),
        any::<bool>().prop_map(|b| (if b { "=True" } else { "=False" }.into(), ParamDefault::Bool(b))),
        any::<i64>().prop_map(|i| (format!("={i}"), ParamDefault::Int(i))),
        (-1e6..1e6f64).prop_map(|f| (format!("={f:?}"), ParamDefault::Float(f))),
        prop::collection::vec(-9..9i64, 0..3).prop_map(|v| {
            let text: Vec<String> = v.iter().map(i64::to_string).collect();
            (format!("=[{}]", text.join(", ")), ParamDefault::Ints(v))
        }),
        "[a-z]{1,6}".prop_map(|s| (format!("=\"{s}\""), ParamDefault::Str(s))),
    ];
    (ty, any::<bool>(), "[a-z][a-z_]{0,5}", default).prop_map(|((ty, parsed), optional, name, (text, default))| {
        (format!("{ty}{} {name}{text}", if optional { "?" } else { "" }), parsed, optional, default)
    })
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn views_show_what_index_arithmetic_says(sizes in sizes(), steps in prop::collection::vec(step(), 0..7)) {
        check_chain(&sizes, &steps, Device::CPU)?;
    }

    #[test]
    fn broadcasts_are_as_defined(a in sizes(), b in sizes()) {
        let count = |sizes: &[usize]| {
            let numbers: Vec<f32> = (0..sizes.iter().product::<usize>()).map(|i| i as f32).collect();
            Tensor::from_slice(&numbers, sizes).expect("the numbers fit")
        };
        let sum = count(&a).add(&count(&b));
        let Some(sizes) = broadcast(&a, &b) else {
            prop_assert!(sum.is_err(), "{:?} and {:?} gave {:?}", a, b, sum);
            return Ok(());
        };
        let sum = sum.map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(&sum.dims()[..], &sizes[..]);
        let number = |from: &[usize], index: &[usize]| {
            let own = &index[index.len() - from.len()..];
            own.iter().zip(from).fold(0, |at, (&i, &n)| at * n + if n == 1 { 0 } else { i }) as f32
        };
        let expected: Vec<f32> = indices(&sizes).iter().map(|index| number(&a, index) + number(&b, index)).collect();
        prop_assert_eq!(sum.to_vec::<f32>().expect("the sum is read"), expected);
    }

    #[test]
    fn schemas_are_read_as_written(
        name in "[a-z][a-z_]{0,8}",
        overload in "([A-Z][a-z]{0,5})?",
        parameters in prop::collection::vec(parameter(), 0..6),
        positional in 0..6usize,
    ) {
        let mut parts: Vec<&str> = parameters.iter().map(|p| p.0.as_str()).collect();
        let positional = positional.min(parts.len());
        if positional < parts.len() {
            parts.insert(positional, "*");
        }
        let dot = if overload.is_empty() { "" } else { "." };
        let text = format!("{name}{dot}{overload}({}) -> Tensor", parts.join(", "));
        let schema = Schema::parse(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!((schema.name, schema.overload), (name.as_str(), overload.as_str()));
        prop_assert_eq!(schema.positional, positional);
        prop_assert_eq!(schema.params.len(), parameters.len());
        for (i, (parsed, (_, ty, optional, default))) in schema.params.iter().zip(&parameters).enumerate() {
            prop_assert_eq!((parsed.ty, parsed.optional), (*ty, *optional));
            prop_assert_eq!(&parsed.default, default);
            prop_assert_eq!(parsed.keyword_only, i >= positional);
            prop_assert!(!parsed.mutated);
        }
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn views_on_tpu_show_what_index_arithmetic_says(
        sizes in sizes(),
        steps in prop::collection::vec(step(), 0..7),
    ) {
        // Each case is another program, which the compiler would take tens of milliseconds for.
        lazy::set_interpret(Interpret::Always);
        check_chain(&sizes, &steps, torchtpu::device("tpu").expect("a device name"))?;
    }
}
