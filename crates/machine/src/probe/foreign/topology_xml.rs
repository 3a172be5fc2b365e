//! Topologies in XML from outside: parsed whole, within limits.

use roxmltree::{Document, Error, Node, ParsingOptions};

/// Elements, attributes' owners and texts of a document. The largest topologies that are published have some
/// ten thousand.
const MOST_NODES: u32 = 2_000_000;
/// Elements in each other. lstopo needs two dozen for switches below switches.
const DEEPEST: u32 = 200;

/// What is wrong with a topology in XML, and mostly the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    #[error("no XML at all; check which file it is")]
    NoXml,
    #[error("line {line}: it declares entities, which no topology needs; it was not read")]
    Entities { line: usize },
    #[error("line {line}: the file ends within an element; it was cut off")]
    CutOff { line: usize },
    #[error("line {}: {error}; the file is not XML or damaged", error.pos().row)]
    Damaged { error: Error },
    /// XML, and nothing of a machine in it; a sentence for each format.
    #[error("{0}")]
    Empty(&'static str),
    /// XML, and an element that the format does not have so.
    #[error("line {line}: {what}")]
    Element { line: usize, what: String },
}

impl TopologyError {
    pub(crate) fn at(text: &str, element: Node, what: impl Into<String>) -> Self {
        TopologyError::Element { line: line(text, element.range().start), what: what.into() }
    }
}

/// Parses a document. It may have a document type (lstopo names one), but no entities of its own, which could
/// unfold without end.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, TopologyError> {
    if let Some(at) = text.find("<!ENTITY") {
        return Err(TopologyError::Entities { line: line(text, at) });
    }
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MOST_NODES, ..Default::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| match error {
        Error::NoRootNode => TopologyError::NoXml,
        Error::UnclosedRootNode | Error::UnexpectedEndOfStream => {
            TopologyError::CutOff { line: line(text, text.len()) }
        }
        _ => TopologyError::Damaged { error },
    })?;
    let mut level = vec![document.root_element()];
    for _ in 0..=DEEPEST {
        level = level.iter().flat_map(Node::children).filter(Node::is_element).collect();
    }
    match level.first() {
        Some(element) => {
            let what = format!("elements are nested more than {DEEPEST} deep: no topology");
            Err(TopologyError::at(text, *element, what))
        }
        None => Ok(document),
    }
}

/// Line of a place in a text, from 1.
fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
