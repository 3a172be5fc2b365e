//! Findings about the figures themselves: drift, disks and networks that are fast until a bucket is empty, bytes that
//! the page cache had or that were read again, a path below its prediction.

use super::super::product::{Finding, Severity};
use super::Context;
use crate::diagnose::figures::flagged;
use crate::measure::access::Burst;
use crate::measure::{Measurement, PAGE_CACHE, READ_AGAIN, Stage};
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_model::plan::SourcePlan;
use linerate_model::plan::wording::in_words;
use linerate_model::verdict::thresholds::{AGREES_FROM, AGREES_TO};
use serde_json::{Value, json};

/// Samples that fall or rise steadily by more than this share drift.
const DRIFT: f64 = 0.1;
/// A path below this share of the prediction lacks an explanation.
const BELOW_PREDICTION: f64 = 0.9;
/// A path above this share of the prediction shows that a part was measured too low.
const ABOVE_PREDICTION: f64 = 1.15;

/// A part that did more than this times what it is rated is not that part alone: data sheets round by 2 %.
const ABOVE_RATED: f64 = 1.02;

/// `drift`: the samples of a measurement go one way. Not of memory: its samples are too short to tell a drift
/// from a neighbour.
pub(super) fn drift(context: &Context) -> Vec<Finding> {
    let long = context.figures.all.iter().filter(|figure| figure.stage != Stage::Memory);
    let drifting = long.filter_map(|figure| Some((figure, steady_change(&figure.samples)?)));
    let Some((worst, change)) = drifting.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())) else {
        return Vec::new();
    };
    let direction = if change < 0.0 { "fell" } else { "rose" };
    vec![
        Finding::note(
            "drift",
            format!(
                "“{}” {direction} steadily, by {:.0} % from its first sample to its last",
                worst.name,
                change.abs() * 100.0
            ),
        )
        .evidence(json!({ "measurement": worst.name, "samples": worst.samples, "change": change }))
        .remedy(
            "measure longer (`--seconds`): a cache that runs out, a credit that is spent, or heat would show",
        ),
    ]
}

/// Change from first to last sample, where all steps go the same way and it is large enough.
fn steady_change(samples: &[f64]) -> Option<f64> {
    let (first, last) = (*samples.first()?, *samples.last()?);
    let steady =
        |up: bool| samples.windows(2).all(|pair| if up { pair[1] > pair[0] } else { pair[1] < pair[0] });
    let change = if first > 0.0 { last / first - 1.0 } else { return None };
    (samples.len() >= 3 && (steady(true) || steady(false)) && change.abs() > DRIFT && change.is_finite())
        .then_some(change)
}

/// `read-again`: bytes of the disks came from a cache below them, or may have.
pub(super) fn read_again(context: &Context) -> Vec<Finding> {
    let doubted = |figure: &&Measurement| flagged(figure, READ_AGAIN) && figure.together;
    let Some(figure) = context.figures.all.iter().rfind(doubted) else { return Vec::new() };
    let Some(why) = figure.distrust() else { return Vec::new() };
    let bytes = figure.read_again.iter().map(|source| source.bytes).fold(0, u64::saturating_add);
    let mut rates = figure.read_again.iter().filter_map(|source| {
        let (first, again) = (source.first_bytes_per_second?, source.again_bytes_per_second?);
        let (first, again) = (show_bytes_rate(first), show_bytes_rate(again));
        Some(format!("{first} at first, {again} again"))
    });
    let rates = rates.next().map_or(String::new(), |rates| format!(" ({rates})"));
    vec![
        Finding::note(
            "read-again",
            format!(
                "“{}” read {} again{rates}, and {}",
                figure.name,
                show_size(bytes),
                why.words()
            ),
        )
        .evidence(json!({ "measurement": figure.name, "read_again": figure.read_again }))
        .remedy(
            "give larger files with `--source`, or `--amount`: several times what the caches of the disk, its \
             controller and its host hold",
        ),
    ]
}

