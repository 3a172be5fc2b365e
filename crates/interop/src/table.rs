//! Results in lines and tables: nuttcp's last line, IOR's table, elbencho's CSV or JSON.

use crate::MOST_FIGURES;
use crate::lenient::Text;
use crate::verdict::{self, FigureContext};
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::access::{Access, AccessJob, AccessOrder, AccessResult, SideResult};
use linerate_measure::measure::statistics::{Interval, median, spread};
use linerate_measure::measure::streams::{PathFigure, StreamDirection, StreamsJob, StreamsResult};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use std::collections::BTreeMap;

const MIB: f64 = 1_048_576.0;
/// A table is a few lines for each phase of a test.
const LARGEST_TABLE_BYTES: usize = 16 << 20;

/// What nuttcp calls with `-fparse` what it otherwise writes before a unit.
const PARSE_NAMES: [(&str, &str); 8] = [
    ("Mbps", "rate_Mbps"),
    ("sec", "real_seconds"),
    ("MB", "megabytes"),
    ("%TX", "tx_cpu"),
    ("%RX", "rx_cpu"),
    ("retrans", "retrans"),
    ("msRTT", "rtt_ms"),
    ("%loss", "data_loss"),
];

/// None: it is none of them.
pub(crate) fn read(bytes: &[u8]) -> Option<Run> {
    if bytes.len() > LARGEST_TABLE_BYTES {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    ior(&text).or_else(|| elbencho(&text)).or_else(|| nuttcp(&text))
}

fn number(word: &str) -> Option<f64> {
    word.parse().ok().filter(|value: &f64| (0.0..=1e18).contains(value))
}

/// `112.1 MB / 10.00 sec = 94.04 Mbps 1 %TX 2 %RX 0 retrans 0.21 msRTT`; the lines of intervals end before the CPUs.
fn nuttcp(text: &str) -> Option<Run> {
    let mut samples = Vec::new();
    let mut last = None;
    for line in text.lines().filter(|line| line.len() < 400) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // With `-fparse` each word is a name and its value.
        let named = |unit: &str| {
            let (_, name) = PARSE_NAMES.iter().find(|(of, _)| *of == unit)?;
            words.iter().find_map(|word| number(word.strip_prefix(name)?.strip_prefix('=')?))
        };
        let before = |unit: &str| {
            let Some(at) = words.iter().position(|word| *word == unit) else { return named(unit) };
            number(words.get(at.checked_sub(1)?)?)
        };
        let seconds = before("sec").or(before("real"));
        let (Some(rate), Some(seconds), Some(_)) = (before("Mbps"), seconds, before("MB")) else {
            continue;
        };
        // With `-v` each end has lines of its own, and the CPUs in others.
        match (before("%TX"), words[0]) {
            (None, "nuttcp-t:") => {}
            (sender, end) if sender.is_some() || end == "nuttcp-r:" => {
                last = Some((
                    rate,
                    seconds,
                    sender,
                    before("%RX"),
                    before("retrans"),
                    before("msRTT"),
                    before("%loss"),
                ));
            }
            _ => samples.push(rate * 1e6 / 8.0),
        }
        samples.truncate(1_000_000);
    }
    let (rate, seconds, sender, receiver, retransmits, round_trip, loss) = last?;
    let rate = rate * 1e6 / 8.0;
    let protocol = if loss.is_some() { Protocol::Udp } else { Protocol::Tcp };
    let note = |value: Option<f64>, text: &dyn Fn(f64) -> String| value.map(text);
    let flags = [
        note(sender, &|share| format!("sender's CPU {share} %")),
        note(receiver, &|share| format!("receiver's CPU {share} %")),
        note(retransmits, &|count| format!("{count} retransmitted")),
        note(round_trip, &|time| format!("round trip {time} ms")),
    ];
    let direction = StreamDirection::Send;
    let loss = loss.unwrap_or(0.0) / 100.0;
    let path = PathFigure {
        name: "nuttcp".into(),
        direction,
        streams: 1,
        bytes_per_second: rate,
        samples: Vec::new(),
        loss,
    };
    let figure = Measurement {
        name: format!("{protocol}, nuttcp"),
        loss: loss.clamp(0.0, 1.0),
        flags: flags.into_iter().flatten().collect(),
        protocol: Some(protocol),
        method: "nuttcp".into(),
        streams: Some(Box::new(StreamsResult::plain(
            StreamsJob::plain(protocol, direction),
            vec![path],
            Vec::new(),
        ))),
        ..from_samples(Stage::Network, rate, seconds, if samples.is_empty() { vec![rate] } else { samples })
    };
    Some(as_run(Stage::Network, "nuttcp", "nuttcp", None, vec![figure]))
}

