//! The disc that travels over the wall: a lit ball, painted once and laid over each frame.

use crate::geometry::PIXEL_BYTES;

/// Pixels of its radius at most, so that its picture stays in the caches.
const LARGEST_RADIUS: usize = 512;
/// Where the light comes from: left, above, in front.
const LIGHT: [f64; 3] = [-0.45, -0.55, 0.70];
const BODY: [f64; 3] = [255.0, 176.0, 64.0];

/// Its picture: red, green, blue, all weighted, and how much of what is behind it stays (0 to 255).
#[derive(Debug)]
pub(super) struct Ball {
    pub(super) radius: usize,
    pixels: Vec<[u8; 4]>,
}

impl Ball {
    pub(super) fn new(radius: usize) -> Ball {
        let radius = radius.clamp(1, LARGEST_RADIUS);
        let side = 2 * radius;
        let pixels = (0..side * side).map(|index| shade(index % side, index / side, radius as f64)).collect();
        Ball { radius, pixels }
    }

    /// Lays one of its lines (0 to 2 × radius) over a line of a frame; `left` is where it begins, maybe
    /// outside of the line.
    pub(super) fn lay(&self, line: usize, over: &mut [u8], left: i64) {
        let side = 2 * self.radius;
        let width = (over.len() / PIXEL_BYTES) as i64;
        let (from, to) = (left.clamp(0, width), (left + side as i64).clamp(0, width));
        if from >= to {
            return;
        }
        let own = &self.pixels[line * side..(line + 1) * side][(from - left) as usize..(to - left) as usize];
        let under = &mut over[from as usize * PIXEL_BYTES..to as usize * PIXEL_BYTES];
        for (pixel, [red, green, blue, rest]) in under.chunks_exact_mut(PIXEL_BYTES).zip(own) {
            for (channel, own) in pixel.iter_mut().zip([red, green, blue]) {
                *channel = own.saturating_add((u16::from(*channel) * u16::from(*rest) / 255) as u8);
            }
        }
    }
}

/// One pixel of the picture.
fn shade(column: usize, row: usize, radius: f64) -> [u8; 4] {
    let (x, y) = ((column as f64 + 0.5) / radius - 1.0, (row as f64 + 0.5) / radius - 1.0);
    let distance = (x * x + y * y).sqrt();
    // Half a pixel inside and outside of the edge are blended.
    let cover = ((1.0 - distance) * radius + 0.5).clamp(0.0, 1.0);
    let z = (1.0 - distance * distance).max(0.0).sqrt();
    let light = (x * LIGHT[0] + y * LIGHT[1] + z * LIGHT[2]).max(0.0);
    let shine = light.powi(40) * 190.0;
    let lit = 0.16 + 0.84 * light;
    let tone = |channel: usize| ((BODY[channel] * lit + shine).min(255.0) * cover) as u8;
    [tone(0), tone(1), tone(2), ((1.0 - cover) * 255.0) as u8]
}