/// `path-below-prediction`: the path does less than its parts allow, in nearly all rounds.
pub(super) fn below_prediction(context: &Context) -> Vec<Finding> {
    let below = context.predictions.iter().filter_map(|prediction| {
        let achieved = prediction.achieved(context.figures);
        let rounds_agree = achieved.of_predicted_interval.is_none_or(|[_, high]| high < AGREES_FROM);
        let short = achieved.of_predicted > 0.0 && achieved.of_predicted < BELOW_PREDICTION && rounds_agree;
        short.then_some((prediction, achieved, context.figures.path(prediction.protocol)?))
    });
    below
        .map(|(prediction, achieved, path)| {
            let predicted = achieved.bytes_per_second / achieved.of_predicted;
            let workers = path.worker_evidence().unwrap_or_default();
            let (source, sink) = (workers.waiting_source.min(1.0), workers.waiting_sink.min(1.0));
            Finding::slow("path-below-prediction", format!(
                    "the {} path carried {}, {:.0} % of the {} that its parts allow; workers waited {:.0} % \
                     of the time for their source and {:.0} % for their sink{}",
                    prediction.protocol,
                    show_bytes_rate(achieved.bytes_per_second),
                    achieved.of_predicted * 100.0,
                    show_bytes_rate(predicted),
                    source * 100.0,
                    sink * 100.0,
                    limited_by(path)
                )).evidence(json!({
                    "protocol": prediction.protocol, "achieved": achieved.bytes_per_second, "predicted": predicted,
                    "waiting_source": source, "waiting_sink": sink, "held_by": path.held_by,
                })).remedy(if source >= sink {
                    "more reads in flight (`--queue-depth`) or larger reads (`--transfer`) on the disks"
                } else {
                    "look at the receiver's CPU and at retransmits; more paths or workers help where one \
                     connection is the limit"
                }).gain((predicted - achieved.bytes_per_second).max(0.0))
        })
        .collect()
}

/// `figures-disagree`: the path does more than its parts seemed to allow.
pub(super) fn above_prediction(context: &Context) -> Vec<Finding> {
    let above = context.predictions.iter().filter_map(|prediction| {
        let achieved = prediction.achieved(context.figures);
        let rounds_agree = achieved.of_predicted_interval.is_none_or(|[low, _]| low > AGREES_TO);
        (achieved.of_predicted > ABOVE_PREDICTION && rounds_agree).then_some((prediction, achieved))
    });
    above
        .map(|(prediction, achieved)| {
            let predicted = achieved.bytes_per_second / achieved.of_predicted;
            let cut = prediction.solution.cut.join(", ");
            Finding::note("figures-disagree", format!(
                    "the {} path carried {}, {:.0} % of the {} that was predicted: {cut} can do more than \
                     its own measurement showed",
                    prediction.protocol,
                    show_bytes_rate(achieved.bytes_per_second),
                    achieved.of_predicted * 100.0,
                    show_bytes_rate(predicted),
                )).evidence(json!({
                    "protocol": prediction.protocol, "achieved": achieved.bytes_per_second, "predicted": predicted,
                    "cut": prediction.solution.cut,
                })).remedy("measure again on a quieter machine, or longer (`--seconds`); do not build on the \
                         bottleneck named here")
        })
        .collect()
}

/// `above-rated`: a part did more than its data sheet says.
pub(super) fn above_rated(context: &Context) -> Vec<Finding> {
    let Some(prediction) = context.predictions.first() else { return Vec::new() };
    let above = prediction.resources.iter().filter_map(|part| {
        let (measured, rated) = part.measured.zip(part.rated)?;
        (rated > 0.0 && measured > rated * ABOVE_RATED).then_some((part, measured, rated))
    });
    above
        .map(|(part, measured, rated)| {
            Finding::note(
                "above-rated",
                format!(
                    "{} did {}, and is rated {}: a cache answered for it, or it is another part than it says",
                    in_words(&[&part.id]),
                    show_bytes_rate(measured),
                    show_bytes_rate(rated)
                ),
            )
            .evidence(json!({ "resource": part.id, "measured": measured, "rated": rated }))
            .remedy(
                "look at its data sheet and at the caches before it; do not plan with the measured figure",
            )
        })
        .collect()
}

fn limited_by(path: &Measurement) -> String {
    path.held_by.map_or(String::new(), |by| format!("; it was {}", by.words()))
}

