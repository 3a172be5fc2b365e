//! How many cases a run draws of what computes for seconds.

/// One of so many is drawn; before a release, when `./test` has no third left out, each.
fn one_of() -> u32 {
    if std::env::var("LINERATE_THIRD").is_ok_and(|third| third == "all") { 1 } else { 5 }
}

/// A fifth of them, or all.
pub fn cases(all: u32) -> u32 {
    all / one_of()
}

/// The numbers of a fifth of them, others in each run; or of all.
pub fn drawn(all: u32) -> impl Iterator<Item = u32> {
    (std::process::id() % one_of()..all).step_by(one_of() as usize)
}
