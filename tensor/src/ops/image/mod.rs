//! Images: sampling on grids, resizing, and columns of patches.

mod columns;
mod grid;
mod resample;

pub use columns::{Col2Im, Im2Col, ROWS as COLUMN_ROWS};
pub use grid::{GridSample, GridSampleBackward, ROWS as GRID_ROWS};
pub use resample::{ROWS as RESAMPLE_ROWS, Resample};