/// `page-cache`: a disk figure is partly memory, or O_DIRECT does not work on a source.
pub(super) fn page_cache(context: &Context) -> Vec<Finding> {
    let stages = [Stage::Disk, Stage::Path];
    let hit: Vec<&str> = context
        .figures
        .all
        .iter()
        .filter(|figure| stages.contains(&figure.stage) && flagged(figure, PAGE_CACHE))
        .map(|figure| figure.name.as_str())
        .collect();
    let buffered: Vec<String> = context
        .plan
        .sources
        .iter()
        .filter(|source| !source.direct)
        .map(|source| source.path.display().to_string())
        .collect();
    if hit.is_empty() && buffered.is_empty() {
        return Vec::new();
    }
    let text = if hit.is_empty() {
        format!(
            "O_DIRECT does not work on {}: its bytes go through the page cache, with a copy more",
            buffered.join(", ")
        )
    } else {
        format!("bytes came from the page cache and not from the disk in: {}", hit.join(", "))
    };
    vec![
        Finding::new(if hit.is_empty() { Severity::Slow } else { Severity::Note }, "page-cache", text)
            .evidence(json!({ "measurements": hit, "sources_without_direct": buffered }))
            .remedy(
                "use a file larger than the memory, or a file system with O_DIRECT (XFS, ext4); `echo 1 > \
                 /proc/sys/vm/drop_caches` empties the cache",
            ),
    ]
}

/// `burst`: fast until a bucket is empty.
pub(super) fn of_burst(what: &str, burst: &Burst) -> Finding {
    burst_finding(what, burst, "what lasts is the second figure").remedy(
        "plan with the sustained rate; credits of a cloud volume, or the cache of a drive, come back while it is \
         idle",
    )
}

fn burst_finding(what: &str, burst: &Burst, meaning: &str) -> Finding {
    Finding::note(
        "burst",
        format!(
            "“{what}” ran at {} for {:.1} s, then at {}: a bucket of {} was used up; {meaning}",
            show_bytes_rate(burst.burst_bytes_per_second),
            burst.seconds,
            show_bytes_rate(burst.sustained_bytes_per_second),
            show_size(burst.bucket_bytes.max(0.0) as u64)
        ),
    )
    .evidence(burst_rates(burst))
}

fn burst_rates(burst: &Burst) -> Value {
    json!({
        "burst_bytes_per_second": burst.burst_bytes_per_second,
        "sustained_bytes_per_second": burst.sustained_bytes_per_second,
        "bucket_bytes": burst.bucket_bytes,
    })
}

/// `burst` of what a network does alone: credits, or a limit that lets a bucket through first. Of the path it may be the
/// disk's.
pub(crate) fn burst_of_network(figure: &Measurement) -> Option<Finding> {
    let burst = figure.burst.as_ref().filter(|_| figure.stage == Stage::Network)?;
    let (fast, lasts) = (burst.burst_bytes_per_second, burst.sustained_bytes_per_second);
    let time = if burst.seconds > 0.0 { format!("for {:.1} s", burst.seconds) } else { "at first".into() };
    let text = format!(
        "“{}” ran at {} {time}, then at {}: what lasts is the second figure",
        figure.name,
        show_bits_rate(fast),
        show_bits_rate(lasts)
    );
    Some(Finding::slow("burst", text).evidence(burst_rates(burst)).remedy(
        "plan with the rate that lasts: instances of a cloud, and shapers, give more until their credits are used up, \
         which come back while the network is idle; elsewhere look for other traffic that began then",
    ))
}

/// Of a run: while its disks were read, while the scratch files were written, and of its flows.
pub(super) fn burst(context: &Context) -> Vec<Finding> {
    let disks = context.figures.all.iter().filter(|figure| figure.stage == Stage::Disk);
    let read = disks.filter_map(|figure| Some(of_burst(&figure.name, figure.burst.as_ref()?)));
    let flows = context.figures.all.iter().filter_map(burst_of_network);
    read.chain(flows).chain(context.plan.sources.iter().filter_map(of_writing)).collect()
}

fn of_writing(source: &SourcePlan) -> Option<Finding> {
    let writing = source.writing.as_ref()?;
    let burst = writing.burst.as_ref()?;
    let what = format!("writing the scratch file on {}", source.resource.trim_start_matches("disk:"));
    Some(match writing.spares_reads {
        false => of_burst(&what, burst),
        true => burst_finding(&what, burst, "reads went on faster, so it is of writes only")
            .remedy("nothing, where this disk is only read; plan writes with the sustained rate"),
    })
}
