//! What a flow lost for what was taken of each resource: a bar for each, with its interval. Full is a bar of 1.

use crate::document::{Block, Cell, Part, Table, TableRow};
use crate::figure::percent;
use crate::grid::{Column, name, number, text};
use crate::markup::{Markup, at, html};
use linerate_facts::printable::printable;
use linerate_measure::diagnose::{Bottleneck, ShareFigure};
use linerate_measure::run::Run;
use linerate_model::plan::wording::in_words;
use linerate_model::shares::planned_id;
use linerate_model::verdict::Verdict;

/// Cells of a bar on a terminal that are a share of 1, and those of the scale beyond it.
const FULL_CELLS: usize = 20;
const MOST_CELLS: usize = 26;
/// The same on a page, of a picture that is 1,000 wide.
const FULL_WIDTH: f64 = 760.0;
const MOST_WIDTH: f64 = 1000.0;
const COLUMNS: [Column<'static>; 4] =
    [name("what was taken"), text("", 1), number("share", 0), number("taken", 2)];
const INTRO: &str = "For moments, in random order, linerate took a little of each resource from the flow. The share is what \
     the flow lost ÷ what was taken: 1 limits it, 0 has room. The thin line is the 95 % interval.";

/// A row for each resource; none where nothing was taken.
pub(super) fn part<'a>(run: &Run) -> Option<Part<'a>> {
    let diagnosis = run.diagnosis.as_ref()?;
    let decided = matches!(diagnosis.verdict, Some(Verdict::Confirmed | Verdict::Tie));
    of(&diagnosis.shares, diagnosis.bottleneck.as_ref().filter(|_| decided))
}

/// The same of these; `limit`: what they say limits.
pub(super) fn of<'a>(shares: &[ShareFigure], limit: Option<&Bottleneck>) -> Option<Part<'a>> {
    if shares.is_empty() {
        return None;
    }
    let cut = limit.map(|limit| limit.resources.as_slice()).unwrap_or_default();
    let limits = |share: &ShareFigure| ids(share).iter().any(|id| cut.contains(&planned_id(id)));
    let rows = shares.iter().map(|share| row(share, limits(share)));
    let blocks = vec![Block::Space, Block::Table(Table::new(COLUMNS, rows))];
    Some(Part::new("shares", "What it lost for what was taken", INTRO, blocks))
}

fn ids(figure: &ShareFigure) -> &[String] {
    if figure.members.is_empty() { std::slice::from_ref(&figure.resource) } else { &figure.members }
}

fn row(figure: &ShareFigure, limits: bool) -> TableRow {
    let raised = figure.resource.strip_prefix("raise:");
    let what = match raised {
        Some(setting) => format!("twice the {setting}"),
        None => in_words(&ids(figure).iter().map(String::as_str).collect::<Vec<_>>()),
    };
    let share = match (figure.share, figure.interval) {
        (Some(share), Some([_, high])) if raised.is_some() => {
            format!("{:+.0} ± {:.0} %", share * 100.0, (high - share) * 100.0).replace('-', "−")
        }
        // No minus before a zero.
        (Some(share), Some([_, high])) => {
            let zero = if share.abs() < 0.005 { 0.0 } else { share };
            format!("{zero:.2} ± {:.2}", high - share).replace('-', "−")
        }
        _ => figure.why.clone().unwrap_or_else(|| "unknown".into()),
    };
    let taken = if raised.is_some() { String::new() } else { percent(figure.taken) };
    let bar = Cell::drawn(cells(figure).unwrap_or_default(), drawn(figure).unwrap_or_default());
    TableRow::of([printable(&what).into(), bar, Cell::from(printable(&share)), taken.into()]).marked(limits)
}

fn bar_of(figure: &ShareFigure) -> Option<(f64, [f64; 2])> {
    let (share, [low, high]) = figure.share.zip(figure.interval)?;
    [share, low, high].iter().all(|end| end.is_finite()).then_some((share, [low, high]))
}

/// `████████▌·····├──┤`: the share as a bar, its interval behind it as a line.
fn cells(figure: &ShareFigure) -> Option<String> {
    let (share, [low, high]) = bar_of(figure)?;
    let cell = |value: f64| (value * FULL_CELLS as f64).round().clamp(0.0, MOST_CELLS as f64) as usize;
    let (bar, from, to) = (cell(share), cell(low), cell(high));
    let of = |at: usize| match at {
        at if at < bar => '█',
        at if (from..to).contains(&at) => '─',
        at if at < FULL_CELLS => '·',
        _ => ' ',
    };
    Some((0..MOST_CELLS).map(of).collect())
}

fn drawn(figure: &ShareFigure) -> Option<Markup> {
    let (share, [low, high]) = bar_of(figure)?;
    let x = |value: f64| (value * FULL_WIDTH).clamp(0.0, MOST_WIDTH);
    Some(html! {
        svg class="wbar" viewBox="0 0 1000 22" preserveAspectRatio="none" role="img"
            aria-label={ "share " (format!("{share:.2}")) ", 95 % between " (format!("{low:.2} and {high:.2}")) } {
            rect class="used" width=(at(x(share))) height="22" {}
            rect class="rated" x=(at(x(low))) y="9" width=(at((x(high) - x(low)).max(2.0))) height="4" {}
            rect class="rated" x=(at(FULL_WIDTH)) width="2" height="22" {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_measure::diagnose::Diagnosis;
    use linerate_model::verdict::LimitKind;

    fn share(resource: &str, share: f64, half_width: f64) -> ShareFigure {
        let interval = Some([share - half_width, share + half_width]);
        let figure = ShareFigure { resource: resource.into(), taken: 0.1, ..ShareFigure::default() };
        ShareFigure { share: Some(share), interval, ..figure }
    }

    #[test]
    fn a_bar_is_as_long_as_its_share_and_its_interval_goes_on_behind_it() {
        let bar =
            |value, half_width| cells(&share("disk:vda", value, half_width)).map(|cells| cells.to_string());
        assert_eq!(bar(1.0, 0.1).as_deref(), Some("████████████████████──    "));
        assert_eq!(bar(0.0, 0.05).as_deref(), Some("─···················      "));
        assert_eq!(bar(0.5, 0.0).as_deref(), Some("██████████··········      "));
        assert_eq!(bar(9.0, 1.0).as_deref(), Some("██████████████████████████"));
        assert_eq!(bar(f64::NAN, 0.1), None);
        assert_eq!(bar(0.5, f64::INFINITY), None);
    }

    #[test]
    fn each_share_is_a_row_and_what_is_unknown_says_why() {
        let unknown = ShareFigure { why: Some("too few slots".into()), ..share("nic:eth0", 0.0, 0.0) };
        let shares = vec![
            share("disk:vda", 0.96, 0.07),
            share("cpu", -0.001, 0.05),
            ShareFigure { share: None, interval: None, ..unknown },
            share("raise:reads in flight and streams", 0.31, 0.04),
        ];
        let bottleneck = Bottleneck::new(LimitKind::Disk, vec!["disk:vda".into()], Vec::new(), 0.0);
        let diagnosis = Diagnosis {
            shares,
            verdict: Some(Verdict::Confirmed),
            bottleneck: Some(bottleneck),
            ..Diagnosis::default()
        };
        let run = Run { diagnosis: Some(diagnosis), ..Run::begin(Default::default(), Default::default()) };
        let part = part(&run).expect("a part");
        let screen = part.lines(100, crate::grid::Style::of(100, false)).join("\n");
        let page = part.card().0;
        let all =
            "disk vda|0.96 ± 0.07|0.00 ± 0.05|too few slots|twice the reads in flight and streams|+31 ± 4 %";
        for words in all.split('|') {
            assert!(screen.contains(words) && page.contains(words), "{words}: {screen}\n{page}");
        }
        assert!(super::part(&Run { diagnosis: None, ..run }).is_none());
    }
}
