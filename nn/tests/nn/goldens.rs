//! Optimisers, schedules, samplers, initialisation, losses and modules against results of PyTorch.
//!
//! The files in `tests/goldens` are recorded by `record.py` beside them. The Python library reads them too, in
//! `tests/python/nn/test_goldens.py`.

use crate::common::{devices, randn, turn};
use serde_json::Value;
use torchtpu::nn::data::{RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler};
use torchtpu::nn::optim::*;
use torchtpu::nn::*;
use torchtpu::random::manual_seed;
use torchtpu::{Backward, DType, Device, Result, Tensor};

/// One case of a file.
struct Case(Value);

impl Case {
    fn name(&self) -> &str {
        self.0["name"].as_str().unwrap()
    }
    fn setting(&self, name: &str) -> &Value {
        &self.0["settings"][name]
    }
    fn number(&self, name: &str) -> f64 {
        self.setting(name).as_f64().unwrap_or_else(|| panic!("{}: no number {name}", self.name()))
    }
    fn number_or(&self, name: &str, default: f64) -> f64 {
        self.setting(name).as_f64().unwrap_or(default)
    }
    fn int(&self, name: &str) -> i64 {
        self.setting(name).as_i64().unwrap_or_else(|| panic!("{}: no integer {name}", self.name()))
    }
    fn int_or(&self, name: &str, default: i64) -> i64 {
        self.setting(name).as_i64().unwrap_or(default)
    }
    fn count(&self, name: &str) -> usize {
        usize::try_from(self.int(name)).unwrap()
    }
    fn flag_or(&self, name: &str, default: bool) -> bool {
        self.setting(name).as_bool().unwrap_or(default)
    }
    fn pair_or(&self, name: &str, default: (f64, f64)) -> (f64, f64) {
        match self.setting(name) {
            Value::Array(v) => (v[0].as_f64().unwrap(), v[1].as_f64().unwrap()),
            _ => default,
        }
    }
    fn text_or<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.setting(name).as_str().unwrap_or(default)
    }
    fn sizes(&self, name: &str) -> Vec<usize> {
        self.setting(name).as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
    }
    fn seed(&self) {
        manual_seed(self.0["seed"].as_u64().unwrap());
    }
}

fn cases(part: &str) -> Vec<Case> {
    let path = format!("{}/../tests/goldens/{part}.json", env!("CARGO_MANIFEST_DIR"));
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let found: Vec<Case> = file["cases"].as_array().unwrap().iter().cloned().map(Case).collect();
    assert!(!found.is_empty());
    found
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
}

/// Return a recorded tensor, on `cpu`.
fn tensor(v: &Value) -> Tensor {
    let dims: Vec<usize> = v["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    match v["dtype"].as_str().unwrap() {
        "int64" => {
            let all: Vec<i64> = v["values"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
            Tensor::from_slice(&all, &dims).unwrap()
        }
        _ => {
            let all: Vec<f32> = numbers(&v["values"]).into_iter().map(|n| n as f32).collect();
            Tensor::from_slice(&all, &dims).unwrap()
        }
    }
}

#[track_caller]
fn assert_close(what: &str, x: &Tensor, recorded: &Value, tolerance: f64) {
    let wanted = tensor(recorded);
    assert_eq!(x.dims(), wanted.dims(), "{what}");
    let (x, wanted) = (x.detach().to_vec::<f64>().unwrap(), wanted.to_vec::<f64>().unwrap());
    let close = x.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= tolerance * (0.1 + b.abs()));
    assert!(close, "{what}: {x:?} against {wanted:?}");
}

