//! The layers.

mod activation;
mod attention;
mod container;
mod conv;
mod distance;
mod dropout;
mod linear;
mod norm;
mod pooling;
mod rnn;
mod sparse;
mod transformer;

pub use activation::{
    CELU, ELU, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU,
    RReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh,
    Tanhshrink, Threshold,
};
pub use attention::{AttentionMask, MultiheadAttention, MultiheadAttentionOptions};
pub use container::{ModuleDict, ModuleList, Sequential};
pub use conv::{Conv2d, Conv2dOptions};
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout};
pub use linear::{Bilinear, Flatten, Identity, Linear};
pub use norm::{BatchNorm2d, LayerNorm};
pub use pooling::{AvgPool2d, MaxPool2d};
pub use rnn::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, RnnNonlinearity, RnnOptions};
pub use sparse::{BagMode, Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions};
pub use transformer::{
    Activation, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerOptions, generate_square_subsequent_mask,
};
