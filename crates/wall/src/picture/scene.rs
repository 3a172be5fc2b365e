//! The test picture: a cloth of colours that flows over the whole wall, a bar that sweeps it, a ball that
//! travels over it, and on each tile its name, the frame's number and time, and the stamp.
//!
//! A bar that breaks is tearing; a jump is a frame that was dropped; a seam is a tile at the wrong place. All
//! motions come back to where they began after the last frame, so that a loop has no seam either. Integer
//! arithmetic for each line; no line costs more than its copy and what moves over it.

use super::texture::{Ball, HIGH, Texture, text_width, write_text};
use super::{Proof, Wrong, room_for_stamp, stamp_and_sum};
use crate::geometry::{FrameRate, PIXEL_BYTES, Size, TileId, WallGrid};

/// A full turn of a phase.
const TURN: u64 = 1 << 16;
/// The sine's table has so many places a turn, and this amplitude.
const PLACES: usize = 1 << 12;
const AMPLITUDE: i64 = 1 << 14;

/// A wall's test picture at every frame.
#[derive(Debug)]
pub struct TestPicture {
    tile: Size,
    /// Pixels of all tiles together.
    width: i64,
    height: i64,
    frames: u32,
    rate: FrameRate,
    sine: Vec<i64>,
    texture: Texture,
    ball: Ball,
    /// How white the bar makes what is below it, 0 to 256, from its tail to its edge.
    bar: Vec<u16>,
}

/// What of the picture is the same for all lines of a frame.
struct Moment {
    frame: u32,
    drift: i64,
    /// Left edge of the bar and of the ball, upper edge of the ball.
    bar: i64,
    ball: (i64, i64),
}

impl TestPicture {
    /// Refuses tiles that are too small for a stamp.
    pub fn new(grid: WallGrid, tile: Size, rate: FrameRate, frames: u32) -> Result<TestPicture, Wrong> {
        room_for_stamp(tile)?;
        let width = i64::from(tile.width) * i64::from(grid.columns);
        let height = i64::from(tile.height) * i64::from(grid.rows);
        let turn = std::f64::consts::TAU / PLACES as f64;
        let sine = (0..PLACES).map(|place| ((place as f64 * turn).sin() * AMPLITUDE as f64) as i64).collect();
        let tail = (width / 24).clamp(8, 512);
        let core = (width / 320).clamp(2, 48);
        let bar = (0..tail).map(|at| (at * at * 110 / (tail * tail)) as u16);
        Ok(TestPicture {
            tile,
            width,
            height,
            frames: frames.max(1),
            rate,
            sine,
            texture: Texture::new(width as usize, height as usize, tile.width as usize),
            ball: Ball::new((width.min(height) / 8) as usize),
            bar: bar.chain((0..core).map(|_| 232)).collect(),
        })
    }

    /// Paints one frame of a tile, with all that stands on it, into `into` (of the tile's frame size), and
    /// gives its CRC-32C.
    pub fn paint(&self, tile: TileId, frame: u32, into: &mut [u8]) -> u32 {
        self.paint_wall(tile, frame, into);
        self.frame_tile(into);
        self.label(tile, frame, into);
        stamp_and_sum(into, self.tile, Proof { tile, frame })
    }

    /// The part of the wall's picture that a tile shows.
    fn paint_wall(&self, tile: TileId, frame: u32, into: &mut [u8]) {
        let moment = self.moment(frame);
        let left = i64::from(tile.column) * i64::from(self.tile.width);
        let top = i64::from(tile.row) * i64::from(self.tile.height);
        let bytes = self.tile.line_bytes();
        for (line, y) in into.chunks_exact_mut(bytes).zip(top..) {
            let (level, shift) = self.weave(y, &moment);
            let pixel = (left + shift).rem_euclid(self.texture.period as i64) as usize;
            line.copy_from_slice(self.texture.run(level, pixel, bytes));
            self.sweep(line, moment.bar - left);
            let row = y - moment.ball.1;
            if (0..2 * self.ball.radius as i64).contains(&row) {
                self.ball.lay(row as usize, line, moment.ball.0 - left);
            }
        }
    }

