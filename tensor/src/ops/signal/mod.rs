//! Signals: Fourier transforms and window functions.

pub mod fft;
mod window;

pub use fft::{Fft, ROWS as FFT_ROWS};
pub use window::ROWS as WINDOW_ROWS;
