//! The cloth of the test picture: a small set of long lines, of which each line of the picture is a shifted
//! copy.
//!
//! So a line costs one copy at memory speed, and yet the picture flows in both directions: how far a line is
//! shifted and which of the set it is, both swing with height and time.

use crate::geometry::PIXEL_BYTES;
use std::f64::consts::TAU;

/// Lines of the set, at least and at most: each line of the picture its own, where the caches allow.
const LEVELS: (usize, usize) = (64, 1024);
/// After so many pixels a line repeats, at most: all lines together fit the caches. A prime, so that no two
/// tiles of a row are alike.
const LONGEST_PERIOD: usize = 4099;
/// Places of the sine's table.
const PLACES: usize = 1 << 12;

/// From dark to light, as in a night sky with an aurora in it.
const PALETTE: [[f64; 3]; 8] = [
    [6.0, 8.0, 30.0],
    [18.0, 28.0, 84.0],
    [22.0, 74.0, 140.0],
    [16.0, 140.0, 150.0],
    [70.0, 190.0, 150.0],
    [120.0, 96.0, 190.0],
    [214.0, 84.0, 140.0],
    [250.0, 168.0, 96.0],
];

/// The set of lines; the last is followed by the first.
#[derive(Debug)]
pub(super) struct Texture {
    bytes: Vec<u8>,
    /// Bytes from one line of the set to the next.
    stride: usize,
    /// Pixels after which a line repeats.
    pub(super) period: usize,
    /// Lines of the set.
    pub(super) levels: usize,
}

impl Texture {
    /// For pictures of this width and height that are painted in runs of at most `run` pixels.
    pub(super) fn new(width: usize, height: usize, run: usize) -> Texture {
        let sine: Vec<f64> = (0..PLACES).map(|place| (TAU * place as f64 / PLACES as f64).sin()).collect();
        let period = width.clamp(1, LONGEST_PERIOD);
        let levels = height.clamp(LEVELS.0, LEVELS.1);
        let stride = (period + run) * PIXEL_BYTES;
        let mut bytes = vec![0; levels * stride];
        for (level, line) in bytes.chunks_exact_mut(stride).enumerate() {
            let down = level as f64 / levels as f64;
            let (once, _) = line.split_at_mut(period * PIXEL_BYTES);
            for (index, pixel) in once.chunks_exact_mut(PIXEL_BYTES).enumerate() {
                pixel.copy_from_slice(&colour(&sine, index as f64 / period as f64, down));
            }
            let mut filled = period * PIXEL_BYTES;
            while filled < stride {
                let more = filled.min(stride - filled);
                line.copy_within(..more, filled);
                filled += more;
            }
        }
        Texture { bytes, stride, period, levels }
    }

    /// `bytes` bytes of a line of the set from a pixel on, both taken around.
    pub(super) fn run(&self, level: usize, pixel: usize, bytes: usize) -> &[u8] {
        let start = level % self.levels * self.stride + pixel % self.period * PIXEL_BYTES;
        &self.bytes[start..start + bytes]
    }
}

/// Of a place on the cloth; both coordinates go round at 1. What bends it as a whole is not here: the lines
/// are shifted for that, to the pixel, while here each level is a step.
fn colour(sine: &[f64], across: f64, down: f64) -> [u8; 3] {
    let wave = |turns: f64| sine[((turns + 1.0) * PLACES as f64) as usize % PLACES];
    let warp = across + 0.04 * wave(2.0 * down + across);
    let height = 0.42
        + 0.30 * wave(warp)
        + 0.16 * wave(2.0 * warp + 1.0 - down)
        + 0.09 * wave(3.0 * warp + 2.0 * down);
    let place = height.clamp(0.0, 1.0) * (PALETTE.len() - 1) as f64;
    let (index, part) = (place as usize, place.fract());
    let (low, high) = (PALETTE[index], PALETTE[(index + 1).min(PALETTE.len() - 1)]);
    // Smoothstep: no kinks where two colours meet.
    let part = part * part * (3.0 - 2.0 * part);
    let folds = 0.86 + 0.14 * wave(5.0 * warp + 3.0 * down);
    std::array::from_fn(|channel| ((low[channel] + (high[channel] - low[channel]) * part) * folds) as u8)
}