/// The rows of `Results:`, by their head; each kind of access once, its repeats as samples.
fn ior(text: &str) -> Option<Run> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("IOR-"));
    let version = lines.next()?.split(':').next()?;
    let (mut facts, mut head) = (BTreeMap::<String, String>::new(), Vec::<&str>::new());
    let mut rows: BTreeMap<&str, Vec<Vec<&str>>> = BTreeMap::new();
    let mut most = BTreeMap::new();
    for line in lines.filter(|line| line.len() < 4000) {
        if let Some(rest) = line.strip_prefix("Max ") {
            let (word, rate) = rest.split_once(':').unwrap_or((rest, ""));
            let access = if word == "Write" { "write" } else { "read" };
            most.extend(rate.split_whitespace().next().and_then(number).map(|rate| (access, rate)));
        } else if line.starts_with("access ") && line.contains("bw(MiB/s)") {
            head = line.split_whitespace().collect();
        } else if let (Some((word, value)), true) = (line.split_once(':'), head.is_empty()) {
            facts.entry(word.trim().to_string()).or_insert(value.trim().to_string());
        }
        for access in ["write", "read"] {
            if line.starts_with(access)
                && !head.is_empty()
                && rows.values().map(Vec::len).sum::<usize>() < MOST_FIGURES
            {
                let cells: Vec<&str> = line.split_whitespace().collect();
                // The rows of the summary have other columns.
                if cells.len() == head.len() {
                    rows.entry(access).or_default().push(cells);
                }
            }
        }
    }
    let fact = |name: &str| facts.get(name).map(String::as_str);
    let tasks = fact("tasks").and_then(number).unwrap_or(0.0);
    let figure = |(access, rows): (&&str, &Vec<Vec<&str>>)| {
        let column = |name: &str| head.iter().position(|word| *word == name);
        let values = |name: &str| -> Vec<f64> {
            let at = column(name);
            rows.iter().filter_map(|row| number(row.get(at?)?)).collect()
        };
        let samples: Vec<f64> = values("bw(MiB/s)").iter().map(|rate| rate * MIB).collect();
        // Its own line has more digits than the row.
        let rate = match (&samples[..], most.get(access)) {
            ([_], Some(most)) => most * MIB,
            _ => median(&samples),
        };
        let is_random = fact("ordering in a file").is_some_and(|order| order.starts_with("random"));
        let job = plain_job(if *access == "write" { Access::Write } else { Access::Read }, is_random, tasks);
        let transfer = values("xfer(KiB)").first().map_or(0.0, |size| size * 1024.0);
        let requests = values("IOPS");
        let requests = if requests.is_empty() { rate / transfer.max(1.0) } else { median(&requests) };
        let seconds = values("total(s)").iter().sum();
        let bytes = rate * median(&values("total(s)"));
        let method = format!("{version}, {}", fact("api").unwrap_or("its own API"));
        let figure = from_samples(Stage::Disk, rate, seconds, samples);
        of_files(
            figure,
            access,
            method,
            AccessJob { transfer_bytes: transfer as u64, ..job },
            requests,
            bytes,
        )
    };
    let figures: Vec<Measurement> =
        rows.iter().map(figure).filter(|one| one.bytes_per_second > 0.0).collect();
    let host = fact("Machine").and_then(|machine| machine.split_whitespace().nth(1));
    (!figures.is_empty())
        .then(|| as_run(Stage::Disk, version, fact("test filename").unwrap_or("IOR"), host, figures))
}

