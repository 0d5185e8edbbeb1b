//! Tests of every loss against numbers of PyTorch: values, gradients, reductions and errors, on `cpu` and on `tpu`.

use std::sync::Arc;
use torchtpu::nn::{
    BCELoss, BCEWithLogitsLoss, CTCLoss, CosineEmbeddingLoss, CrossEntropyLoss, GaussianNLLLoss, HingeEmbeddingLoss,
    HuberLoss, KLDivLoss, L1Loss, MSELoss, MarginRankingLoss, MultiLabelMarginLoss, MultiLabelSoftMarginLoss,
    MultiMarginLoss, NLLLoss, PoissonNLLLoss, Reduction, SmoothL1Loss, SoftMarginLoss, TripletMarginLoss,
    TripletMarginWithDistanceLoss, binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, huber_loss,
    kl_div, l1_loss, mse_loss, nll_loss, smooth_l1_loss,
};
use torchtpu::{Backward, DType, Device, ErrorKind, Result, Tensor};

/// Inputs and targets of the losses.
struct Batch {
    device: Device,
    x: Tensor,
    y: Tensor,
    z: Tensor,
    /// Log-probabilities.
    l: Tensor,
    /// Probabilities.
    u: Tensor,
    /// Zeros and ones.
    t: Tensor,
    /// Ones and minus ones.
    s: Tensor,
    /// Counts.
    n: Tensor,
    /// Classes.
    c: Tensor,
}

