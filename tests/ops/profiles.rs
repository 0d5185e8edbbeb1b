//! Every op of every sample is lowered for every platform, and for platforms with one capability more or less. The
//! programs are parsed, and not run.

use crate::axes::{is_beyond, metas, other_calls, run};
use crate::samples::{Call, every_call};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use torchtpu::comm::Group;
use torchtpu::op::Prim;
use torchtpu::ops::collective::{Collective, Kind, Reduction};
use torchtpu::{DType, Device, Meta};
use torchtpu_pjrt::{Client, CompileOptions, OptionValue, Plugin};
use torchtpu_stablehlo::{Func, Precision, Profile};

/// An op, and what it reads and computes.
struct Question {
    op: Prim,
    x: Vec<Meta>,
    y: Vec<Meta>,
}

/// Return the program of an op, or `None` if the op has no lowering and is expanded instead.
fn lower(question: &Question, profile: &Profile) -> Result<Option<String>, String> {
    let Question { op, x, y } = question;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut f = Func::with_profile(profile);
        f.set_precision(Precision::High);
        let x: Vec<_> = x.iter().map(|x| f.arg(x.ty())).collect();
        let results = op.lower(&mut f, &x, y);
        let is_right = results.len() == y.len() && results.iter().zip(y).all(|(r, y)| *r.ty() == y.ty());
        (is_right, f.finish("one", &results))
    }));
    match outcome {
        Ok((true, text)) => Ok(Some(text)),
        Ok((false, text)) => Err(format!("the results must be {y:?}:\n{text}")),
        Err(panic) => match panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref().copied()) {
            Some("asked for first") => Ok(None),
            why => Err(format!("panic: {why:?}")),
        },
    }
}

/// Return the collectives of two ranks, which no sample has.
fn collectives() -> Vec<Question> {
    let group = Group::new(1, vec![vec![0, 1]]);
    let meta = |rows: usize| Meta::new(&[rows, 3], DType::F32, Device::CPU);
    let kinds = [
        (Kind::AllReduce(Reduction::Sum), 4),
        (Kind::Reduce { by: Reduction::Max, to: 1 }, 4),
        (Kind::Broadcast { from: 0 }, 4),
        (Kind::AllGather, 8),
        (Kind::ReduceScatter(Reduction::Sum), 2),
        (Kind::AllToAll { sent: vec![2, 2], received: vec![2, 2] }, 4),
        (Kind::Permute { pairs: vec![(0, 1), (1, 0)] }, 4),
    ];
    let of = |(kind, rows)| Question {
        op: Prim::Collective(Box::new(Collective { kind, group: group.clone() })),
        x: vec![meta(4), Meta::new(&[], DType::I64, Device::CPU)],
        y: vec![meta(rows)],
    };
    kinds.into_iter().map(of).collect()
}

/// Whether an op is always recorded as its expansion. It has a lowering for other attributes only.
fn is_expanded(op: &Prim) -> bool {
    matches!(op, Prim::BatchNorm(norm) if !norm.train)
}

/// Return the ops that forward and backward of all samples run.
fn questions() -> Vec<Question> {
    let (mut seen, mut found) = (BTreeSet::new(), collectives());
    let mut look = |call: Call| {
        let (op, x) = (&call.op, metas(&call.x));
        let is_new = seen.insert(format!("{op:?} {x:?}"));
        if is_new && !op.facts().has_effects && !is_beyond(&call) && !is_expanded(op) {
            let y = run(op, &call.x).unwrap_or_else(|e| panic!("{op:?}: {e}"));
            found.push(Question { op: op.clone(), x, y: metas(&y) });
        }
    };
    every_call(&mut look);
    other_calls().into_iter().for_each(&mut look);
    found
}

/// Stands between the names of a profile and of its flipped capability.
const OTHER: &str = " with the other ";

