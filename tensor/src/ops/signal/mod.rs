//! Signals: Fourier transforms and window functions.

pub mod fft;
mod stft;
mod window;

pub use fft::{Fft, ROWS as FFT_ROWS};
pub use stft::ROWS as STFT_ROWS;
pub use window::ROWS as WINDOW_ROWS;
