//! What the machine drew: idle, while bytes moved, the difference, and joules for each GB.

use crate::document::{Block, Part, Table, TableRow};
use crate::grid::{self, Column};
use linerate_facts::fact::Fact;
use linerate_measure::run::Run;
use linerate_measure::run::power::{PowerUse, RunPower};

/// The names of the columns and their alignment, and where the screen is narrow the last one goes first.
const COLUMNS: [Column; 6] = [
    grid::name("power"),
    grid::number("watts", 0),
    grid::number("above idle", 0),
    grid::number("J/GB", 1),
    grid::number("above idle", 2),
    grid::notes(""),
];

/// None where nothing was metered.
pub(crate) fn part(run: &Run) -> Option<Part<'static>> {
    let power = run.power.as_ref()?;
    let blocks = vec![Block::Heading(title(power)), Block::Table(Table::new(COLUMNS, rows(power)))];
    let intro = format!("{}. With each measurement's start and warm-up.", title(power));
    Some(Part { id: "power", title: "Power", intro, blocks, ..Part::default() })
}

fn title(power: &RunPower) -> String {
    let part = if power.whole_machine { "the whole machine" } else { "a part of the machine" };
    format!("Power by {}, {part}", power.by)
}

fn rows(power: &RunPower) -> Vec<TableRow> {
    let idle = TableRow::of([
        "idle, before".into(),
        watts(&power.idle_watts),
        String::new(),
        String::new(),
        String::new(),
        why(&power.idle_watts),
    ]);
    std::iter::once(idle).chain(power.uses.iter().map(row)).collect()
}

fn row(drawn: &PowerUse) -> TableRow {
    let joules = |joules: Option<f64>| joules.map(|joules| format!("{joules:.1}")).unwrap_or_default();
    TableRow::of([
        format!("{} {}", drawn.stage, drawn.name),
        watts(&drawn.watts),
        watts(&drawn.above_idle_watts),
        joules(drawn.joules_per_gb()),
        joules(drawn.joules_per_gb_above_idle()),
        why(&drawn.watts),
    ])
}

fn watts(watts: &Fact<f64>) -> String {
    watts.known().map_or("unknown".into(), |watts| format!("{watts:.1}"))
}

fn why(fact: &Fact<f64>) -> String {
    fact.why().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Style;
    use linerate_machine::probe::Machine;
    use linerate_measure::measure::Stage;
    use linerate_model::plan::Goal;

    /// SARA's server: 349 W idle, 491 W while it streams 32.5 Gb/s.
    fn sara() -> Run {
        let stream = PowerUse {
            stage: Stage::Network,
            name: "udp".into(),
            seconds: 10.0,
            watts: Fact::Known(491.0),
            above_idle_watts: Fact::Known(142.0),
            bytes_per_second: 32.5e9 / 8.0,
        };
        let lost = PowerUse { watts: Fact::unknown("the meter is <gone>"), ..PowerUse::default() };
        let power = RunPower {
            by: "all of LINERATE_POWER_COMMAND together".into(),
            whole_machine: true,
            idle_watts: Fact::Known(349.0),
            uses: vec![stream, lost],
        };
        Run { power: Some(power), ..Run::begin(Machine::default(), Goal::default()) }
    }

    #[test]
    fn the_table_of_the_streaming_server() {
        let part = part(&sara()).expect("a meter");
        let screen = part.lines(100, Style::of(100, false)).join("\n");
        assert!(
            screen.contains("Power by all of LINERATE_POWER_COMMAND together, the whole machine"),
            "{screen}"
        );
        let row = screen.lines().find(|line| line.starts_with("network udp")).expect("the stream");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["network", "udp", "491.0", "142.0", "120.9", "35.0"]);
        assert!(screen.contains("349.0") && screen.contains("the meter is <gone>"), "{screen}");
        let page = part.card().into_string();
        assert!(page.contains("349.0") && page.contains("the meter is &lt;gone&gt;"), "{page}");
    }

    #[test]
    fn without_a_meter_there_is_no_table() {
        let run = Run { power: None, ..sara() };
        assert!(part(&run).is_none());
    }
}
