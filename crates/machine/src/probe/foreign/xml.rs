//! XML from outside: parsed whole, within limits.

use roxmltree::{Document, Error, ParsingOptions};

/// Elements, attributes' owners and texts of a document. The largest topologies that are published have some
/// ten thousand.
const MOST_NODES: u32 = 2_000_000;
/// Elements in each other. lstopo needs two dozen for switches below switches.
pub(crate) const DEEPEST: u32 = 200;

/// Parses a document. It may have a document type (lstopo names one), but no entities of its own, which could
/// unfold without end.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, String> {
    if let Some(at) = text.find("<!ENTITY") {
        return Err(format!(
            "line {}: it declares entities, which no topology needs; it was not read",
            line(text, at)
        ));
    }
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MOST_NODES, ..Default::default() };
    Document::parse_with_options(text, options).map_err(|error| match error {
        Error::NoRootNode => "no XML at all; check which file it is".into(),
        Error::UnclosedRootNode | Error::UnexpectedEndOfStream => {
            format!("line {}: the file ends within an element; it was cut off", line(text, text.len()))
        }
        _ => format!("line {}: {error}; the file is no XML or damaged", error.pos().row),
    })
}

/// Line of a place in a text, from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
