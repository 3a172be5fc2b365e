//! A benchmark as CSV (RFC 4180, lines end with a newline): a line for each measurement, for spreadsheets and
//! scripts; a comparison with a line for each rate of each run.
//!
//! Units stand in the heads. A field is empty where nothing was measured. Columns are added at the end, never
//! renamed.

use super::compare::{Comparison, Difference, Interval, Quantity};
use super::stage::name;
use super::stage::streams::retransmits;
use crate::stage::scaling::of_best_alone;
use linerate_measure::measure::Measurement;
use linerate_measure::measure::access::{AccessJob, AccessResult, MemoryPoint, SideResult, SyncResult};
use linerate_measure::measure::streams::StreamsResult;
use linerate_measure::run::Run;

/// A column: its head, and what a measurement has there.
type Column = (&'static str, fn(&Run, &Measurement) -> String);

/// Columns of every line, in their order.
const COLUMNS: [Column; 64] = [
    ("stage", |_, m| m.stage.to_string()),
    ("run", |run, _| run.name.clone()),
    ("measurement", |_, m| name(m)),
    ("bytes_per_second", |_, m| m.bytes_per_second.to_string()),
    ("spread", |_, m| m.spread.to_string()),
    ("samples", |_, m| m.samples.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")),
    ("cpu_seconds_per_gb", |_, m| m.cpu_seconds_per_gb.to_string()),
    ("flags", |_, m| m.flags.join(" ")),
    ("workers", |_, m| job(m, |job| job.workers.to_string())),
    ("transfer_bytes", |_, m| job(m, |job| job.transfer_bytes.to_string())),
    ("queue_depth", |_, m| job(m, |job| job.queue_depth.to_string())),
    ("engine", |_, m| job(m, |job| format!("{:?}", job.engine).to_lowercase())),
    ("direct", |_, m| job(m, |job| job.direct.to_string())),
    ("first_done_bytes_per_second", |_, m| {
        access(m, |access| access.first_done_bytes_per_second.to_string())
    }),
    ("last_done_bytes_per_second", |_, m| access(m, |access| access.last_done_bytes_per_second.to_string())),
    ("read_iops", |_, m| read(m, |side| side.operations_per_second)),
    ("read_bytes_per_second", |_, m| read(m, |side| side.bytes_per_second)),
    ("read_mean_seconds", |_, m| read(m, |side| side.latency.mean)),
    ("read_p50_seconds", |_, m| read(m, |side| side.latency.p50)),
    ("read_p90_seconds", |_, m| read(m, |side| side.latency.p90)),
    ("read_p95_seconds", |_, m| read(m, |side| side.latency.p95)),
    ("read_p99_seconds", |_, m| read(m, |side| side.latency.p99)),
    ("read_p99_9_seconds", |_, m| read(m, |side| side.latency.p99_9)),
    ("read_p99_99_seconds", |_, m| read(m, |side| side.latency.p99_99)),
    ("read_max_seconds", |_, m| read(m, |side| side.latency.maximum)),
    ("write_iops", |_, m| write(m, |side| side.operations_per_second)),
    ("write_bytes_per_second", |_, m| write(m, |side| side.bytes_per_second)),
    ("write_mean_seconds", |_, m| write(m, |side| side.latency.mean)),
    ("write_p50_seconds", |_, m| write(m, |side| side.latency.p50)),
    ("write_p90_seconds", |_, m| write(m, |side| side.latency.p90)),
    ("write_p95_seconds", |_, m| write(m, |side| side.latency.p95)),
    ("write_p99_seconds", |_, m| write(m, |side| side.latency.p99)),
    ("write_p99_9_seconds", |_, m| write(m, |side| side.latency.p99_9)),
    ("write_p99_99_seconds", |_, m| write(m, |side| side.latency.p99_99)),
    ("write_max_seconds", |_, m| write(m, |side| side.latency.maximum)),
    ("kernel", |_, m| memory(m, |point| point.kernel.clone())),
    ("store", |_, m| memory(m, |point| point.store.clone().unwrap_or_default())),
    ("stride_bytes", |_, m| memory(m, |point| point.stride_bytes.to_string())),
    ("working_set_bytes", |_, m| memory(m, |point| point.working_set_bytes.to_string())),
    ("cores", |_, m| memory(m, |point| point.cores.to_string())),
    ("level", |_, m| memory(m, |point| point.level.clone())),
    ("latency_seconds", |_, m| memory(m, |point| known(point.latency_seconds))),
    ("requests_per_second_asked", |_, m| job(m, |job| known(job.requests_per_second))),
    ("method", |_, m| m.method.clone()),
    ("sources", |_, m| job(m, sources)),
    ("protocol", |_, m| streams(m, |result| result.job.protocol.to_string())),
    ("direction", |_, m| streams(m, |result| result.job.direction.to_string())),
    ("streams", |_, m| streams(m, |result| result.streams.len().to_string())),
    ("congestion_control", |_, m| {
        streams(m, |result| result.job.congestion_control.clone().unwrap_or_default())
    }),
    ("loss", |_, m| streams(m, |_| m.loss.to_string())),
    ("retransmits", |_, m| streams(m, |result| known(retransmits(result)))),
    ("jitter_seconds", |_, m| streams(m, |result| jitter(result).to_string())),
    ("peer_cpu_seconds_per_gb", |_, m| {
        streams(m, |_| known(m.receiver.as_ref().map(|peer| peer.cpu_seconds_per_gb)))
    }),
    ("loaded_p99_seconds", |_, m| streams(m, |result| known(result.loaded_latency.map(|trips| trips.p99)))),
    ("of_baseline", |_, m| known(m.of_baseline())),
    ("sync", |_, m| job(m, |job| known(job.sync.map(|sync| sync.method.word())))),
    ("sync_every", |_, m| job(m, |job| known(job.sync.map(|sync| sync.every)))),
    ("syncs_per_second", |_, m| syncs(m, |syncs| syncs.operations_per_second)),
    ("sync_mean_seconds", |_, m| syncs(m, |syncs| syncs.latency.mean)),
    ("sync_p50_seconds", |_, m| syncs(m, |syncs| syncs.latency.p50)),
    ("sync_p99_seconds", |_, m| syncs(m, |syncs| syncs.latency.p99)),
    ("sync_max_seconds", |_, m| syncs(m, |syncs| syncs.latency.maximum)),
    ("write_and_sync_p99_seconds", |_, m| syncs(m, |syncs| syncs.with_write.p99)),
    ("of_best_alone", |run, m| known(m.of_baseline().and_then(|_| of_best_alone(run, m)))),
];

/// A run, a line for each measurement.
pub fn csv(run: &Run) -> String {
    let heads = line(&COLUMNS.map(|(head, _)| head.to_string()));
    let lines = run.measurements.iter().map(|m| line(&COLUMNS.map(|(_, field)| field(run, m))));
    heads + &lines.collect::<String>()
}

fn known(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn access(m: &Measurement, field: impl Fn(&AccessResult) -> String) -> String {
    m.access.as_deref().map(field).unwrap_or_default()
}

fn job(m: &Measurement, field: impl Fn(&AccessJob) -> String) -> String {
    access(m, |access| field(&access.job))
}

fn read(m: &Measurement, figure: fn(&SideResult) -> f64) -> String {
    access(m, |access| known(access.reads.as_ref().map(figure)))
}

fn write(m: &Measurement, figure: fn(&SideResult) -> f64) -> String {
    access(m, |access| known(access.writes.as_ref().map(figure)))
}

fn syncs(m: &Measurement, figure: fn(&SyncResult) -> f64) -> String {
    access(m, |access| known(access.syncs.as_ref().map(figure)))
}

fn memory(m: &Measurement, field: fn(&MemoryPoint) -> String) -> String {
    m.memory.as_ref().map(field).unwrap_or_default()
}

fn streams(m: &Measurement, field: impl Fn(&StreamsResult) -> String) -> String {
    m.streams.as_deref().map(field).unwrap_or_default()
}

fn sources(job: &AccessJob) -> String {
    job.sources.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

fn jitter(result: &StreamsResult) -> f64 {
    result.streams.iter().map(|stream| stream.jitter_seconds).fold(0.0, f64::max)
}

/// Rates in bytes per second; empty where there is none.
pub fn compare_csv(comparison: &Comparison) -> String {
    let heads = [
        "stage",
        "measurement",
        "run",
        "bytes_per_second",
        "interval_low",
        "interval_high",
        "samples",
        "flags",
        "ratio_to_first",
        "verdict",
        "quantity",
        "value",
    ];
    let mut text = line(&heads.map(String::from));
    for row in &comparison.rows {
        for ((side, figure), against) in comparison.runs.iter().zip(&row.figures).zip(&row.against_first) {
            let Some(figure) = figure else { continue };
            let rate = figure.bytes_per_second.to_string();
            let about = [row.stage.to_string(), row.name.clone(), side.label.clone()];
            let value = [figure.flags.join(" "), "bytes_per_second".into(), rate.clone()];
            text += &values(about, rate, (figure.interval, figure.samples), *against, value);
        }
    }
    // These lines have no rate in bytes.
    for detail in &comparison.details {
        for ((side, figure), against) in
            comparison.runs.iter().zip(&detail.figures).zip(&detail.against_first)
        {
            let Some(figure) = figure else { continue };
            let about = [detail.stage.to_string(), detail.name.clone(), side.label.clone()];
            let value = [String::new(), quantity(detail.quantity).into(), figure.median.to_string()];
            text += &values(about, String::new(), (figure.interval, figure.samples), *against, value);
        }
    }
    text
}

/// A line of what is measured in which run, its rate, repeats, difference, flags and value.
fn values(
    about: [String; 3],
    rate: String,
    (interval, samples): (Option<Interval>, usize),
    against: Option<Difference>,
    [flags, quantity, value]: [String; 3],
) -> String {
    let end =
        |end: fn(&Interval) -> f64| interval.as_ref().map_or_else(String::new, |it| end(it).to_string());
    let [ratio, verdict] = against.map_or_else(Default::default, |against| {
        [against.ratio.to_string(), <&str>::from(against.verdict).to_string()]
    });
    let repeats = [end(|it| it.low), end(|it| it.high), samples.to_string()];
    let all = about.into_iter().chain([rate]).chain(repeats).chain([flags, ratio, verdict, quantity, value]);
    line(&all.collect::<Vec<_>>())
}

fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::P50 => "p50_seconds",
        Quantity::P99 => "p99_seconds",
        Quantity::Cpu => "cpu_seconds_per_gb",
        Quantity::Knee => "knee_operations_per_second",
    }
}

/// One line: fields with commas, quotes or line ends in quotes. A field that a spreadsheet would take for a
/// formula is text, too.
fn line(fields: &[String]) -> String {
    let quoted = |field: &String| {
        let field = linerate_facts::printable::printable(field);
        let field = if field.starts_with(['=', '+', '@']) { format!("'{field}") } else { field };
        if field.contains([',', '"']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let fields = ["plain", "a, b", "say \"x\"", "=1+1", "two\nlines", "-3.5"].map(String::from);
        assert_eq!(line(&fields), "plain,\"a, b\",\"say \"\"x\"\"\",'=1+1,two lines,-3.5\n");
    }
}
