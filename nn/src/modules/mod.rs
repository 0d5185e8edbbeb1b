//! The layers.

mod activation;
mod container;
mod conv;
mod dropout;
mod linear;
mod norm;
mod pooling;
mod sparse;

pub use activation::{ELU, GELU, LeakyReLU, LogSoftmax, ReLU, SiLU, Sigmoid, Softmax, Softplus, Tanh};
pub use container::Sequential;
pub use conv::{Conv2d, Conv2dOptions};
pub use dropout::Dropout;
pub use linear::{Flatten, Identity, Linear};
pub use norm::{BatchNorm2d, LayerNorm};
pub use pooling::{AvgPool2d, MaxPool2d};
pub use sparse::Embedding;
