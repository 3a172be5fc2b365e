//! A wall's movie made by hand, and linerate that serves it.

#![allow(dead_code, reason = "each test takes the part that it needs")]

use crate::support::process::ProcessEnd;
use linerate::wall::control::View;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A movie whose frames are all different.
pub struct TestMovie {
    folder: tempfile::TempDir,
    pub width: usize,
    pub height: usize,
    pub frames: usize,
}

impl TestMovie {
    pub fn new(
        columns: usize,
        rows: usize,
        (width, height): (usize, usize),
        fps: u32,
        frames: usize,
    ) -> TestMovie {
        let movie = TestMovie { folder: tempfile::tempdir().expect("a folder"), width, height, frames };
        let text = format!(
            "format = 1\ngrid = \"{columns}x{rows}\"\ntile = \"{width}x{height}\"\npixels = \
             \"rgb8\"\nframes_per_second = \"{fps}\"\nframes = {frames}\n"
        );
        std::fs::write(movie.path().join("movie.toml"), text).expect("movie.toml");
        for row in 0..rows {
            for column in 0..columns {
                let bytes: Vec<u8> = (0..frames).flat_map(|frame| movie.frame(row, column, frame)).collect();
                std::fs::write(movie.tile(row, column), bytes).expect("a tile");
            }
        }
        movie
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn tile(&self, row: usize, column: usize) -> PathBuf {
        self.path().join(format!("r{row}c{column}.rgb"))
    }

    pub fn pixels(&self, row: usize, column: usize, frame: usize) -> impl Iterator<Item = u8> {
        let mut state = (row * 131 + column * 17 + frame * 7919 + 1) as u32;
        (0..self.width * self.height * 3).map(move |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
    }

    pub fn frame(&self, row: usize, column: usize, frame: usize) -> Vec<u8> {
        self.pixels(row, column, frame).collect()
    }

    /// Which frame this is.
    pub fn which(&self, row: usize, column: usize, pixels: &[u8]) -> Option<usize> {
        (0..self.frames).find(|frame| self.pixels(row, column, *frame).eq(pixels.iter().copied()))
    }

    /// What the screen of r0c0 shows of a frame of 2 × 2 tiles.
    pub fn seen(&self, view: View, frame: usize) -> Vec<u8> {
        let tiles: Vec<Vec<u8>> = (0..4).map(|tile| self.frame(tile / 2, tile % 2, frame)).collect();
        let place = |start: f64, pixel: usize| (start + pixel as f64 / view.zoom + 1e-9).floor() as usize;
        let pixel = |x: usize, y: usize| {
            let (x, y) = (place(view.left, x), place(view.top, y));
            let at = (y % self.height * self.width + x % self.width) * 3;
            tiles[y / self.height * 2 + x / self.width][at..at + 3].to_vec()
        };
        (0..self.height)
            .flat_map(|y| (0..self.width).flat_map(move |x| pixel(x, y)).collect::<Vec<_>>())
            .collect()
    }

    pub fn serve(&self) -> Command {
        let mut command = super::linerate();
        command.args(["wall", "serve"]).arg(self.path()).args(["--json"]).stdin(Stdio::null());
        command.env_remove("LINERATE_KEY");
        command
    }
}

/// What it printed.
pub fn json(output: &ProcessEnd) -> Value {
    output.json()
}

pub fn number(status: &Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or_else(|| panic!("{name}: {status:#}"))
}
