//! A fleet as one screen and as one page: the sentence, the matrix of rates, the members.

mod disks;
mod matrix;
mod members;
mod storage;
mod sums;

use crate::document::{Block, Document, Media, Part, bold, dim, errors, plain};
use linerate_facts::wording::counted;
use linerate_measure::run::Run;
use linerate_measure::run::fleet::{FleetPattern, FleetResult};

const STYLE: &str = "\
.heat .s0{fill:#b2182b}.heat .s1{fill:#ef8a62}.heat .s2{fill:#fddbc7}.heat .s3{fill:#e8efe8}\
.heat .s4{fill:#d1e5f0}.heat .s5{fill:#67a9cf}.heat .none{fill:none;stroke:#888;stroke-dasharray:2 2}\
.heat text{font-size:11px;fill:currentColor}";

pub(crate) fn document<'a>(run: &'a Run, result: &'a FleetResult) -> Document<'a> {
    let beside = vec![Block::Space, Block::Text(dim(conditions(result)))];
    let mut all = vec![Part { on: Media::Terminal, blocks: beside, ..Part::default() }];
    all.push(errors(&run.errors, usize::MAX));
    all.push(list("unlike", "How the members differ", &result.differences));
    let mut doubts = list("doubts", "What makes the figures doubtful", &result.verdict.doubts);
    doubts.late = 1;
    all.push(doubts);
    all.push(Part { blocks: vec![Block::Space], ..Part::default() });
    all.extend(parts(result));
    all.push(missing_members(result));
    Document {
        tab: format!("fleet of {} – linerate", result.members.len()),
        about: vec![conditions(result), format!("linerate {}", run.version), run.started.clone()],
        answer: vec![bold(&result.verdict.sentence)],
        sheet: STYLE.into(),
        parts: all,
        ..Document::default()
    }
}

/// `pairs of 4 members, windows of 5 s, 2 streams a flow`.
fn conditions(result: &FleetResult) -> String {
    let members = format!("{} of {}", result.pattern.name(), counted(result.members.len(), "member"));
    let flows = format!("windows of {} s, {} a flow", result.seconds, counted(result.streams, "stream"));
    match result.pattern {
        FleetPattern::Disk => members,
        FleetPattern::Storage => {
            format!("{members}, of which {} are servers, {flows}", result.servers.len())
        }
        _ => format!("{members}, {flows}"),
    }
}

/// Who was not measured, and why; the page has it in the table of the members.
fn missing_members(result: &FleetResult) -> Part<'_> {
    let lost = result.members.iter().filter_map(|member| Some((&member.name, member.lost.as_ref()?)));
    let all = lost.chain(result.absent.iter().map(|host| (&host.name, &host.why)));
    let lines = all.map(|(name, why)| Block::Text(plain(format!("not measured: {name}: {why}"))));
    Part { on: Media::Terminal, late: 1, blocks: lines.collect(), ..Part::default() }
}

/// What the pattern has to show.
fn parts(result: &FleetResult) -> Vec<Part<'_>> {
    let mut parts = match result.pattern {
        FleetPattern::Disk => disks::parts(result).to_vec(),
        FleetPattern::Storage => storage::parts(result).to_vec(),
        FleetPattern::Incast => vec![sums::incast(&result.verdict)],
        _ => Vec::new(),
    };
    if result.pattern != FleetPattern::Disk {
        parts.push(matrix::rates(result));
        parts.extend(matrix::predicted(result));
        let on = if result.pattern == FleetPattern::AllToAll { Media::Both } else { Media::Page };
        parts.push(sums::hosts(result, on));
    }
    if matches!(result.pattern, FleetPattern::AllToAll | FleetPattern::Bisection) {
        parts.push(sums::windows(result));
    }
    if !result.verdict.racks.is_empty() {
        parts.push(sums::racks(result));
    }
    parts.push(members::part(result));
    parts
}

/// Sentences below a heading of the page.
fn list<'a>(id: &'static str, title: &'static str, sentences: &[String]) -> Part<'a> {
    let space = (!sentences.is_empty()).then_some(Block::Space);
    let sentences = sentences.iter().map(|sentence| Block::Text(plain(sentence)));
    Part { id, title, blocks: space.into_iter().chain(sentences).collect(), ..Part::default() }
}
