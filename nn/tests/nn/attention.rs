//! Tests of attention and the transformer against numbers of PyTorch from the same seeds.

use crate::common::{close, devices, names, ones, randn, refused, turn};
use torchtpu::nn::{
    Activation, AttentionMask, Module, MultiheadAttention, MultiheadAttentionOptions, Transformer, TransformerDecoder,
    TransformerDecoderLayer, TransformerEncoderLayer, TransformerOptions, Visitor, generate_square_subsequent_mask,
};
use torchtpu::random::manual_seed;
use torchtpu::{Backward, DType, Device, ErrorKind, Result, Tensor};

fn mask(rows: &[[bool; 3]]) -> Tensor {
    Tensor::from_slice(&rows.concat(), &[rows.len(), 3]).unwrap()
}

#[test]
fn attention_ignores_masked_positions() {
    let _turn = turn();
    for device in devices() {
        let on = |x: Tensor| x.to_device(device).unwrap();
        manual_seed(1);
        let o = MultiheadAttentionOptions { batch_first: true, ..MultiheadAttentionOptions::default() };
        let m = MultiheadAttention::with_options(8, 2, o).unwrap();
        m.to(device).unwrap();
        let x = on(randn(&[2, 3, 8]));
        let padding = on(mask(&[[false, false, true], [false, true, false]]));
        let later = on(mask(&[[false, true, true], [false, false, true], [false, false, false]]));
        let none = AttentionMask::default();
        let kpm = AttentionMask { key_padding_mask: Some(&padding), ..none };
        let (y, w) = m.attend_with_weights(&x, &x, &x, kpm, true).unwrap();
        let want = [0.535438, -0.162929, -0.194509, 0.101953, 0.488506, 0.033671];
        close(&y, &want);
        close(&m.attend(&x, &x, &x, kpm).unwrap(), &want);
        close(&w, &[0.567279, 0.432721, 0.0, 0.39745, 0.602551, 0.0, 0.35662, 0.64338, 0.0, 0.656633, 0.0, 0.343367]);
        assert_eq!(w.dims()[..], [2, 3, 3]);
        let want = [0.768209, -0.158713, -0.196218, 0.263065, 0.622681, 0.154345];
        let (y, w) = m.attend_with_weights(&x, &x, &x, AttentionMask { mask: Some(&later), ..none }, false).unwrap();
        close(&y, &want);
        close(&w, &[1.0, 0.0, 0.0, 0.43474, 0.56526, 0.0, 0.269105, 0.486414, 0.244481, 1.0, 0.0, 0.0]);
        assert_eq!(w.dims()[..], [2, 2, 3, 3]);
        // The same mask in other forms.
        close(&m.attend(&x, &x, &x, AttentionMask { is_causal: true, ..none }).unwrap(), &want);
        close(&m.attend(&x, &x, &x, AttentionMask { mask: Some(&later), ..kpm }).unwrap(), &want);
        close(&m.attend(&x, &x, &x, AttentionMask { is_causal: true, ..kpm }).unwrap(), &want);
        let float = generate_square_subsequent_mask(3, DType::F32, device).unwrap();
        close(&m.attend(&x, &x, &x, AttentionMask { mask: Some(&float), ..none }).unwrap(), &want);
        let each: Vec<f32> = (0..36).map(|v| v as f32 / 10.0).collect();
        let each = on(Tensor::from_slice(&each, &[4, 3, 3]).unwrap());
        let y = m.attend(&x, &x, &x, AttentionMask { mask: Some(&each), ..none }).unwrap();
        close(&y, &[0.353659, -0.063908, 0.015604, 0.129785, 0.101329, 0.102135]);
        let row = x.select(0, 0).unwrap();
        let (y, w) = m.attend_with_weights(&row, &row, &row, none, true).unwrap();
        close(&y, &[0.377697, -0.074095, -0.003567, 0.136055, 0.137578, 0.09911]);
        close(&w, &[0.382101, 0.288067, 0.329832, 0.262644, 0.389812, 0.347544, 0.258064, 0.465614, 0.276322]);
        assert_eq!((y.dims()[..].to_vec(), w.dims()[..].to_vec()), (vec![3, 8], vec![3, 3]));

        manual_seed(1);
        let o = MultiheadAttentionOptions {
            kdim: Some(5),
            vdim: Some(3),
            add_bias_kv: true,
            add_zero_attn: true,
            batch_first: false,
            ..MultiheadAttentionOptions::default()
        };
        let m = MultiheadAttention::with_options(8, 2, o).unwrap();
        m.to(device).unwrap();
        let (q, k, v) = (on(randn(&[3, 2, 8])), on(randn(&[4, 2, 5])), on(randn(&[4, 2, 3])));
        let padding = [false, false, true, false, false, true, false, false];
        let padding = on(Tensor::from_slice(&padding, &[2, 4]).unwrap());
        let kpm = AttentionMask { key_padding_mask: Some(&padding), ..none };
        let want = [-0.027803, 0.062188, 0.160446, 0.068063, -0.081484, 0.075841];
        let (y, w) = m.attend_with_weights(&q, &k, &v, kpm, true).unwrap();
        close(&y, &want);
        close(&w, &[0.156323, 0.21023, 0.0, 0.143552, 0.286726, 0.203169, 0.08859, 0.199332, 0.0, 0.106491]);
        let y = m.attend(&q, &k, &v, kpm).unwrap();
        close(&y, &want);
        y.square().unwrap().sum().unwrap().backward().unwrap();
        let g = m.bias_k.as_ref().unwrap().grad().unwrap();
        close(&g, &[-0.006309, 0.003919, -0.010611, -0.004477, -0.019939, -0.003897, -0.019192, 0.024983]);
        let all = ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v"];
        assert_eq!(names(&m)[..6], all);
    }
}

