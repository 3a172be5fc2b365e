//! A fleet as one screen and as one page: the sentence, the matrix of rates, the members.

mod disks;
mod heat_map;
mod incast;
mod matrix;
mod members;
mod rates;
mod storage;
mod sums;

use crate::folder::Product;
use crate::html::{document, pieces};
use crate::json;
use crate::markup::{Markup, html};
use crate::style::Style;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_fleet::{FleetPattern, FleetResult};
pub use rates::run_of_rates;
use serde::Serialize;
use std::path::Path;

/// More hosts than this are no table of a terminal.
const MOST_HOSTS_OF_A_TABLE: usize = 16;

const STYLE: &str = "\
.heat .s0{fill:#b2182b}.heat .s1{fill:#ef8a62}.heat .s2{fill:#fddbc7}.heat .s3{fill:#e8efe8}\
.heat .s4{fill:#d1e5f0}.heat .s5{fill:#67a9cf}.heat .none{fill:none;stroke:#888;stroke-dasharray:2 2}\
.heat text{font-size:11px;fill:currentColor}";

/// A fleet's result as it is saved.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct FleetProduct<'a>(pub &'a FleetResult);

impl Product for FleetProduct<'_> {
    const FILE: &'static str = "fleet.json";

    fn started(&self) -> &str {
        &self.0.started
    }

    fn page(&self) -> String {
        page(self.0)
    }
}

/// What `linerate fleet` left in a file or a folder; none where it is something else.
pub fn read(path: &Path) -> Result<Option<FleetResult>, Failure> {
    json::read_fleet(path)
}

/// One screen: what was found, the matrix where it fits, what failed. Ends with a newline.
pub fn terminal(result: &FleetResult, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let mut lines = vec![style.bold(&printable(&result.verdict.sentence)), String::new()];
    let measured = result.members.len();
    let streams = if result.streams == 1 { "1 stream".into() } else { format!("{} streams", result.streams) };
    let pattern = result.pattern.name();
    lines.push(style.dim(&match result.pattern {
        FleetPattern::Disk => format!("{pattern} of {measured} members"),
        FleetPattern::Storage => format!(
            "{pattern} of {measured} members, of which {} are servers, windows of {} s, {streams} a flow",
            result.servers.len(),
            result.seconds
        ),
        _ => format!("{pattern} of {measured} members, windows of {} s, {streams} a flow", result.seconds),
    }));
    for difference in &result.differences {
        lines.push(printable(difference));
    }
    lines.push(String::new());
    lines.extend(match result.pattern {
        FleetPattern::Disk => disks::terminal(result, style, width),
        FleetPattern::Storage => storage::terminal(result, style, width),
        FleetPattern::Incast => incast::terminal(&result.verdict, style, width),
        FleetPattern::AllToAll if measured <= MOST_HOSTS_OF_A_TABLE => {
            [matrix::matrix(result, style, width), sums::hosts(result, style, width)].concat()
        }
        FleetPattern::AllToAll => sums::hosts(result, style, width),
        _ if measured <= MOST_HOSTS_OF_A_TABLE => {
            [matrix::matrix(result, style, width), matrix::of_predicted(result, style, width)].concat()
        }
        _ => matrix::slowest(result, style, width),
    });
    if matches!(result.pattern, FleetPattern::AllToAll | FleetPattern::Bisection) {
        lines.push(String::new());
        lines.extend(sums::windows(result, style, width));
    }
    if !result.verdict.racks.is_empty() {
        lines.push(String::new());
        lines.extend(sums::racks(result, style, width));
    }
    if !result.verdict.doubts.is_empty() {
        lines.push(String::new());
        lines.extend(result.verdict.doubts.iter().map(|doubt| printable(doubt)));
    }
    let gone = result.members.iter().filter_map(|member| Some((&member.name, member.lost.as_ref()?)));
    for (name, why) in gone.chain(result.absent.iter().map(|host| (&host.name, &host.why))) {
        lines.push(printable(&format!("not measured: {name}: {why}")));
    }
    lines.join("\n") + "\n"
}

fn table_of_page(heads: &[&str], rows: Vec<Vec<String>>) -> Markup {
    let head = html! { @for head in heads { th { (head) } } };
    pieces::table("", head, html! { @for row in &rows { tr { @for cell in row { td { (cell) } } } } })
}

/// Flows of one window share links by the pattern itself: what is predicted of one is its fair share, and no rate.
fn shares_links(result: &FleetResult) -> bool {
    matches!(result.pattern, FleetPattern::AllToAll | FleetPattern::Incast | FleetPattern::Storage)
}

/// With which other flows those of the matrix ran, where that is not one pair each.
fn beside_words(result: &FleetResult) -> Option<&'static str> {
    match result.pattern {
        FleetPattern::Incast => Some("All others send to the host of a column."),
        FleetPattern::Storage => Some("All clients take at once."),
        FleetPattern::AllToAll => Some("All send to all at once."),
        _ => None,
    }
}

/// The whole page.
pub fn page(result: &FleetResult) -> String {
    let facts =
        [format!("linerate {}", result.version), result.pattern.name().into(), result.started.clone()];
    let body = html! {
        header {
            p class="kicker" { @for fact in &facts { span { (fact) } } }
            p class="subject" { (result.members.len()) " members" }
            h1 class="long" { (pieces::kept_together(&result.verdict.sentence)) }
        }
        main {
            @if !result.errors.is_empty() {
                (pieces::card("errors", "What failed", html! {}, html! { ul { @for error in &result.errors { li { (error) } } } }))
            }
            @if !result.differences.is_empty() {
                (pieces::card("unlike", "How the members differ", html! {}, html! { ul { @for one in &result.differences { li { (one) } } } }))
            }
            @if !result.verdict.doubts.is_empty() {
                (pieces::card("doubts", "What makes the figures doubtful", html! {}, html! { ul { @for one in &result.verdict.doubts { li { (one) } } } }))
            }
            @if result.pattern == FleetPattern::Disk {
                (disks::page(result))
            } @else {
            @if result.pattern == FleetPattern::Storage { (storage::page(result)) }
            @if !result.verdict.incast.is_empty() { (incast::page(&result.verdict)) }
            @if !result.verdict.sums.is_empty() { (sums::hosts_page(result)) }
            (pieces::card("matrix", "Who sends to whom", html! { p { "Rows send, columns receive; the colour is the rate by the median of all. Dashed: not measured. Pointing at a cell shows its rate." @if let Some(words) = beside_words(result) { " " (words) } } }, pieces::scrolling("map of rates", heat_map::rates_map(result))))
            @if let Some(summary) = matrix::prediction(result).filter(|_| !shares_links(result)) {
                (pieces::card("predicted", "Achieved by predicted", html! { p { (summary) ". Pale: as predicted." } }, pieces::scrolling("map of achieved by predicted", heat_map::prediction_map(result))))
            }
            }
            (pieces::card("members", "The members", html! {}, members::members(result)))
        }
    };
    document(&format!("fleet of {} – linerate", result.members.len()), STYLE, body)
}