    /// Which line of the cloth a line of the wall shows, and how far it is shifted.
    fn weave(&self, y: i64, moment: &Moment) -> (usize, i64) {
        let period = self.texture.period as i64;
        let down = (y as u64 * TURN) / self.height.max(1) as u64;
        let slow = self.sine(down + self.phase(moment.frame, 11));
        let quick = self.sine(3 * down + TURN - self.phase(moment.frame, 7));
        let swing = self.sine(down + self.phase(moment.frame, 17));
        // The cloth's own bend goes with its level, which is a phase of less than half a turn from top to
        // bottom.
        let level =
            (down as i64 * 15 / 32 + swing * (TURN as i64 * 11 / 64) / AMPLITUDE).rem_euclid(TURN as i64);
        let bend = self.sine(level as u64);
        let shift =
            moment.drift + (slow * period / 9 + quick * period / 40 + bend * period * 4 / 25) / AMPLITUDE;
        ((level * self.texture.levels as i64 / TURN as i64) as usize, shift)
    }

    fn moment(&self, frame: u32) -> Moment {
        let period = self.texture.period as i64;
        // As many periods as bring it back to its place, to the right.
        let drift = -(self.phase(frame, 20) as i64 * period / TURN as i64);
        let way = self.width + self.bar.len() as i64;
        let bar = self.phase(frame, 6) as i64 * way / TURN as i64 - self.bar.len() as i64;
        let radius = self.ball.radius as i64;
        let swing =
            |phase: u64, room: i64| (room / 2 - radius) * self.sine(phase) / AMPLITUDE + room / 2 - radius;
        let ball =
            (swing(self.phase(frame, 9), self.width), swing(self.phase(frame, 5) + TURN / 8, self.height));
        Moment { frame, drift, bar, ball }
    }

    /// The phase at a frame of a motion that takes about `seconds`, and a whole number of turns in the movie.
    fn phase(&self, frame: u32, seconds: u64) -> u64 {
        let (above, below) = (u64::from(self.rate.numerator), u64::from(self.rate.denominator));
        let frames = u64::from(self.frames);
        let turns = ((frames * below + above * seconds / 2) / (above * seconds)).clamp(1, frames);
        // Below 2^32 each: no product overflows.
        u64::from(frame % self.frames) * turns % frames * TURN / frames
    }

    fn sine(&self, phase: u64) -> i64 {
        self.sine[(phase % TURN) as usize * PLACES / TURN as usize]
    }

    /// Lays the bar over a line of a tile; `left` is its left edge, maybe outside of the tile.
    fn sweep(&self, line: &mut [u8], left: i64) {
        let width = i64::from(self.tile.width);
        let (from, to) = (left.clamp(0, width), (left + self.bar.len() as i64).clamp(0, width));
        if from >= to {
            return;
        }
        let bar = &self.bar[(from - left) as usize..(to - left) as usize];
        let under = &mut line[from as usize * PIXEL_BYTES..to as usize * PIXEL_BYTES];
        for (pixel, white) in under.chunks_exact_mut(PIXEL_BYTES).zip(bar) {
            for channel in pixel {
                *channel += (((255 - u16::from(*channel)) * white) >> 8) as u8;
            }
        }
    }

    /// A thin line around the tile: a screen that cuts off its edge shows it.
    fn frame_tile(&self, into: &mut [u8]) {
        let (line_bytes, height) = (self.tile.line_bytes(), self.tile.height as usize);
        let light = |pixels: &mut [u8]| pixels.iter_mut().for_each(|channel| *channel = *channel / 2 + 96);
        for (index, line) in into.chunks_exact_mut(line_bytes).enumerate() {
            if index == 0 || index + 1 == height {
                light(line);
            } else {
                light(&mut line[..PIXEL_BYTES]);
                light(&mut line[line_bytes - PIXEL_BYTES..]);
            }
        }
    }

    /// Name, number and time, on a darkened ground in the lower left corner; left out where they do not fit.
    fn label(&self, tile: TileId, frame: u32, into: &mut [u8]) {
        let size = self.tile;
        let (width, height) = (size.width as usize, size.height as usize);
        let scale = (height / 150).min(width / 200).max(1);
        let (name, number) = (format!("{tile} {frame:06}"), self.time(frame));
        let (high, gap) = (HIGH * scale, 3 * scale);
        let wide = text_width(&name, 2 * scale).max(text_width(&number, scale)) + 2 * gap;
        let tall = 3 * high + 3 * gap;
        // Half of the tile is the stamp's and the picture's.
        if wide + 2 * gap > width || tall + gap > height / 2 {
            return;
        }
        let (left, top) = (2 * gap, height - tall - gap);
        for line in into.chunks_exact_mut(size.line_bytes()).skip(top).take(tall) {
            let ground = &mut line[gap * PIXEL_BYTES..(gap + wide) * PIXEL_BYTES];
            ground.iter_mut().for_each(|channel| *channel /= 4);
        }
        write_text(into, size, (left, top + gap), 2 * scale, 255, &name);
        write_text(into, size, (left, top + 2 * gap + 2 * high), scale, 200, &number);
    }