impl Batch {
    fn new(device: Device) -> Batch {
        let on = |data: [f32; 6]| Tensor::from_slice(&data, &[2, 3]).unwrap().to_device(device).unwrap();
        let x = on([0.5, -1.25, 2.0, -0.75, 0.25, 1.5]);
        Batch {
            device,
            y: on([0.25, 0.5, -1.0, 1.0, 0.25, -2.0]),
            z: on([0.5, 0.5, 1.0, -1.0, 0.75, 0.0]),
            l: x.log_softmax(-1).unwrap(),
            u: on([0.9, 0.2, 0.5, 0.1, 0.75, 0.4]),
            t: on([1.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
            s: on([1.0, -1.0, 1.0, -1.0, 1.0, 1.0]),
            n: on([0.0, 1.0, 3.0, 2.0, 5.0, 1.0]),
            c: Tensor::from_slice(&[2i64, 0], &[2]).unwrap().to_device(device).unwrap(),
            x,
        }
    }
    fn on(&self, data: &[f32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(data, dims).unwrap().to_device(self.device).unwrap()
    }
    fn ints(&self, data: &[i64], dims: &[usize]) -> Tensor {
        Tensor::from_slice(data, dims).unwrap().to_device(self.device).unwrap()
    }
}

fn batches() -> [Batch; 2] {
    [Batch::new(Device::CPU), Batch::new(torchtpu::device("tpu").unwrap())]
}

#[track_caller]
fn close(x: &Tensor, want: &[f64]) {
    let got = x.to_vec::<f64>().unwrap();
    let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 1e-5 * (1.0 + w.abs());
    assert!(got.len() == want.len() && got.iter().zip(want).all(near), "{got:?} against {want:?}");
}

/// Check the single losses, their sum, their mean (unless the mean is not a plain one, see below), and the gradient of
/// the sum.
#[track_caller]
fn check(b: &Batch, x: &Tensor, loss: impl Fn(&Tensor, Reduction) -> Result<Tensor>, single: &[f64], gradient: &[f64]) {
    let x = x.to_dtype(DType::F32).unwrap().detach();
    close(&loss(&x, Reduction::None).unwrap(), single);
    let total: f64 = single.iter().sum();
    let mean = loss(&x, Reduction::Mean).unwrap();
    assert_eq!(mean.device(), b.device);
    assert!(mean.item_f64().unwrap().is_finite());
    x.requires_grad_(true).unwrap();
    let sum = loss(&x, Reduction::Sum).unwrap();
    close(&sum, &[total]);
    sum.backward().unwrap();
    close(&x.grad().unwrap(), gradient);
}

#[test]
fn class_losses_equal_pytorchs() {
    for b in batches() {
        let w = || Some(b.on(&[0.5, 1.0, 2.0], &[3]));
        check(
            &b,
            &b.l,
            |x, reduction| NLLLoss { weight: w(), reduction, ..NLLLoss::default() }.forward(x, &b.c),
            &[0.465244, 1.290336],
            &[0.0, 0.0, -2.0, -0.5, 0.0, 0.0],
        );
        check(
            &b,
            &b.l,
            |x, reduction| NLLLoss { ignore_index: 0, reduction, ..NLLLoss::default() }.forward(x, &b.c),
            &[0.232622, 0.0],
            &[0.0, 0.0, -1.0, 0.0, 0.0, 0.0],
        );
        check(
            &b,
            &b.x,
            |x, reduction| {
                CrossEntropyLoss { weight: w(), label_smoothing: 0.1, reduction, ..CrossEntropyLoss::default() }
                    .forward(x, &b.c)
            },
            &[0.579192, 1.279048],
            &[0.322239, 0.02556, -0.347798, -0.423757, 0.083307, 0.34045],
        );
        check(
            &b,
            &b.x,
            |x, reduction| MultiMarginLoss { p: 2, margin: 0.7, weight: w(), reduction }.forward(x, &b.c),
            &[0.0, 1.932083],
            &[0.0, 0.0, 0.0, -1.55, 0.566667, 0.983333],
        );
        check(
            &b,
            &b.x,
            |x, reduction| MultiLabelMarginLoss { reduction }.forward(x, &b.ints(&[2, 0, -1, 1, -1, 0], &[2, 3])),
            &[0.0, 0.75],
            &[0.0, 0.0, 0.0, 0.0, -0.333333, 0.333333],
        );
        check(
            &b,
            &b.x,
            |x, reduction| MultiLabelSoftMarginLoss { weight: w(), reduction }.forward(x, &b.t),
            &[0.247608, 0.390734],
            &[-0.062923, 0.074233, -0.079469, 0.05347, -0.145941, -0.121617],
        );
    }
}

#[test]
fn the_ctc_loss_equals_pytorchs() {
    for b in batches() {
        let loss = |blank: i64, labels: &'static [i64]| {
            let target = b.ints(labels, &[1, labels.len()]);
            move |x: &Tensor, reduction| {
                let x = x.unsqueeze(1)?;
                CTCLoss { blank, reduction, ..CTCLoss::default() }.forward(&x, &target, &[2], &[labels.len() as i64])
            }
        };
        check(&b, &b.l, loss(0, &[2]), &[0.279222], &[0.008867, 0.030727, -0.039594, -0.003612, 0.205837, -0.202224]);
        check(&b, &b.l, loss(0, &[1, 2]), &[3.813294], &[0.17682, -0.969273, 0.792453, 0.075723, 0.205837, -0.28156]);
        check(&b, &b.l, loss(1, &[0]), &[2.954357], &[-0.778531, -0.013922, 0.792453, -0.225859, -0.492581, 0.71844]);
    }
}

#[test]
fn element_losses_equal_pytorchs() {
    for b in batches() {
        check(
            &b,
            &b.x,
            |x, reduction| L1Loss { reduction }.forward(x, &b.y),
            &[0.25, 1.75, 3.0, 1.75, 0.0, 3.5],
            &[1.0, -1.0, 1.0, -1.0, 0.0, 1.0],
        );
        check(
            &b,
            &b.x,
            |x, reduction| MSELoss { reduction }.forward(x, &b.y),
            &[0.0625, 3.0625, 9.0, 3.0625, 0.0, 12.25],
            &[0.5, -3.5, 6.0, -3.5, 0.0, 7.0],
        );
        check(
            &b,
            &b.x,
            |x, reduction| SmoothL1Loss { beta: 0.5, reduction }.forward(x, &b.y),
            &[0.0625, 1.5, 2.75, 1.5, 0.0, 3.25],
            &[0.5, -1.0, 1.0, -1.0, 0.0, 1.0],
        );
        check(
            &b,
            &b.x,
            |x, reduction| HuberLoss { delta: 0.5, reduction }.forward(x, &b.y),
            &[0.03125, 0.75, 1.375, 0.75, 0.0, 1.625],
            &[0.25, -0.5, 0.5, -0.5, 0.0, 0.5],
        );
        check(
            &b,
            &b.x,
            |x, reduction| SoftMarginLoss { reduction }.forward(x, &b.s),
            &[0.474077, 0.251929, 0.126928, 0.386871, 0.575939, 0.201413],
            &[-0.377541, 0.2227, -0.119203, 0.320821, -0.437824, -0.182426],
        );
        check(
            &b,
            &b.x,
            |x, reduction| HingeEmbeddingLoss { margin: 0.7, reduction }.forward(x, &b.s),
            &[0.5, 1.95, 2.0, 1.45, 0.25, 1.5],
            &[1.0, -1.0, 1.0, -1.0, 1.0, 1.0],
        );
    }
}

#[test]
fn probability_losses_equal_pytorchs() {
    for b in batches() {
        let w = || Some(b.on(&[0.5, 1.0, 2.0], &[3]));
        check(
            &b,
            &b.u,
            |x, reduction| BCELoss { weight: w(), reduction }.forward(x, &b.t),
            &[0.05268, 0.223144, 1.386294, 0.05268, 0.287682, 1.832581],
            &[-0.555556, 1.25, -4.0, 0.555556, -1.333333, -5.0],
        );
        check(
            &b,
            &b.x,
            |x, reduction| {
                BCEWithLogitsLoss { weight: w(), pos_weight: Some(b.on(&[2.0, 1.0, 3.0], &[3])), reduction }
                    .forward(x, &b.t)
            },
            &[0.474077, 0.251929, 0.761568, 0.193435, 0.575939, 1.20848],
            &[-0.377541, 0.2227, -0.715218, 0.160411, -0.437823, -1.094553],
        );
        check(
            &b,
            &b.l,
            |x, reduction| KLDivLoss { reduction, ..KLDivLoss::default() }.forward(x, &b.u),
            &[1.464535, 0.374637, -0.230263, 0.027809, 0.969743, -0.234247],
            &[-0.9, -0.2, -0.5, -0.1, -0.75, -0.4],
        );
        check(
            &b,
            &b.l,
            |x, reduction| {
                KLDivLoss { log_target: true, reduction, ..KLDivLoss::default() }.forward(x, &b.y.log_softmax(-1)?)
            },
            &[0.30675, 1.39291, -0.218623, 1.419401, 0.127404, -0.101051],
            &[-0.389025, -0.499518, -0.111457, -0.656964, -0.310328, -0.032708],
        );
    }
}

#[test]
fn likelihood_losses_equal_pytorchs() {
    for b in batches() {
        check(
            &b,
            &b.x,
            |x, reduction| PoissonNLLLoss { full: true, reduction, ..PoissonNLLLoss::default() }.forward(x, &b.n),
            &[1.648721, 1.536505, 3.153138, 2.624173, 4.804873, 2.981689],
            &[1.648721, -0.713495, 4.389056, -1.527633, -3.715975, 3.481689],
        );
        check(
            &b,
            &b.u,
            |x, reduction| {
                PoissonNLLLoss { log_input: false, eps: 0.01, reduction, ..PoissonNLLLoss::default() }.forward(x, &b.n)
            },
            &[0.9, 1.760648, 2.520034, 4.51455, 2.122184, 1.291598],
            &[1.0, -3.761905, -4.882353, -17.181818, -5.578948, -1.439024],
        );
        check(
            &b,
            &b.x,
            |x, reduction| {
                GaussianNLLLoss { full: true, reduction, ..GaussianNLLLoss::default() }.forward(
                    x,
                    &b.y,
                    &b.on(&[0.5, 0.1, 2.0, 1.0, 0.25, 3.0], &[2, 3]),
                )
            },
            &[0.634865, 15.080146, 3.515512, 2.450189, 0.225791, 3.509912],
            &[0.5, -17.5, 1.5, -1.75, 0.0, 1.166667],
        );
        check(
            &b,
            &b.x,
            |x, reduction| {
                GaussianNLLLoss { reduction, ..GaussianNLLLoss::default() }.forward(x, &b.y, &b.on(&[0.5, 2.0], &[2]))
            },
            &[-0.284074, 2.715926, 8.653426, 1.112199, 0.346574, 3.409074],
            &[0.5, -3.5, 6.0, -0.875, 0.0, 1.75],
        );
    }
}

#[test]
fn pair_and_triplet_losses_equal_pytorchs() {
    for b in batches() {
        check(
            &b,
            &b.x,
            |x, reduction| CosineEmbeddingLoss { margin: -0.9, reduction }.forward(x, &b.y, &b.ints(&[1, -1], &[2])),
            &[1.905126, 0.0],
            &[-0.168373, 0.013626, 0.050609, 0.0, 0.0, 0.0],
        );
        check(
            &b,
            &b.x,
            |x, reduction| MarginRankingLoss { margin: 0.3, reduction }.forward(x, &b.y, &b.s),
            &[0.05, 0.0, 0.0, 0.0, 0.3, 0.0],
            &[-1.0, 0.0, 0.0, 0.0, -1.0, 0.0],
        );
        check(
            &b,
            &b.x,
            |x, reduction| {
                TripletMarginLoss { margin: 1.5, p: 1.0, swap: true, reduction, ..TripletMarginLoss::default() }
                    .forward(x, &b.y, &b.z)
            },
            &[4.250002, 4.5],
            &[1.0, -1.0, 1.0, -2.0, 2.0, 0.0],
        );
        check(
            &b,
            &b.x,
            |x, reduction| {
                TripletMarginWithDistanceLoss { margin: 2.5, reduction, ..TripletMarginWithDistanceLoss::default() }
                    .forward(x, &b.z, &b.y)
            },
            &[1.033467, 0.187662],
            &[-0.071796, -0.365672, -0.36541, 0.603388, -0.312347, 0.042615],
        );
        check(
            &b,
            &b.x,
            |x, reduction| {
                TripletMarginWithDistanceLoss {
                    distance_function: Some(Arc::new(|a, b| a.sub(b)?.abs()?.amax(&[-1], false))),
                    swap: true,
                    reduction,
                    ..TripletMarginWithDistanceLoss::default()
                }
                .forward(x, &b.y, &b.z)
            },
            &[2.25, 3.0],
            &[0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
        );
    }
}
#[test]
fn means_have_pytorchs_divisors() {
    for b in batches() {
        let weight = Some(b.on(&[0.5, 1.0, 2.0], &[3]));
        // The divisors: total weight of the targets, number of targets that are not ignored, number of elements, batch
        // size.
        let loss = NLLLoss { weight: weight.clone(), ..NLLLoss::default() };
        close(&loss.forward(&b.l, &b.c).unwrap(), &[0.702232]);
        close(&NLLLoss { ignore_index: 0, ..NLLLoss::default() }.forward(&b.l, &b.c).unwrap(), &[0.232622]);
        let loss = CrossEntropyLoss { weight: weight.clone(), label_smoothing: 0.1, ..CrossEntropyLoss::default() };
        close(&loss.forward(&b.x, &b.c).unwrap(), &[0.743296]);
        close(&BCELoss { weight, ..BCELoss::default() }.forward(&b.u, &b.t).unwrap(), &[0.639177]);
        close(&KLDivLoss::default().forward(&b.l, &b.u).unwrap(), &[0.395369]);
        close(&KLDivLoss { batchmean: true, ..KLDivLoss::default() }.forward(&b.l, &b.u).unwrap(), &[1.186107]);
        close(&PoissonNLLLoss { full: true, ..PoissonNLLLoss::default() }.forward(&b.x, &b.n).unwrap(), &[2.791517]);
        close(
            &MarginRankingLoss { margin: 0.3, ..MarginRankingLoss::default() }.forward(&b.x, &b.y, &b.s).unwrap(),
            &[0.058333],
        );
    }
}

#[test]
fn functions_equal_losses_with_default_settings() {
    for b in batches() {
        let same = |f: Result<Tensor>, loss: Result<Tensor>| close(&f.unwrap(), &loss.unwrap().to_vec().unwrap());
        same(cross_entropy(&b.x, &b.c), CrossEntropyLoss::default().forward(&b.x, &b.c));
        same(nll_loss(&b.l, &b.c), NLLLoss::default().forward(&b.l, &b.c));
        same(huber_loss(&b.x, &b.y), HuberLoss::default().forward(&b.x, &b.y));
        same(smooth_l1_loss(&b.x, &b.y), SmoothL1Loss::default().forward(&b.x, &b.y));
        same(kl_div(&b.l, &b.u), KLDivLoss::default().forward(&b.l, &b.u));
        same(binary_cross_entropy(&b.u, &b.t), BCELoss::default().forward(&b.u, &b.t));
        same(binary_cross_entropy_with_logits(&b.x, &b.t), BCEWithLogitsLoss::default().forward(&b.x, &b.t));
        close(&l1_loss(&b.x, &b.y).unwrap(), &[1.708333]);
        close(&mse_loss(&b.x, &b.y).unwrap(), &[4.572917]);
    }
}

#[test]
fn the_lower_bound_of_a_variance_has_no_gradient() {
    for b in batches() {
        let var = b.on(&[0.5, 0.001, 2.0, 1.0, 0.25, 3.0], &[2, 3]);
        var.requires_grad_(true).unwrap();
        let loss = GaussianNLLLoss { eps: 0.1, reduction: Reduction::Sum, ..GaussianNLLLoss::default() };
        let y = loss.forward(&b.x, &b.y, &var).unwrap();
        close(&y, &[19.902782]);
        y.backward().unwrap();
        close(&var.grad().unwrap(), &[0.875, -148.125, -0.875, -1.03125, 2.0, -0.513889]);
        close(&var.detach(), &[0.5, 0.001, 2.0, 1.0, 0.25, 3.0]);
    }
}

#[track_caller]
fn refused(y: Result<Tensor>, kind: ErrorKind, message: &str) {
    let e = y.unwrap_err();
    assert_eq!((e.kind(), e.message()), (kind, message));
}

#[test]
fn wrong_shapes_and_settings_fail_with_pytorchs_messages() {
    use ErrorKind::{Index, Runtime, Value};
    let b = Batch::new(Device::CPU);
    let row = |x: &Tensor| x.select(0, 0).unwrap();
    refused(
        BCELoss::default().forward(&b.u, &row(&b.t)),
        Value,
        "Using a target size (torch.Size([3])) that is different to the input size (torch.Size([2, 3])) is deprecated. \
        Please ensure they have the same size.",
    );
    refused(BCELoss::default().forward(&b.x, &b.t), Runtime, "all elements of input should be between 0 and 1");
    refused(
        BCEWithLogitsLoss::default().forward(&b.x, &row(&b.t)),
        Value,
        "Target size (torch.Size([3])) must be the same as input size (torch.Size([2, 3]))",
    );
    refused(
        SmoothL1Loss { beta: -1.0, ..SmoothL1Loss::default() }.forward(&b.x, &b.y),
        Runtime,
        "smooth_l1_loss does not support negative values for beta.",
    );
    refused(
        HuberLoss { delta: 0.0, ..HuberLoss::default() }.forward(&b.x, &b.y),
        Runtime,
        "huber_loss does not support non-positive values for delta.",
    );
    refused(
        MultiMarginLoss { p: 3, ..MultiMarginLoss::default() }.forward(&b.x, &b.c),
        Value,
        "only p == 1 and p == 2 supported",
    );
    refused(
        MultiMarginLoss { weight: Some(b.y.clone()), ..MultiMarginLoss::default() }.forward(&b.x, &b.c),
        Value,
        "MultiMarginLoss: expected weight to be None or 1D tensor, got 2D instead",
    );
    refused(
        TripletMarginLoss { margin: -1.5, ..TripletMarginLoss::default() }.forward(&b.x, &b.y, &b.z),
        Value,
        "TripletMarginLoss: expected margin to be greater than 0, got -1.5 instead",
    );
    let loss = TripletMarginWithDistanceLoss { margin: -1.0, ..TripletMarginWithDistanceLoss::default() };
    refused(
        loss.forward(&b.x, &b.y, &b.z),
        Value,
        "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got -1.0 instead",
    );
    refused(
        TripletMarginWithDistanceLoss::default().forward(&b.x, &b.y, &row(&b.z)),
        Runtime,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: \
        anchor 2D, positive 2D, and negative 1D inputs",
    );
    let gauss = GaussianNLLLoss::default();
    refused(gauss.forward(&b.x, &b.y, &b.y), Value, "var has negative entry/entries");
    refused(gauss.forward(&b.x, &b.y, &b.on(&[1.0; 5], &[5])), Value, "var is of incorrect size");
    refused(
        MarginRankingLoss::default().forward(&b.x, &b.y, &row(&b.s)),
        Runtime,
        "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: torch.Size([2, 3]), \
        input2: torch.Size([2, 3]), target: torch.Size([3]) ",
    );
    let cosine = CosineEmbeddingLoss::default();
    refused(cosine.forward(&b.x, &b.y, &b.s), Runtime, "0D or 1D target tensor expected, multi-target not supported");
    refused(
        cosine.forward(&b.x, &b.y, &b.ints(&[1], &[])),
        Runtime,
        "0D target tensor expects 1D input tensors, but found inputs with sizes [2, 3] and [2, 3].",
    );
    refused(nll_loss(&b.l, &b.ints(&[3, 0], &[2])), Index, "Target 3 is out of bounds.");
    refused(
        MultiLabelMarginLoss::default().forward(&b.x, &b.c),
        Runtime,
        "inconsistent target size: [2] for input of size: [2, 3]",
    );
    refused(kl_div(&b.c, &b.c), Runtime, "kl_div: Integral inputs not supported.");
    let number = b.on(&[1.0], &[]);
    refused(
        MultiLabelSoftMarginLoss::default().forward(&number, &number),
        Index,
        "Dimension specified as -1 but tensor has no dimensions",
    );
}

#[test]
fn no_input_makes_a_loss_panic() {
    let make = |dims: &[usize], dtype: DType| Tensor::ones(dims, dtype, Device::CPU).unwrap();
    let mut all = Vec::new();
    for dims in [&[][..], &[0], &[3], &[2, 3], &[0, 3], &[2, 0], &[2, 3, 2]] {
        all.extend([DType::F32, DType::F16, DType::I64, DType::Bool, DType::C64].map(|dtype| make(dims, dtype)));
    }
    let mut given = 0;
    for x in &all {
        for t in &all {
            let two = [
                cross_entropy(x, t),
                nll_loss(x, t),
                l1_loss(x, t),
                mse_loss(x, t),
                smooth_l1_loss(x, t),
                huber_loss(x, t),
                binary_cross_entropy(x, t),
                binary_cross_entropy_with_logits(x, t),
                BCEWithLogitsLoss { weight: Some(t.clone()), pos_weight: Some(x.clone()), ..Default::default() }
                    .forward(x, t),
                KLDivLoss { batchmean: true, ..KLDivLoss::default() }.forward(x, t),
                PoissonNLLLoss { full: true, ..PoissonNLLLoss::default() }.forward(x, t),
                SoftMarginLoss::default().forward(x, t),
                HingeEmbeddingLoss::default().forward(x, t),
                MultiMarginLoss { weight: Some(x.clone()), ..MultiMarginLoss::default() }.forward(x, t),
                MultiMarginLoss::default().forward(x, t),
                MultiLabelMarginLoss::default().forward(x, t),
                MultiLabelSoftMarginLoss { weight: Some(t.clone()), ..Default::default() }.forward(x, t),
            ];
            given += two.iter().filter(|y| y.is_ok()).count();
            for z in all.iter().step_by(3) {
                let three = [
                    GaussianNLLLoss::default().forward(x, t, z),
                    CosineEmbeddingLoss::default().forward(x, t, z),
                    MarginRankingLoss::default().forward(x, t, z),
                    TripletMarginLoss { swap: true, ..TripletMarginLoss::default() }.forward(x, t, z),
                    TripletMarginWithDistanceLoss { swap: true, ..Default::default() }.forward(x, t, z),
                ];
                given += three.iter().filter(|y| y.is_ok()).count();
            }
        }
    }
    assert!(given > 1000, "{given}");
}
