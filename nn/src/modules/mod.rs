//! The layers.

mod activation;
mod container;
mod conv;
mod dropout;
mod linear;
mod norm;
mod pooling;
mod rnn;
mod sparse;
mod transformer;

pub use activation::{ELU, GELU, LeakyReLU, LogSoftmax, ReLU, SiLU, Sigmoid, Softmax, Softplus, Tanh};
pub use container::Sequential;
pub use conv::{Conv2d, Conv2dOptions};
pub use dropout::Dropout;
pub use linear::{Flatten, Identity, Linear};
pub use norm::{BatchNorm2d, LayerNorm};
pub use pooling::{AvgPool2d, MaxPool2d};
pub use rnn::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, RnnNonlinearity, RnnOptions};
pub use sparse::Embedding;
pub use transformer::{
    Activation, AttentionMask, MultiheadAttention, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer, TransformerOptions,
};
