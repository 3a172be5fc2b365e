//! How many cases a run draws of what computes for seconds.

/// A fifth of them, others in each run; before a release, when `./test` has no third left out, all.
pub fn cases(all: u32) -> u32 {
    if std::env::var("LINERATE_THIRD").is_ok_and(|third| third == "all") { all } else { all / 5 }
}
