//! Benchmarks of one stage as files: their screens, pages and charts, their comparison, the formats of other tools.

mod pages;
mod sample;
