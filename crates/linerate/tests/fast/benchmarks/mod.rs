//! Benchmarks of one stage as files: their screens, pages and charts, their comparison, the formats of other
//! tools.

mod comparison;
mod fio_jobs;
mod formats;
mod pages;
mod sample;
mod scalability;
