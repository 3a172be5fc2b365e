//! The papers that ship with linerate: the five that it grew out of.

use linerate_interop::paper::parse;

/// Name and experiments.
pub(super) const PAPERS: [(&str, &str); 5] = [
    ("d1.1", include_str!("../../../../../examples/papers/d1.1.toml")),
    ("d1.3", include_str!("../../../../../examples/papers/d1.3.toml")),
    ("uv300", include_str!("../../../../../examples/papers/uv300.toml")),
    ("40g", include_str!("../../../../../examples/papers/40g.toml")),
    ("openbench", include_str!("../../../../../examples/papers/openbench.toml")),
];

/// Their machines, by the paths that the papers name.
const MACHINES: [(&str, &str); 4] = [
    ("../machines/dell-t610.toml", include_str!("../../../../../examples/machines/dell-t610.toml")),
    ("../machines/sgi-uv300.toml", include_str!("../../../../../examples/machines/sgi-uv300.toml")),
    (
        "../machines/streaming-server.toml",
        include_str!("../../../../../examples/machines/streaming-server.toml"),
    ),
    ("../machines/appro-1224xi.toml", include_str!("../../../../../examples/machines/appro-1224xi.toml")),
];

fn text_of(all: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    all.iter().find(|(other, _)| *other == name).map(|(_, text)| *text)
}

pub(super) fn paper(name: &str) -> Option<&'static str> {
    text_of(&PAPERS, name)
}

pub(super) fn machine(name: &str) -> Option<&'static str> {
    text_of(&MACHINES, name)
}

/// A line for each: its name, and what it is.
pub(super) fn list() -> String {
    let title = |text: &str| parse(text).map(|paper| paper.paper).unwrap_or_default();
    PAPERS.iter().map(|(name, text)| format!("{name:<10} {}\n", title(text))).collect()
}