    /// Minutes, seconds and frame of the second: `00:04.11`.
    fn time(&self, frame: u32) -> String {
        let (above, below) = (u64::from(self.rate.numerator), u64::from(self.rate.denominator));
        let seconds = u64::from(frame) * below / above;
        let first = (seconds * above).div_ceil(below);
        format!("{:02}:{:02}.{:02}", seconds / 60, seconds % 60, u64::from(frame).saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{prove, sum};
    use super::*;

    const RATE: FrameRate = FrameRate { numerator: 24, denominator: 1 };

    fn painted(grid: WallGrid, tile: Size, at: TileId, frame: u32) -> Vec<u8> {
        let scene = TestPicture::new(grid, tile, RATE, 48).expect("a scene");
        let mut frame_bytes = vec![0; tile.frame_bytes()];
        scene.paint_wall(at, frame, &mut frame_bytes);
        frame_bytes
    }

    #[test]
    fn tiles_show_parts_of_one_picture() {
        let one = WallGrid { columns: 1, rows: 1 };
        let (whole, tile) = (Size { width: 240, height: 90 }, Size { width: 80, height: 30 });
        for frame in [0, 13, 47] {
            let picture = painted(one, whole, TileId { row: 0, column: 0 }, frame);
            for at in (WallGrid { columns: 3, rows: 3 }).tiles() {
                let part = painted(WallGrid { columns: 3, rows: 3 }, tile, at, frame);
                for (line, pixels) in part.chunks_exact(tile.line_bytes()).enumerate() {
                    let start = (usize::from(at.row) * 30 + line) * whole.line_bytes()
                        + usize::from(at.column) * tile.line_bytes();
                    assert!(pixels == &picture[start..start + tile.line_bytes()], "{at} line {line}");
                }
            }
        }
    }

    #[test]
    fn every_frame_of_every_tile_is_another_and_proves_itself() {
        let (grid, tile) = (WallGrid { columns: 2, rows: 1 }, Size { width: 160, height: 100 });
        let scene = TestPicture::new(grid, tile, RATE, 30).expect("a scene");
        let mut seen = std::collections::BTreeSet::new();
        for frame in 0..30 {
            for at in grid.tiles() {
                let mut bytes = vec![7; tile.frame_bytes()];
                let painted = scene.paint(at, frame, &mut bytes);
                assert_eq!(painted, sum(&bytes));
                assert_eq!(prove(&bytes, tile), Ok(Proof { tile: at, frame }));
                assert!(seen.insert(painted), "{at} {frame}");
            }
        }
    }

    #[test]
    fn it_moves_smoothly_and_its_end_meets_its_beginning() {
        let tile = Size { width: 320, height: 200 };
        let at = TileId { row: 0, column: 0 };
        let one = WallGrid { columns: 1, rows: 1 };
        let scene = TestPicture::new(one, tile, RATE, 240).expect("a scene");
        let frames: Vec<Vec<u8>> = [0, 1, 239, 120]
            .into_iter()
            .map(|frame| {
                let mut bytes = vec![0; tile.frame_bytes()];
                scene.paint_wall(at, frame, &mut bytes);
                bytes
            })
            .collect();
        let apart = |a: &[u8], b: &[u8]| -> u64 {
            a.iter().zip(b).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>() / a.len() as u64
        };
        let (step, seam) = (apart(&frames[0], &frames[1]), apart(&frames[2], &frames[0]));
        let far = apart(&frames[0], &frames[3]);
        assert!(frames[0] != frames[1] && seam <= 2 * step + 1 && far > 2 * step, "{step} {seam} {far}");
    }

    #[test]
    fn small_tiles_long_movies_and_odd_rates_are_painted() {
        let rate = FrameRate { numerator: 1, denominator: 60 };
        for (width, height) in [(64, 16), (33, 300), (64, 400), (300, 16)] {
            let tile = Size { width, height };
            let Ok(scene) = TestPicture::new(WallGrid { columns: 4, rows: 64 }, tile, rate, u32::MAX) else {
                assert!(width < 64);
                continue;
            };
            let at = TileId { row: 63, column: 3 };
            let mut bytes = vec![0; tile.frame_bytes()];
            scene.paint(at, u32::MAX - 1, &mut bytes);
            assert_eq!(prove(&bytes, tile), Ok(Proof { tile: at, frame: u32::MAX - 1 }));
        }
        assert_eq!(
            TestPicture::new(WallGrid { columns: 1, rows: 1 }, Size { width: 64, height: 16 }, RATE, 9)
                .expect("a scene")
                .time(1470),
            "01:01.06"
        );
    }
}