fn optimizer(c: &Case, p: Vec<Parameter>) -> Result<Box<dyn Optimizer>> {
    let (lr, weight_decay, maximize) = (c.number("lr"), c.number_or("weight_decay", 0.0), c.flag_or("maximize", false));
    Ok(match c.name() {
        "SGD" => {
            let (momentum, dampening) = (c.number_or("momentum", 0.0), c.number_or("dampening", 0.0));
            let nesterov = c.flag_or("nesterov", false);
            Box::new(Sgd::new(p, SgdOptions { lr, momentum, dampening, weight_decay, nesterov, maximize })?)
        }
        "Adam" | "AdamW" => {
            let o = if c.name() == "Adam" { AdamOptions::adam() } else { AdamOptions::adamw() };
            let o = AdamOptions {
                lr,
                betas: c.pair_or("betas", o.betas),
                eps: c.number_or("eps", o.eps),
                weight_decay: c.number_or("weight_decay", o.weight_decay),
                amsgrad: c.flag_or("amsgrad", false),
                maximize,
            };
            if c.name() == "Adam" { Box::new(Adam::new(p, o)?) } else { Box::new(AdamW::new(p, o)?) }
        }
        "RMSprop" => {
            let o = RMSpropOptions::default();
            let (alpha, eps) = (c.number_or("alpha", o.alpha), c.number_or("eps", o.eps));
            let (momentum, centered) = (c.number_or("momentum", 0.0), c.flag_or("centered", false));
            Box::new(RMSprop::new(p, RMSpropOptions { lr, alpha, eps, weight_decay, momentum, centered, maximize })?)
        }
        "Adagrad" => {
            let o = AdagradOptions::default();
            let (lr_decay, eps) = (c.number_or("lr_decay", 0.0), c.number_or("eps", o.eps));
            let initial_accumulator_value = c.number_or("initial_accumulator_value", 0.0);
            let o = AdagradOptions { lr, lr_decay, weight_decay, initial_accumulator_value, eps, maximize };
            Box::new(Adagrad::new(p, o)?)
        }
        other => panic!("{other} is recorded, and not tested here"),
    })
}

#[test]
fn optimisers_equal_pytorchs() {
    for c in cases("optim") {
        for device in devices() {
            let on_device = |v: &Value| tensor(v).to_device(device).unwrap();
            let list = |v: &Value| v.as_array().unwrap().iter().map(on_device).collect::<Vec<_>>();
            let parameters: Vec<Parameter> =
                list(&c.0["parameters"]).into_iter().map(|t| Parameter::new(t).unwrap()).collect();
            let mut o = optimizer(&c, parameters.clone()).unwrap();
            let steps = c.0["steps"].as_array().unwrap();
            for (gradients, wanted) in c.0["gradients"].as_array().unwrap().iter().zip(steps) {
                for (p, g) in parameters.iter().zip(list(gradients)) {
                    p.tensor().set_grad(Some(g)).unwrap();
                }
                o.step().unwrap();
                for (p, w) in parameters.iter().zip(wanted.as_array().unwrap()) {
                    assert_close(&format!("{} {}", c.name(), c.0["settings"]), &p.tensor(), w, 1e-5);
                }
            }
        }
    }
}

fn schedule(c: &Case) -> Result<Box<dyn Schedule>> {
    let steps = |name: &str| c.int(name) as u64;
    Ok(match c.name() {
        "StepLR" => Box::new(StepLR { step_size: steps("step_size"), gamma: c.number("gamma") }),
        "MultiStepLR" => Box::new(MultiStepLR {
            milestones: c.sizes("milestones").into_iter().map(|n| n as u64).collect(),
            gamma: c.number("gamma"),
        }),
        "ExponentialLR" => Box::new(ExponentialLR { gamma: c.number("gamma") }),
        "LinearLR" => Box::new(LinearLR {
            start_factor: c.number("start_factor"),
            end_factor: c.number("end_factor"),
            total_iters: steps("total_iters"),
        }),
        "ConstantLR" => Box::new(ConstantLR { factor: c.number("factor"), total_iters: steps("total_iters") }),
        "PolynomialLR" => Box::new(PolynomialLR { total_iters: steps("total_iters"), power: c.number("power") }),
        "CosineAnnealingLR" => Box::new(CosineAnnealingLR { t_max: steps("T_max"), eta_min: c.number("eta_min") }),
        "CosineAnnealingWarmRestarts" => {
            Box::new(CosineAnnealingWarmRestarts::new(steps("T_0"), steps("T_mult"), c.number("eta_min"))?)
        }
        "CyclicLR" => {
            let o = CyclicLR::new(c.number("base_lr"), c.number("max_lr"));
            let up = steps("step_size_up");
            Box::new(CyclicLR {
                step_size_up: up,
                step_size_down: c.int_or("step_size_down", up as i64) as u64,
                mode: match c.text_or("mode", "triangular") {
                    "triangular" => CyclicMode::Triangular,
                    "triangular2" => CyclicMode::Triangular2,
                    _ => CyclicMode::ExpRange,
                },
                gamma: c.number_or("gamma", o.gamma),
                momentum: o.momentum.filter(|_| c.flag_or("cycle_momentum", true)),
                ..o
            })
        }
        "OneCycleLR" => Box::new(OneCycleLR {
            linear: c.text_or("anneal_strategy", "cos") == "linear",
            three_phase: c.flag_or("three_phase", false),
            ..OneCycleLR::new(c.number("max_lr"), steps("total_steps"))
        }),
        other => panic!("{other} is recorded, and not tested here"),
    })
}

