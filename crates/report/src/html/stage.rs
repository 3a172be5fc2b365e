//! The page of one stage's benchmark: the answer, its charts, every measurement, what is to be changed, the
//! machine.

use super::text::{escape, kept_together, section as card};
use super::{document, errors, findings, machine};
use crate::charts::{self, Named, Quantity, with_unit};
use crate::figure::{Unit, percent, quantity};
use crate::markup::PreEscaped;
use crate::stage::{StageRow, operations_word, rows, seconds_word, sentence};
use linerate_measure::measure::Stage;
use linerate_measure::measure::access::DeviceUse;
use linerate_measure::run::Run;

/// Rows shown at once; more are behind a heading that opens.
const ROWS_SHOWN: usize = 40;

/// The whole page.
pub(super) fn page(run: &Run, stage: Stage) -> String {
    let mut body = header(run, stage);
    body += "<main>\n";
    body += &errors(&run.errors).into_string();
    let charts = charts::html(&[Named { name: &run.name, run }]).into_string();
    if !charts.is_empty() {
        body += &card("charts", "Charts", "", &charts);
    }
    body += &measurements(run);
    body += &checks(run);
    body += &super::streams::section(run).into_string();
    body += &super::ledger::section(run).into_string();
    if !run.findings().is_empty() {
        body += &findings::cards(run.findings()).into_string();
    }
    body += &machine::section(&run.machine).into_string();
    body += &left(run);
    body += "</main>\n";
    let title = format!("{}: {} on {} – linerate", run.name, stage, run.host);
    document(&title, charts::SHEET, PreEscaped(body))
}

fn header(run: &Run, stage: Stage) -> String {
    let facts = [format!("linerate {} {}", run.version, stage), run.host.clone(), run.started.clone()];
    let facts: Vec<String> = facts.iter().map(|fact| format!("<span>{}</span>", escape(fact))).collect();
    let sentence = sentence(run);
    format!(
        "<header>\n<p class=\"kicker\">{}</p>\n<p class=\"subject\">{}</p>\n<h1{}>{}</h1>\n</header>\n",
        facts.join(""),
        escape(&run.name),
        if sentence.chars().count() > 100 { " class=\"long\"" } else { "" },
        escape(&kept_together(&sentence))
    )
}

fn measurements(run: &Run) -> String {
    let rows = rows(run);
    if rows.is_empty() {
        return card("measurements", "Measurements", "", "<p class=\"empty\">Nothing was measured.</p>");
    }
    let timed = rows.iter().any(|row| row.latency.is_some());
    let head = |words: &[&str]| -> String {
        let cell = |word: &&str| format!("<th scope=\"col\" class=\"r\">{word}</th>");
        words.iter().map(cell).collect()
    };
    let times = if timed { head(&["IOPS", "mean", "p50", "p99", "p99.9", "p99.99"]) } else { String::new() };
    let table = format!(
        "<div class=\"scroll\"><table class=\"stages\"><thead><tr><th \
         scope=\"col\">measurement</th>{}{times}{}<th scope=\"col\">notes; \
         how</th></tr></thead><tbody>{}</tbody></table></div>",
        head(&["rate", "spread"]),
        head(&["CPU s/GB"]),
        rows.iter().map(|row| line(row, timed)).collect::<String>()
    );
    let body = if rows.len() > ROWS_SHOWN {
        format!("<details><summary>{} measurements</summary>{table}</details>", rows.len())
    } else {
        table
    };
    let intro = "Medians of the repeats; spread is (highest − lowest) ÷ median. CPU seconds are those of our \
                 process for 10⁹ bytes.";
    card("measurements", "Measurements", intro, &body)
}

