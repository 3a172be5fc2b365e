//! The JSON objects of a file, with whatever other lines are around them: warnings, a summary for the eye, commas
//! between the objects of `--status-interval`.

use crate::ForeignError;
use crate::fio_json;
use crate::iperf3_json::{Event, Part, intervals};
use crate::lenient::{Number, Text, first};
use serde::Deserialize;
use serde_json::Deserializer;
use std::collections::BTreeMap;

/// After as many broken objects a file is of no tool: the next one costs as much as its rest is long.
const MOST_BROKEN: usize = 64;

/// One object: of fio, of iperf3, or a line of iperf3's `--json-stream`. Keys of other kinds are passed over.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Document {
    #[serde(rename = "fio version")]
    pub(crate) fio_version: Text,
    pub(crate) timestamp: Number,
    #[serde(rename = "global options")]
    pub(crate) global_options: BTreeMap<String, Text>,
    #[serde(deserialize_with = "first::<_, _, 10_000>")]
    pub(crate) jobs: Vec<fio_json::Job>,
    #[serde(deserialize_with = "first::<_, _, 10_000>")]
    pub(crate) client_stats: Vec<fio_json::Job>,
    #[serde(deserialize_with = "first::<_, _, 1000>")]
    pub(crate) disk_util: Vec<fio_json::Disk>,
    pub(crate) start: Event,
    #[serde(deserialize_with = "intervals")]
    pub(crate) intervals: Vec<Part>,
    pub(crate) end: Event,
    pub(crate) error: Text,
    pub(crate) event: Text,
    pub(crate) data: Event,
}

/// Whose document it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    Fio,
    Iperf3,
    /// One line of a stream.
    Iperf3Event,
}

impl Document {
    pub(crate) fn kind(&self) -> Option<DocumentKind> {
        let is_iperf3 =
            |start: &Event| matches!(start, Event::Part(part) if part.version.0.starts_with("iperf"));
        match () {
            () if self.fio_version.get().is_some() => Some(DocumentKind::Fio),
            () if is_iperf3(&self.start) => Some(DocumentKind::Iperf3),
            () if matches!(self.event.0.as_str(), "start" | "interval" | "end" | "error") => {
                Some(DocumentKind::Iperf3Event)
            }
            () => None,
        }
    }
}

/// Gives each object of a known kind to `found`, in their order. An object that ends early, or is broken, is an error
/// where it is a tool's and nothing was found.
pub(crate) fn each(bytes: &[u8], mut found: impl FnMut(DocumentKind, Document)) -> Result<(), ForeignError> {
    let (mut at, mut failures, mut broken, mut any) = (0, 0, None, false);
    while let Some(start) = next_object(bytes, at) {
        let mut objects = Deserializer::from_slice(&bytes[start..]).into_iter::<Document>();
        match objects.next() {
            Some(Ok(document)) => {
                at = start + objects.byte_offset().max(1);
                if let Some(kind) = document.kind() {
                    any = true;
                    found(kind, document);
                }
            }
            Some(Err(error)) => {
                let of = tool(&bytes[start..]);
                broken = broken.or(of.map(|tool| match error.is_eof() {
                    true => ForeignError::Cut { tool },
                    false => ForeignError::Broken { tool, why: error.to_string() },
                }));
                failures += 1;
                // What follows is within the object that has no end.
                if error.is_eof() || failures >= MOST_BROKEN {
                    break;
                }
                at = start + 1;
            }
            None => break,
        }
    }
    match broken {
        Some(error) if !any => Err(error),
        _ => Ok(()),
    }
}

/// Whose object begins here, by its first lines.
fn tool(bytes: &[u8]) -> Option<&'static str> {
    let head = &bytes[..bytes.len().min(1024)];
    let says = |word: &str| head.windows(word.len()).any(|part| part == word.as_bytes());
    let tools = [("\"fio version\"", "fio"), ("\"iperf ", "iperf3")];
    tools.iter().find(|(word, _)| says(word)).map(|(_, tool)| *tool)
}

/// An opening brace with nothing before it on its line but what separates objects.
fn next_object(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == b'{')?;
        let before = bytes[..at].iter().rev().take(256);
        let mut before = before.skip_while(|byte| matches!(byte, b' ' | b'\t' | b',' | b'[' | b'}'));
        if matches!(before.next(), None | Some(b'\n' | b'\r')) {
            return Some(at);
        }
        at += 1;
    }
}
