//! A benchmark as CSV (RFC 4180, lines end with a newline): a line for each measurement, for spreadsheets and
//! scripts.
//!
//! Units stand in the heads. A field is empty where nothing was measured. Columns are added at the end, never
//! renamed.

use super::stage::name;
use linerate_measure::measure::Measurement;
use linerate_measure::measure::access::{AccessJob, AccessResult, Latency, MemoryPoint, SideResult};
use linerate_measure::run::Run;

/// Columns of every line, in their order.
const HEADS: [&str; 54] = [
    "stage",
    "run",
    "measurement",
    "bytes_per_second",
    "spread",
    "samples",
    "cpu_seconds_per_gb",
    "flags",
    "workers",
    "transfer_bytes",
    "queue_depth",
    "engine",
    "direct",
    "first_done_bytes_per_second",
    "last_done_bytes_per_second",
    "read_iops",
    "read_bytes_per_second",
    "read_mean_seconds",
    "read_p50_seconds",
    "read_p90_seconds",
    "read_p95_seconds",
    "read_p99_seconds",
    "read_p99_9_seconds",
    "read_p99_99_seconds",
    "read_max_seconds",
    "write_iops",
    "write_bytes_per_second",
    "write_mean_seconds",
    "write_p50_seconds",
    "write_p90_seconds",
    "write_p95_seconds",
    "write_p99_seconds",
    "write_p99_9_seconds",
    "write_p99_99_seconds",
    "write_max_seconds",
    "kernel",
    "store",
    "stride_bytes",
    "working_set_bytes",
    "cores",
    "level",
    "latency_seconds",
    "requests_per_second_asked",
    "method",
    "sources",
    "protocol",
    "direction",
    "streams",
    "congestion_control",
    "loss",
    "retransmits",
    "jitter_seconds",
    "peer_cpu_seconds_per_gb",
    "loaded_p99_seconds",
];

/// The whole benchmark.
pub(super) fn csv(run: &Run) -> String {
    let mut text = line(&HEADS.map(String::from));
    for measurement in &run.measurements {
        text += &line(&fields(run, measurement));
    }
    text
}

fn fields(run: &Run, m: &Measurement) -> Vec<String> {
    let samples: Vec<String> = m.samples.iter().map(f64::to_string).collect();
    let mut fields = vec![
        m.stage.to_string(),
        run.name.clone(),
        name(m),
        m.bytes_per_second.to_string(),
        m.spread.to_string(),
        samples.join(" "),
        m.cpu_seconds_per_gb.to_string(),
        m.flags.join(" "),
    ];
    let access = m.access.as_deref();
    fields.extend(of_job(access.map(|access| &access.job)));
    fields.extend(of_rates(access));
    fields.extend(of_side(access.and_then(|access| access.reads.as_ref())));
    fields.extend(of_side(access.and_then(|access| access.writes.as_ref())));
    fields.extend(of_memory(m.memory.as_ref()));
    let job = access.map(|access| &access.job);
    fields.push(job.and_then(|job| job.requests_per_second).map(|rate| rate.to_string()).unwrap_or_default());
    fields.push(m.method.clone());
    let sources =
        job.map(|job| job.sources.iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
    fields.push(sources.unwrap_or_default().join(" "));
    fields.extend(of_streams(m));
    fields
}

fn of_streams(m: &Measurement) -> Vec<String> {
    let Some(result) = m.streams.as_deref() else { return vec![String::new(); 9] };
    let told: Vec<u64> = result.streams.iter().filter_map(|s| Some(s.tcp.as_ref()?.retransmits)).collect();
    let retransmits = if told.is_empty() {
        String::new()
    } else {
        told.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)).to_string()
    };
    let jitter = result.streams.iter().map(|stream| stream.jitter_seconds).fold(0.0, f64::max);
    vec![
        result.job.protocol.to_string(),
        result.job.direction.to_string(),
        result.streams.len().to_string(),
        result.job.congestion_control.clone().unwrap_or_default(),
        m.loss.to_string(),
        retransmits,
        jitter.to_string(),
        m.receiver.as_ref().map(|peer| peer.cpu_seconds_per_gb.to_string()).unwrap_or_default(),
        result.loaded_latency.map(|trips| trips.p99.to_string()).unwrap_or_default(),
    ]
}

fn of_job(job: Option<&AccessJob>) -> Vec<String> {
    let Some(job) = job else { return vec![String::new(); 5] };
    vec![
        job.workers.to_string(),
        job.transfer_bytes.to_string(),
        job.queue_depth.to_string(),
        format!("{:?}", job.engine).to_lowercase(),
        job.direct.to_string(),
    ]
}

fn of_rates(access: Option<&AccessResult>) -> Vec<String> {
    let Some(access) = access else { return vec![String::new(); 2] };
    vec![access.first_done_bytes_per_second.to_string(), access.last_done_bytes_per_second.to_string()]
}

fn of_side(side: Option<&SideResult>) -> Vec<String> {
    let Some(side) = side else { return vec![String::new(); 10] };
    let Latency { mean, maximum, p50, p90, p95, p99, p99_9, p99_99, .. } = side.latency;
    let rates = [side.operations_per_second, side.bytes_per_second];
    let all = rates.into_iter().chain([mean, p50, p90, p95, p99, p99_9, p99_99, maximum]);
    all.map(|value| value.to_string()).collect()
}

fn of_memory(point: Option<&MemoryPoint>) -> Vec<String> {
    let Some(point) = point else { return vec![String::new(); 7] };
    vec![
        point.kernel.clone(),
        point.store.clone().unwrap_or_default(),
        point.stride_bytes.to_string(),
        point.working_set_bytes.to_string(),
        point.cores.to_string(),
        point.level.clone(),
        point.latency_seconds.map(|seconds| seconds.to_string()).unwrap_or_default(),
    ]
}

/// One line: fields with commas, quotes or line ends in quotes. A field that a spreadsheet would take for a
/// formula is text, too.
pub(super) fn line(fields: &[String]) -> String {
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
