//! Benchmarks of one stage as files: their screens, pages and charts, their comparison, the formats of other tools.

mod comparison;
mod formats;
mod pages;
mod sample;