#[test]
fn attention_refuses_wrong_shapes_and_masks() {
    let _turn = turn();
    use ErrorKind::{Runtime, Value};
    refused(MultiheadAttention::new(8, 3, 0.0, true), Value, "embed_dim must be divisible by num_heads");
    refused(
        MultiheadAttention::new(8, 0, 0.0, true),
        Value,
        "embed_dim and num_heads must be greater than 0, got embed_dim=8 and num_heads=0 instead",
    );
    let too_much = "dropout probability has to be between 0 and 1, but got 1.5";
    refused(MultiheadAttention::new(8, 2, 1.5, true), Value, too_much);
    let o = TransformerOptions { dropout: 1.5, ..TransformerOptions::default() };
    refused(TransformerEncoderLayer::new(8, 2, o), Value, too_much);
    let o = MultiheadAttentionOptions { batch_first: true, ..MultiheadAttentionOptions::default() };
    let m = MultiheadAttention::with_options(8, 2, o).unwrap();
    let (x, none) = (ones(&[2, 3, 8]), AttentionMask::default());
    let row = ones(&[8]);
    refused(
        m.attend(&row, &x, &x, none),
        Value,
        "query should be unbatched 2D or batched 3D tensor but received 1-D query tensor",
    );
    refused(
        m.attend(&x, &ones(&[3, 8]), &x, none),
        Value,
        "For batched (3-D) `query`, expected `key` and `value` to be 3-D but found 2-D and 3-D tensors respectively",
    );
    refused(
        m.attend(&x, &x, &x, AttentionMask { key_padding_mask: Some(&row), ..none }),
        Value,
        "For batched (3-D) `query`, expected `key_padding_mask` to be `None` or 2-D but found 1-D tensor instead",
    );
    refused(m.forward(&ones(&[2, 3, 5])), Value, "was expecting embedding dimension of 8, but got 5");
    assert!(m.attend(&x, &ones(&[2, 3, 5]), &ones(&[2, 3, 5]), none).is_err());
    assert!(m.attend(&x, &ones(&[1, 3, 8]), &ones(&[1, 3, 8]), none).is_err());
    let masked = |dims: &[usize]| {
        let all = ones(dims);
        m.attend(&x, &x, &x, AttentionMask { mask: Some(&all), ..none })
    };
    refused(masked(&[3, 2]), Runtime, "The shape of the 2D attn_mask is torch.Size([3, 2]), but should be (3, 3).");
    refused(
        masked(&[3, 3, 2]),
        Runtime,
        "The shape of the 3D attn_mask is torch.Size([3, 3, 2]), but should be (4, 3, 3).",
    );
    refused(
        masked(&[3]),
        Value,
        "For batched (3-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found 1-D tensor instead",
    );
    assert!(masked(&[7, 7, 3, 3]).is_err());
    refused(
        m.attend(&x, &x, &x, AttentionMask { key_padding_mask: Some(&ones(&[2, 4])), ..none }),
        Value,
        "Expected key_padded_mask.shape[1] to be 3, but got 4",
    );
    let ints = Tensor::ones(&[3, 3], DType::I64, Device::CPU).unwrap();
    refused(
        m.attend(&x, &x, &x, AttentionMask { mask: Some(&ints), ..none }),
        Value,
        "only bool and floating types of attn_mask are supported",
    );
    // Use no keys, then no queries.
    assert_eq!(m.forward(&ones(&[0, 3, 8])).unwrap().dims()[..], [0, 3, 8]);
    assert_eq!(m.forward(&ones(&[2, 0, 8])).unwrap().dims()[..], [2, 0, 8]);
}

