//! A paper's experiments in a file: read, its commands filled in, its page drawn.

use linerate::fact::Fact;
use linerate::interop::paper::{ReproducedFigure, ReproducedStep, Reproduction, parse};
use linerate::report::{reproduced, reproduced_html};
use std::collections::BTreeMap;

/// Any text as a paper's file.
pub fn paper_toml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let paper = match parse(&text) {
        Ok(paper) => paper,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let steps = paper.steps.iter().map(|step| {
        // Whoever wrote the file names nothing on this host.
        let filled = step.run.as_ref().map(|run| run.filled(&BTreeMap::new()));
        let command = filled.and_then(Result::ok).unwrap_or_default().join(" ");
        for option in ["--destroy-data", "--no-receiver", "--peer", "--output"] {
            assert!(!command.contains(option), "{command}");
        }
        let figures = step.figures.iter().map(|figure| {
            let value = figure.published.most() / 2.0;
            ReproducedFigure::new(figure, 0.5, Fact::Known(value), figure.differs.clone())
        });
        let (name, on) = (step.name.clone(), String::new());
        ReproducedStep { name, on, command, left_out: None, figures: figures.collect() }
    });
    let found = Reproduction { paper: paper.paper.clone(), planned: true, steps: steps.collect() };
    let screen = reproduced(&found, 80, false);
    assert!(screen.chars().all(|c| c == '\n' || !c.is_control()), "a name acts on the terminal");
    assert!(!reproduced_html(&found).is_empty());
}
