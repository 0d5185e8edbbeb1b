//! Kernels of the fused neural network ops against their expansions.

use torchtpu_tensor::op::{F64, Prim};
use torchtpu_tensor::ops::attention::{Attention, AttentionBackward};
use torchtpu_tensor::ops::conv::{ConvInputGrad, ConvSpec, ConvWeightGrad};
use torchtpu_tensor::ops::loss::CrossEntropy;
use torchtpu_tensor::ops::norm::{BatchNorm, LayerNorm, LayerNormBackward};
use torchtpu_tensor::{Dims, Tensor, dispatch, no_grad};

fn t(dims: &[usize], k: usize) -> Tensor {
    let n: usize = dims.iter().product();
    let v: Vec<f64> = (0..n).map(|i| ((i * 7919 + k * 104_729 + 13) % 1009) as f64 / 504.5 - 1.0).collect();
    Tensor::from_slice(&v, dims).unwrap()
}

/// Runs an op both ways and gives the kernel's results.
fn check(op: Prim, x: &[&Tensor]) -> Vec<Tensor> {
    let name = op.name();
    let (a, b) = no_grad(|| (dispatch::call_n(op.clone(), x).unwrap(), op.expand(x).unwrap()));
    assert_eq!(a.len(), b.len(), "{name}");
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        assert_eq!(a.meta(), b.meta(), "{name}: output {i}");
        let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
        for (a, b) in a.iter().zip(&b) {
            assert!(a == b || (a - b).abs() < 1e-9 * (1.0 + a.abs()), "{name}: output {i}: {a} and {b}");
        }
    }
    a.to_vec()
}

#[test]
fn gradients_of_convolutions_are_convolutions() {
    for (reverse, stride, dilation) in [(false, 1, 1), (false, 2, 1), (true, 2, 1), (true, 1, 2)] {
        let mut of = ConvSpec { spatial: 2, groups: 2, reverse, ..ConvSpec::default() };
        (of.stride, of.w_dilation) = ([stride, 1, 1], [1, dilation, 1]);
        of.pad = [(1, 0), (0, 2), (0, 0)];
        let (x, w) = (t(&[2, 4, 6, 5], 1), t(&[6, 2, 3, 2], 2));
        let out = [of.output_size(0, 6, 3), of.output_size(1, 5, 2)];
        let g = t(&[2, 6, out[0], out[1]], 3);
        check(Prim::ConvInputGrad(Box::new(ConvInputGrad { of, x: *x.dims() })), &[&g, &w]);
        check(Prim::ConvWeightGrad(Box::new(ConvWeightGrad { of, w: *w.dims() })), &[&x, &g]);
    }
}

#[test]
fn normalisations_agree_with_their_formulas() {
    let (x, w, b) = (t(&[3, 4, 5], 1), t(&[5], 2), t(&[5], 3));
    for rms in [false, true] {
        let of = LayerNorm { shape: Dims::new(&[5]), eps: F64::new(1e-5), rms, weight: true, bias: !rms };
        let inputs: &[&Tensor] = if rms { &[&x, &w] } else { &[&x, &w, &b] };
        let y = check(Prim::LayerNorm(Box::new(of)), inputs);
        let wanted = if rms { 0b011 } else { 0b111 };
        check(
            Prim::LayerNormBackward(Box::new(LayerNormBackward { of, wanted })),
            &[&t(&[3, 4, 5], 4), &x, &y[1], &y[2], &w],
        );
    }
    let (w, b) = (t(&[4], 5), t(&[4], 6));
    let of = BatchNorm { train: true, eps: F64::new(1e-5), weight: true, bias: true };
    check(Prim::BatchNorm(of), &[&x, &w, &b]);
}

#[test]
fn attention_and_cross_entropy_agree_with_their_formulas() {
    let (q, k, v) = (t(&[1, 2, 3, 4], 1), t(&[1, 2, 5, 4], 2), t(&[1, 2, 5, 3], 3));
    for is_causal in [false, true] {
        let of = Attention { scale: F64::new(0.5), is_causal, mask: false, rows_first: false, keeps_output: false };
        let y = check(Prim::Attention(of), &[&q, &k, &v]);
        let g = t(&[1, 2, 3, 3], 4);
        check(Prim::AttentionBackward(AttentionBackward { of }), &[&g, &q, &k, &v, &y[1]]);
        // The same heads behind one another in each row.
        let of = Attention { rows_first: true, ..of };
        let [g, q, k, v] = [&g, &q, &k, &v].map(|x| x.transpose(1, 2).unwrap());
        let turned = check(Prim::Attention(of), &[&q, &k, &v]);
        assert_eq!(turned[0].transpose(1, 2).unwrap().to_vec::<f32>().unwrap(), y[0].to_vec::<f32>().unwrap());
        check(Prim::AttentionBackward(AttentionBackward { of }), &[&g, &q, &k, &v, &turned[1]]);
    }
    let target = Tensor::from_slice(&[1i64, -100, 3], &[3]).unwrap();
    let op = CrossEntropy { weight: true, ignore_index: -100, smoothing: F64::new(0.1) };
    let weight = t(&[5], 5).abs().unwrap();
    check(Prim::CrossEntropy(op), &[&t(&[3, 5], 6), &target, &weight]);
    let wrong = Tensor::from_slice(&[1i64, 12, 3], &[3]).unwrap();
    let e = dispatch::call_n(Prim::CrossEntropy(op), &[&t(&[3, 5], 6), &wrong, &weight]).unwrap_err();
    assert_eq!(e.message(), "Target 12 is out of bounds.");
}