#[test]
fn a_transformer_equals_pytorchs() {
    let _turn = turn();
    let o =
        TransformerOptions { dim_feedforward: 16, dropout: 0.0, batch_first: true, ..TransformerOptions::default() };
    let none = AttentionMask::default();
    for device in devices() {
        let on = |x: Tensor| x.to_device(device).unwrap();
        manual_seed(1);
        let t = Transformer::new(8, 2, 2, 2, o).unwrap();
        t.to(device).unwrap();
        let (src, tgt) = (on(randn(&[2, 3, 8])), on(randn(&[2, 4, 8])));
        let later = on(Transformer::generate_square_subsequent_mask(4).unwrap());
        let y = t.transform(&src, &tgt, none, AttentionMask { mask: Some(&later), ..none }, none).unwrap();
        close(&y, &[-0.504813, -1.368723, -0.832751, 0.192085, 0.09182, 0.369823]);
        y.square().unwrap().sum().unwrap().backward().unwrap();
        let all = t.named_parameters();
        let get = |key: &str| all.iter().find(|(name, _)| name == key).unwrap().1.clone();
        assert_eq!((all.len(), all[2].0.as_str()), (64, "encoder.layers.0.self_attn.out_proj.weight"));
        assert_eq!(all[63].0, "decoder.norm.bias");
        assert!(all.iter().all(|(_, p)| p.grad().is_some()));
        close(&get("encoder.layers.1.linear1.bias").tensor(), &[0.05063, -0.167177, 0.351216, 0.007561]);
        close(&get("decoder.layers.1.linear2.weight").tensor(), &[0.229596, 0.241653, -0.406347, 0.169972]);
        assert!(!get("encoder.layers.1.linear1.bias").is_same(&get("encoder.layers.0.linear1.bias")));

        manual_seed(1);
        let turned = TransformerOptions { norm_first: true, batch_first: false, activation: Activation::GELU, ..o };
        let t = Transformer::new(8, 2, 1, 1, turned).unwrap();
        t.to(device).unwrap();
        let (src, tgt) = (on(randn(&[3, 2, 8])), on(randn(&[4, 2, 8])));
        let padding = on(mask(&[[false, false, true], [false, true, false]]));
        let kpm = AttentionMask { key_padding_mask: Some(&padding), ..none };
        let y = t.transform(&src, &tgt, kpm, none, kpm).unwrap();
        close(&y, &[0.841927, -0.378955, -1.945611, -0.42529, 0.520162, 0.09067]);
        refused(
            t.transform(&src, &tgt.narrow(1, 0, 1).unwrap(), none, none, none),
            ErrorKind::Runtime,
            "the batch number of src and tgt must be equal",
        );
        refused(
            t.transform(&src, &on(ones(&[4, 2, 7])), none, none, none),
            ErrorKind::Runtime,
            "the feature number of src and tgt must be equal to d_model",
        );

        manual_seed(1);
        let layer = TransformerDecoderLayer::new(8, 2, o).unwrap();
        let decoder = TransformerDecoder::new(&layer, 2, None).unwrap();
        decoder.to(device).unwrap();
        let (x, memory) = (on(randn(&[2, 3, 8])), on(randn(&[2, 4, 8])));
        let y = decoder.decode(&x, &memory, none, none).unwrap();
        close(&y, &[-0.145798, 1.218888, -1.589225, -0.656001, 1.657581, 0.523573]);
    }
}