fn line(row: &StageRow, timed: bool) -> String {
    let number = |text: String| format!("<td class=\"r num\">{text}</td>");
    let mut html = format!(
        "<tr><th scope=\"row\">{}</th><td class=\"r\"><b>{}</b></td>{}",
        escape(&row.name),
        row.measured(),
        number(row.spread())
    );
    if timed {
        html += &number(row.operations.map(operations_word).unwrap_or_default());
        let of = |latency: &linerate_measure::measure::access::Latency| {
            [latency.mean, latency.p50, latency.p99, latency.p99_9, latency.p99_99]
        };
        let times = row.latency.map(of).map(|times| times.map(seconds_word));
        html += &times.unwrap_or_default().map(number).concat();
    }
    let cpu = row.measurement.cpu_seconds_per_gb;
    html += &number(if cpu > 0.0 { quantity(cpu) } else { "–".into() });
    let remarks = row.remarks();
    let chips: String = remarks
        .iter()
        .map(|remark| format!("<span class=\"chip warn\">{}</span> ", escape(remark)))
        .collect();
    html + &format!("<td class=\"how\">{chips}{}</td></tr>", escape(&row.measurement.method))
}

/// Devices beside each measurement, and whether depth, rate and latency fit together.
fn checks(run: &Run) -> String {
    let rows: Vec<String> = rows(run)
        .iter()
        .filter_map(|row| Some((row, row.measurement.access.as_ref()?)))
        .map(|(row, access)| {
            let checks = &access.checks;
            let depth = format!(
                "{} asked, {} reached, {} by Little’s law",
                quantity(checks.asked_depth),
                quantity(checks.reached_depth),
                quantity(checks.little_depth)
            );
            let late = if checks.lateness_maximum > 0.0 {
                format!(
                    "{} p99, {} at \
                         most",
                    seconds_word(checks.lateness_p99),
                    seconds_word(checks.lateness_maximum)
                )
            } else {
                "–".into()
            };
            format!(
                "<tr><th scope=\"row\">{}</th><td>{depth}</td><td class=\"r num\">{}</td><td class=\"r \
                 num\">{late}</td><td>{}</td></tr>",
                escape(&row.name),
                percent(checks.generator_cpu),
                escape(&devices(&access.devices))
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let body = format!(
        "<details{}><summary>{} measurements</summary><div class=\"scroll\"><table \
         class=\"stages\"><thead><tr><th scope=\"col\">measurement</th>\
         <th scope=\"col\">requests in flight</th><th scope=\"col\" class=\"r\">generator’s CPU</th>\
         <th scope=\"col\" class=\"r\">sent late</th><th scope=\"col\">devices \
         (diskstats)</th></tr></thead><tbody>{}</tbody></table></div></details>",
        if rows.len() <= 12 { " open" } else { "" },
        rows.len(),
        rows.concat()
    );
    card(
        "checks",
        "Whether to believe it",
        "Rate × mean latency has to be the number of requests in flight.",
        &body,
    )
}

fn devices(devices: &[DeviceUse]) -> String {
    let word = |device: &DeviceUse| {
        format!(
            "{}: busy {}, {} in flight, {} read, {} written",
            device.name,
            percent(device.utilisation),
            quantity(device.queue_depth),
            Unit::Bytes.show(device.read_bytes_per_second),
            Unit::Bytes.show(device.written_bytes_per_second)
        )
    };
    let shown: Vec<String> = devices.iter().take(4).map(word).collect();
    let more = if devices.len() > 4 { format!(" and {} more", devices.len() - 4) } else { String::new() };
    shown.join("; ") + &more
}

/// Files that are still there, and where the figures come from.
fn left(run: &Run) -> String {
    let files = machine::list("Files that were made and are still there", &run.changes).into_string();
    let bytes: f64 = run
        .measurements
        .iter()
        .filter_map(|m| m.access.as_ref())
        .flat_map(|access| [&access.reads, &access.writes])
        .flatten()
        .map(|side| side.bytes as f64)
        .sum();
    let moved = if bytes > 0.0 {
        format!("{} were moved. ", with_unit(Quantity::Size, bytes))
    } else {
        String::new()
    };
    let body = format!(
        "{files}<p>{moved}The same page from the file alone: <code>linerate report run.json</code>; beside \
         other runs: \
         <code>linerate compare</code>.</p>"
    );
    card("again", "Of this run", "", &body)
}
