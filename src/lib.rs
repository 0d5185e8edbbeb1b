//! Tensors with PyTorch's API, compiled for TPUs through PJRT.