/// A user-defined module that contains a decoder layer.
struct Reader {
    layer: TransformerDecoderLayer,
}

impl Module for Reader {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.layer.decode(x, x, AttentionMask::default(), AttentionMask::default())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("layer", &self.layer);
    }
}

#[test]
fn a_decoder_layer_is_a_module() {
    let _turn = turn();
    let o = TransformerOptions { dim_feedforward: 4, ..TransformerOptions::default() };
    let reader = Reader { layer: TransformerDecoderLayer::new(4, 2, o).unwrap() };
    assert_eq!(reader.parameters().len(), 18);
    assert_eq!(names(&reader)[17], "layer.norm3.bias");
    let other = Reader { layer: TransformerDecoderLayer::new(4, 2, o).unwrap() };
    other.load_state_dict(&reader.state_dict(), true).unwrap();
    let x = ones(&[2, 3, 4]);
    reader.eval();
    other.eval();
    close(&reader.forward(&x).unwrap(), &other.forward(&x).unwrap().to_vec().unwrap());
    refused(
        reader.layer.forward(&x),
        ErrorKind::Type,
        "TransformerDecoderLayer.forward() missing 1 required positional argument: 'memory'",
    );
    let modules = reader.named_modules();
    assert_eq!(modules[0], ("layer".to_string(), "TransformerDecoderLayer"));
    assert!(modules.contains(&("layer.self_attn.out_proj".to_string(), "Linear")));
    assert!(modules.contains(&("layer.dropout3".to_string(), "Dropout")));
}

#[test]
fn transformer_layers_equal_pytorchs() {
    let _turn = turn();
    let o =
        TransformerOptions { dim_feedforward: 16, dropout: 0.0, batch_first: true, ..TransformerOptions::default() };
    manual_seed(1);
    let layer =
        TransformerEncoderLayer::new(8, 2, TransformerOptions { activation: Activation::GELU, norm_first: true, ..o })
            .unwrap();
    let y = layer.forward(&randn(&[2, 3, 8])).unwrap();
    close(&y.flatten(0, -1).unwrap(), &[0.917239, 0.994019, -0.568604, -2.118054, 1.090181, -0.648082]);
    y.square().unwrap().sum().unwrap().backward().unwrap();
    let all = layer.named_parameters();
    assert_eq!(all[0].0, "self_attn.in_proj_weight");
    close(
        &all[0].1.grad().unwrap().flatten(0, -1).unwrap(),
        &[-0.032208, 0.388368, 0.426066, -1.783608, 0.922133, 0.074427],
    );
    manual_seed(1);
    let layer = TransformerDecoderLayer::new(8, 2, o).unwrap();
    let (x, memory) = (randn(&[2, 3, 8]), randn(&[2, 4, 8]));
    let causal = AttentionMask { is_causal: true, ..AttentionMask::default() };
    let y = layer.decode(&x, &memory, causal, AttentionMask::default()).unwrap();
    close(&y.flatten(0, -1).unwrap(), &[0.171278, 0.716752, -1.645334, -1.105815, 1.651273, 0.76557]);
    let mut found = Vec::new();
    layer.visit(&mut Visitor::new(&mut |name, _| found.push(name.to_string())));
    assert!(found.contains(&"multihead_attn.out_proj.bias".to_string()) && found.contains(&"norm3.weight".to_string()));
}
