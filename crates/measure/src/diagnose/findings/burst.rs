//! Findings about disks and networks that are fast until a bucket is empty.

use super::super::product::Finding;
use super::Context;
use crate::measure::access::Burst;
use crate::measure::{Measurement, Stage};
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_model::plan::SourcePlan;
use serde_json::{Value, json};

/// `burst`: fast until a bucket is empty.
pub(super) fn of_burst(what: &str, burst: &Burst) -> Finding {
    finding(what, burst, "what lasts is the second figure").remedy(
        "plan with the sustained rate; credits of a cloud volume, or the cache of a drive, come back while it is \
         idle",
    )
}

fn finding(what: &str, burst: &Burst, meaning: &str) -> Finding {
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
    .evidence(rates(burst))
}

fn rates(burst: &Burst) -> Value {
    json!({
        "burst_bytes_per_second": burst.burst_bytes_per_second,
        "sustained_bytes_per_second": burst.sustained_bytes_per_second,
        "bucket_bytes": burst.bucket_bytes,
    })
}

/// `burst` of what a network does alone: credits, or a limit that lets a bucket through first. Of the path it may be the
/// disk's.
pub(crate) fn of_network(figure: &Measurement) -> Option<Finding> {
    let burst = figure.burst.as_ref().filter(|_| figure.stage == Stage::Network)?;
    let (fast, lasts) = (burst.burst_bytes_per_second, burst.sustained_bytes_per_second);
    let time = if burst.seconds > 0.0 { format!("for {:.1} s", burst.seconds) } else { "at first".into() };
    let text = format!(
        "“{}” ran at {} {time}, then at {}: what lasts is the second figure",
        figure.name,
        show_bits_rate(fast),
        show_bits_rate(lasts)
    );
    Some(Finding::slow("burst", text).evidence(rates(burst)).remedy(
        "plan with the rate that lasts: instances of a cloud, and shapers, give more until their credits are used up, \
         which come back while the network is idle; elsewhere look for other traffic that began then",
    ))
}

/// Of a run: while its disks were read, while the scratch files were written, and of its flows.
pub(super) fn burst(context: &Context) -> Vec<Finding> {
    let disks = context.figures.all.iter().filter(|figure| figure.stage == Stage::Disk);
    let read = disks.filter_map(|figure| Some(of_burst(&figure.name, figure.burst.as_ref()?)));
    let flows = context.figures.all.iter().filter_map(of_network);
    read.chain(flows).chain(context.plan.sources.iter().filter_map(of_writing)).collect()
}

fn of_writing(source: &SourcePlan) -> Option<Finding> {
    let writing = source.writing.as_ref()?;
    let burst = writing.burst.as_ref()?;
    let what = format!("writing the scratch file on {}", source.resource.trim_start_matches("disk:"));
    Some(match writing.spares_reads {
        false => of_burst(&what, burst),
        true => finding(&what, burst, "reads went on faster, so it is of writes only")
            .remedy("nothing, where this disk is only read; plan writes with the sustained rate"),
    })
}