/// Return the profiles, and copies of them with one capability flipped, each with a name. Programs call kernels for
/// the smallest work, since samples are small.
fn profiles() -> Vec<(String, Profile)> {
    // Lowerings read neither names nor options, so platforms that differ in these get the same programs.
    let mut known = HashSet::new();
    let mut is_new = |p: &Profile| known.insert(Profile { name: "", options: &[], ..*p });
    let constants = [Profile::XLA_CPU, Profile::TPU, Profile::GPU, Profile::UNKNOWN];
    let constants = constants.map(|p| Profile { least_call_work: 1, ..p });
    let mut found: Vec<(String, Profile)> =
        constants.into_iter().filter(&mut is_new).map(|p| (p.name.to_string(), p)).collect();
    for (name, of) in found.clone() {
        for (capability, field) in Profile::CAPABILITIES {
            let mut flipped = of;
            *field(&mut flipped) ^= true;
            if is_new(&flipped) {
                found.push((format!("{name}{OTHER}{capability}"), flipped));
            }
        }
    }
    found
}

/// Parse programs as functions of one module, which the compiler then drops.
fn parse(client: &std::sync::Arc<Client>, programs: &[String]) -> Result<(), String> {
    let mut module = String::from("module @many {\n");
    for (i, program) in programs.iter().enumerate() {
        let lines: Vec<&str> = program.trim_end().lines().collect();
        let body = lines[1..lines.len() - 1].join("\n");
        module.push_str(&body.replacen("func.func public @main", &format!("func.func private @p{i}"), 1));
        module.push('\n');
    }
    module.push_str("func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n return %x : tensor<f32>\n}\n}\n");
    client.compile(&module, &CompileOptions::default()).map(drop).map_err(|e| e.message().to_string())
}

#[test]
fn every_sample_is_lowered_for_every_platform() {
    let (questions, profiles) = (questions(), profiles());
    let (mut programs, mut failures) = (BTreeMap::new(), Vec::new());
    // The capabilities that change a program.
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    for question in &questions {
        let mut text_of: BTreeMap<&str, String> = BTreeMap::new();
        for (name, profile) in &profiles {
            let at = || format!("{:?} of {:?} for {name}", question.op, question.x);
            match lower(question, profile) {
                Ok(None) => break,
                Ok(Some(text)) => {
                    match name.split_once(OTHER) {
                        Some((of, capability)) if text_of[of] != text => drop(asked.insert(capability)),
                        Some(_) => {}
                        None => drop(text_of.insert(name, text.clone())),
                    }
                    programs.entry(text).or_insert_with(at);
                }
                Err(e) => failures.push(format!("{}: {e}", at())),
            }
        }
    }
    println!("{} calls, {} profiles, {} programs", questions.len(), profiles.len(), programs.len());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let unasked: Vec<&str> = Profile::CAPABILITIES.iter().map(|c| c.0).filter(|c| !asked.contains(c)).collect();
    assert_eq!(unasked, NOT_LOWERED, "capabilities that change no program");
    let plugin = Plugin::find(None).expect("a plugin");
    let client = Client::create(&plugin, &[("cpu_device_count", OptionValue::Int64(1))]).expect("a client");
    let (texts, names): (Vec<String>, Vec<String>) = programs.into_iter().unzip();
    let wrong =
        "module @one {\nfunc.func public @main(%a: tensor<2xf32>) -> tensor<3xf32> {\nreturn %a : tensor<3xf32>\n}\n}";
    assert!(parse(&client, &[wrong.to_string()]).is_err());
    let mut refused = Vec::new();
    for (texts, names) in texts.chunks(PARSED_TOGETHER).zip(names.chunks(PARSED_TOGETHER)) {
        if parse(&client, texts).is_ok() {
            continue;
        }
        for (text, name) in texts.iter().zip(names) {
            if let Err(e) = parse(&client, std::slice::from_ref(text)) {
                refused.push(format!("{name}: {e}\n{text}"));
            }
        }
    }
    assert!(refused.is_empty(), "{} programs are refused:\n{}", refused.len(), refused.join("\n"));
}

/// Number of programs in one module.
const PARSED_TOGETHER: usize = 500;

/// The capabilities that decide which ops are recorded, or what the engine does.
const NOT_LOWERED: &[&str] = &[
    "lowers_attention",
    "lowers_batch_norm",
    "runs_on_host",
    "shares_memory",
    "interprets",
    "pools",
    "compiles_whole_steps",
    "records_lines",
    "hints_at_precision",
];
