//! The third step: memory, disk, network, then the whole path. `measure(&Plan, …) -> Measurements`.

mod product;

pub use product::*;