/// A row for each phase, whose columns have names; in the JSON file each row is an object of the same names.
fn elbencho(text: &str) -> Option<Run> {
    let rows: Vec<BTreeMap<String, Text>> = match text.trim_start().as_bytes().first()? {
        b'[' | b'{' if text.contains("\"ISO date\"") => json_rows(text),
        b'I' if text.starts_with("ISO date,") => csv_rows(text),
        _ => return None,
    };
    let mut figures = Vec::new();
    for row in &rows {
        let value = |name: &str| row.get(name).and_then(|text| number(&text.0));
        let operation = row.get("operation").map_or("", |text| text.0.as_str());
        let (Some(rate), true) = (value("MiB/s [last]"), matches!(operation, "READ" | "WRITE")) else {
            continue;
        };
        let access = if operation == "READ" { Access::Read } else { Access::Write };
        let workers = value("threads").unwrap_or(0.0) * value("hosts").unwrap_or(1.0).max(1.0);
        let job = AccessJob {
            transfer_bytes: value("block size").unwrap_or(0.0) as u64,
            queue_depth: value("IO depth").unwrap_or(1.0).max(1.0) as u32,
            direct: value("direct IO") != Some(0.0),
            ..plain_job(access, value("random") == Some(1.0), workers)
        };
        let seconds = value("time ms [last]").unwrap_or(0.0) / 1e3;
        let figure = from_samples(Stage::Disk, rate * MIB, seconds, vec![rate * MIB]);
        let bytes = value("MiB [last]").unwrap_or(0.0) * MIB;
        let requests = value("IOPS [last]").unwrap_or(0.0);
        let mut figure = of_files(figure, &operation.to_lowercase(), "elbencho".into(), job, requests, bytes);
        let side = figure.access.as_mut().and_then(|access| access.reads.as_mut().or(access.writes.as_mut()));
        if let Some(side) = side {
            let micros = |name: &str| value(name).unwrap_or(0.0) * 1e-6;
            side.latency.mean = micros("IO lat us [avg]");
            side.latency.minimum = micros("IO lat us [min]");
            side.latency.maximum = micros("IO lat us [max]");
        }
        figures.push(figure);
    }
    figures.truncate(MOST_FIGURES);
    let label = rows.iter().find_map(|row| row.get("label")?.get()).unwrap_or("elbencho");
    (!figures.is_empty()).then(|| as_run(Stage::Disk, "elbencho", label, None, figures))
}

fn json_rows(text: &str) -> Vec<BTreeMap<String, Text>> {
    let all: Option<Vec<BTreeMap<String, Text>>> = serde_json::from_str(text).ok();
    let lines = || serde_json::Deserializer::from_str(text).into_iter().map_while(Result::ok);
    all.unwrap_or_else(|| lines().take(10 * MOST_FIGURES).collect())
}

/// Each row below the last head, which is written again where files are joined.
fn csv_rows(text: &str) -> Vec<BTreeMap<String, Text>> {
    let mut head: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.len() < 10_000).take(10 * MOST_FIGURES) {
        let cells = || line.trim_end().split(',').map(|cell| cell.trim_matches('"'));
        if line.starts_with("ISO date,") {
            head = cells().collect();
        } else {
            rows.push(
                head.iter().zip(cells()).map(|(name, cell)| (name.to_string(), Text::of(cell))).collect(),
            );
        }
    }
    rows
}

fn from_samples(stage: Stage, rate: f64, seconds: f64, samples: Vec<f64>) -> Measurement {
    Measurement {
        stage,
        resource: "all".into(),
        together: true,
        bytes_per_second: rate,
        interval: Interval::of(&samples).map(|interval| [interval.low, interval.high]),
        spread: spread(&samples),
        samples,
        seconds,
        ..Measurement::default()
    }
}

/// What the tool reports of a job; what it does not report is as linerate has it, and is not shown.
fn plain_job(access: Access, is_random: bool, workers: f64) -> AccessJob {
    let order = if is_random { AccessOrder::Random } else { AccessOrder::Sequential };
    AccessJob { workers: workers as u32, ..AccessJob::plain(access, order) }
}

fn of_files(
    figure: Measurement,
    name: &str,
    method: String,
    job: AccessJob,
    operations_per_second: f64,
    bytes: f64,
) -> Measurement {
    let side = SideResult {
        operations: (operations_per_second * bytes / figure.bytes_per_second.max(1.0)) as u64,
        bytes: bytes as u64,
        operations_per_second,
        bytes_per_second: figure.bytes_per_second,
        ..SideResult::default()
    };
    let is_read = job.access == Access::Read;
    let (reads, writes) = if is_read { (Some(side), None) } else { (None, Some(side)) };
    let access = AccessResult { reads, writes, ..AccessResult::of(job) };
    Measurement { name: name.into(), method, access: Some(Box::new(access)), ..figure }
}

fn as_run(stage: Stage, tool: &str, name: &str, host: Option<&str>, figures: Vec<Measurement>) -> Run {
    let short = |text: &str| Text::of(text).0;
    let mut run = crate::begin(stage, short(tool), short(name), host.map(short).as_deref(), None);
    let why =
        format!("{tool} reports neither CPUs nor disks nor windows with it; measure with `linerate {stage}`");
    let beside = |figure| (figure, FigureContext { unknown: Some(why.clone()), ..FigureContext::default() });
    verdict::judge_all(&mut run, figures.into_iter().map(beside).collect());
    run
}