#[test]
fn schedules_equal_pytorchs() {
    for c in cases("schedules") {
        let p = Parameter::new(Tensor::zeros(&[1], DType::F32, Device::CPU).unwrap()).unwrap();
        let (lr, momentum) = (c.0["lr"].as_f64().unwrap(), c.0["momentum"].as_f64().unwrap());
        let mut o = Sgd::new(vec![p], SgdOptions { lr, momentum, ..SgdOptions::default() }).unwrap();
        let mut s = Scheduler::new(schedule(&c).unwrap(), &mut o).unwrap();
        let wanted = numbers(&c.0["rates"]).into_iter().zip(numbers(&c.0["momenta"]));
        for (step, (rate, momentum)) in wanted.enumerate() {
            if step > 0 {
                s.step(&mut o).unwrap();
            }
            let Some(Setting::Number(m)) = o.param_groups()[0].get("momentum") else { panic!("no momentum") };
            let what = format!("{} {} at step {step}", c.name(), c.0["settings"]);
            assert!((o.lr() - rate).abs() <= 1e-12 * rate.abs(), "{what}: {} against {rate}", o.lr());
            assert!((m - momentum).abs() <= 1e-12, "{what}: momentum {m} against {momentum}");
        }
    }
}

#[test]
fn samplers_draw_the_indices_of_pytorch() {
    let _turn = turn();
    for c in cases("samplers") {
        let wanted: Vec<usize> =
            c.0["indices"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
        c.seed();
        let found = match c.name() {
            "SequentialSampler" => SequentialSampler(c.count("count")).draw(),
            "RandomSampler" => {
                let s = RandomSampler::new(c.count("count")).unwrap().replacement(c.flag_or("replacement", false));
                let n = c.int_or("num_samples", c.int("count")) as usize;
                s.num_samples(n).unwrap().draw()
            }
            "SubsetRandomSampler" => SubsetRandomSampler::new(c.sizes("indices")).draw(),
            "WeightedRandomSampler" => {
                let weights = numbers(c.setting("weights"));
                let replacement = c.flag_or("replacement", true);
                WeightedRandomSampler::new(&weights, c.count("num_samples"), replacement).unwrap().draw()
            }
            other => panic!("{other} is recorded, and not tested here"),
        };
        assert_eq!(found.unwrap(), wanted, "{} {}", c.name(), c.0["settings"]);
    }
}

#[test]
fn initialisation_draws_the_numbers_of_pytorch() {
    let _turn = turn();
    for c in cases("init") {
        let x = Tensor::zeros(tensor(&c.0["result"]).dims(), DType::F32, Device::CPU).unwrap();
        let mode = if c.text_or("mode", "fan_in") == "fan_in" { init::FanMode::FanIn } else { init::FanMode::FanOut };
        let nonlinearity = match c.text_or("nonlinearity", "leaky_relu") {
            "relu" => init::Nonlinearity::ReLU,
            _ => init::Nonlinearity::LeakyReLU(c.number_or("a", 0.0)),
        };
        c.seed();
        match c.name() {
            "uniform_" => init::uniform_(&x, c.number("a"), c.number("b"), None),
            "normal_" => init::normal_(&x, c.number("mean"), c.number("std"), None),
            "trunc_normal_" => {
                init::trunc_normal_(&x, c.number("mean"), c.number("std"), c.number("a"), c.number("b"), None)
            }
            "constant_" => init::constant_(&x, c.number("val")),
            "ones_" => init::ones_(&x),
            "zeros_" => init::zeros_(&x),
            "xavier_uniform_" => init::xavier_uniform_(&x, c.number("gain"), None),
            "xavier_normal_" => init::xavier_normal_(&x, c.number("gain"), None),
            "kaiming_uniform_" => init::kaiming_uniform_(&x, mode, nonlinearity, None),
            "kaiming_normal_" => init::kaiming_normal_(&x, mode, nonlinearity, None),
            other => panic!("{other} is recorded, and not tested here"),
        }
        .unwrap();
        assert_close(&format!("{} {}", c.name(), c.0["settings"]), &x, &c.0["result"], 1e-6);
    }
}

fn loss(c: &Case, x: &[Tensor]) -> Result<Tensor> {
    let reduction = match c.text_or("reduction", "mean") {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        _ => Reduction::Mean,
    };
    let (margin, full) = (c.number_or("margin", 0.0), c.flag_or("full", false));
    match c.name() {
        "L1Loss" => L1Loss { reduction }.forward(&x[0], &x[1]),
        "MSELoss" => MSELoss { reduction }.forward(&x[0], &x[1]),
        "SmoothL1Loss" => SmoothL1Loss { beta: c.number("beta"), reduction }.forward(&x[0], &x[1]),
        "HuberLoss" => HuberLoss { delta: c.number("delta"), reduction }.forward(&x[0], &x[1]),
        "BCELoss" => BCELoss { reduction, ..BCELoss::default() }.forward(&x[0], &x[1]),
        "BCEWithLogitsLoss" => BCEWithLogitsLoss { reduction, ..BCEWithLogitsLoss::default() }.forward(&x[0], &x[1]),
        "KLDivLoss" => {
            let log_target = c.flag_or("log_target", false);
            KLDivLoss { log_target, reduction, ..KLDivLoss::default() }.forward(&x[0], &x[1])
        }
        "PoissonNLLLoss" => {
            let log_input = c.flag_or("log_input", true);
            PoissonNLLLoss { log_input, full, reduction, ..PoissonNLLLoss::default() }.forward(&x[0], &x[1])
        }
        "GaussianNLLLoss" => {
            GaussianNLLLoss { full, reduction, ..GaussianNLLLoss::default() }.forward(&x[0], &x[1], &x[2])
        }
        "SoftMarginLoss" => SoftMarginLoss { reduction }.forward(&x[0], &x[1]),
        "HingeEmbeddingLoss" => HingeEmbeddingLoss { margin, reduction }.forward(&x[0], &x[1]),
        "CrossEntropyLoss" => {
            let label_smoothing = c.number_or("label_smoothing", 0.0);
            CrossEntropyLoss { label_smoothing, reduction, ..CrossEntropyLoss::default() }.forward(&x[0], &x[1])
        }
        "NLLLoss" => NLLLoss { reduction, ..NLLLoss::default() }.forward(&x[0], &x[1]),
        "MultiMarginLoss" => {
            MultiMarginLoss { p: c.int("p"), margin, reduction, ..MultiMarginLoss::default() }.forward(&x[0], &x[1])
        }
        "MultiLabelMarginLoss" => MultiLabelMarginLoss { reduction }.forward(&x[0], &x[1]),
        "MultiLabelSoftMarginLoss" => {
            MultiLabelSoftMarginLoss { reduction, ..MultiLabelSoftMarginLoss::default() }.forward(&x[0], &x[1])
        }
        "CosineEmbeddingLoss" => CosineEmbeddingLoss { margin, reduction }.forward(&x[0], &x[1], &x[2]),
        "MarginRankingLoss" => MarginRankingLoss { margin, reduction }.forward(&x[0], &x[1], &x[2]),
        "TripletMarginLoss" => {
            let (p, swap) = (c.number("p"), c.flag_or("swap", false));
            TripletMarginLoss { margin, p, swap, reduction, ..TripletMarginLoss::default() }
                .forward(&x[0], &x[1], &x[2])
        }
        other => panic!("{other} is recorded, and not tested here"),
    }
}

#[test]
fn losses_equal_pytorchs() {
    for c in cases("losses") {
        for device in devices() {
            let inputs: Vec<Tensor> =
                c.0["inputs"].as_array().unwrap().iter().map(|v| tensor(v).to_device(device).unwrap()).collect();
            inputs[0].requires_grad_(true).unwrap();
            let y = loss(&c, &inputs).unwrap();
            y.sum().unwrap().backward().unwrap();
            let what = format!("{} {}", c.name(), c.0["settings"]);
            assert_close(&what, &y, &c.0["result"], 1e-5);
            assert_close(&what, &inputs[0].grad().unwrap(), &c.0["gradient"], 1e-5);
        }
    }
}

fn module(c: &Case) -> Result<Box<dyn Module>> {
    Ok(match c.name() {
        "Linear" => Box::new(Linear::new(c.count("in_features"), c.count("out_features"))?),
        "Conv1d" => {
            let (stride, padding) = ([c.int_or("stride", 1)], [c.int_or("padding", 0)]);
            let o = Conv1dOptions { stride, padding, groups: c.int_or("groups", 1), ..Conv1dOptions::default() };
            Box::new(Conv1d::new(c.count("in_channels"), c.count("out_channels"), [c.count("kernel_size")], o)?)
        }
        "Conv2d" => {
            let (dilation, bias) = ([c.int_or("dilation", 1); 2], c.flag_or("bias", true));
            let o = Conv2dOptions { dilation, bias, ..Conv2dOptions::default() };
            let kernel = [c.count("kernel_size"); 2];
            Box::new(Conv2d::new(c.count("in_channels"), c.count("out_channels"), kernel, o)?)
        }
        "LayerNorm" => Box::new(LayerNorm::new(&c.sizes("normalized_shape"))?),
        "RMSNorm" => Box::new(RMSNorm::new(&c.sizes("normalized_shape"))?),
        "GroupNorm" => Box::new(GroupNorm::new(c.count("num_groups"), c.count("num_channels"))?),
        "BatchNorm1d" => Box::new(BatchNorm1d::new(c.count("num_features"))?),
        "InstanceNorm2d" => Box::new(InstanceNorm2d::new(c.count("num_features"))?),
        "PReLU" => Box::new(PReLU::new()?),
        "MaxPool2d" => Box::new(MaxPool2d::new(c.int("kernel_size"))),
        "AvgPool2d" => Box::new(AvgPool2d::new(c.int("kernel_size"))),
        "LPPool2d" => Box::new(LPPool2d::new(c.number("norm_type"), c.int("kernel_size"))),
        "AdaptiveAvgPool2d" => Box::new(AdaptiveAvgPool2d::new(c.int("output_size"))),
        "PixelShuffle" => Box::new(PixelShuffle::new(c.int("upscale_factor"))),
        "ReflectionPad1d" => Box::new(ReflectionPad1d::new(c.int("padding"))),
        other => panic!("{other} is recorded, and not tested here"),
    })
}

#[test]
fn modules_equal_pytorchs() {
    let _turn = turn();
    for c in cases("modules") {
        for device in devices() {
            c.seed();
            let m = module(&c).unwrap();
            let drawn = randn(tensor(&c.0["input"]).dims());
            assert_close(c.name(), &drawn, &c.0["input"], 0.0);
            m.to(device).unwrap();
            let x = drawn.to_device(device).unwrap();
            x.requires_grad_(true).unwrap();
            let y = m.forward(&x).unwrap();
            y.square().unwrap().sum().unwrap().backward().unwrap();
            assert_close(c.name(), &y, &c.0["result"], 1e-5);
            assert_close(c.name(), &x.grad().unwrap(), &c.0["gradient"], 1e-4);
            let state = m.state_dict();
            let wanted = c.0["state"].as_object().unwrap();
            assert_eq!(state.len(), wanted.len(), "{}", c.name());
            for (name, value) in &state {
                assert_close(&format!("{} {name}", c.name()), value, &wanted[name], 1e-5);
            }
            for (p, g) in m.parameters().iter().zip(c.0["parameter_gradients"].as_array().unwrap()) {
                assert_close(c.name(), &p.grad().unwrap(), g, 1e-4);
            }
        }
    }
}
