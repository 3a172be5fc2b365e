//! Findings about disks that are fast until a bucket is empty.

use super::super::product::Finding;
use super::Context;
use crate::measure::Stage;
use crate::measure::access::Burst;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_model::plan::SourcePlan;
use serde_json::json;

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
    .evidence(json!({
        "burst_bytes_per_second": burst.burst_bytes_per_second,
        "sustained_bytes_per_second": burst.sustained_bytes_per_second,
        "bucket_bytes": burst.bucket_bytes,
    }))
}

/// Of the disks of a run: while they were read, and while the scratch files were written.
pub(super) fn burst(seen: &Context) -> Vec<Finding> {
    let disks = seen.figures.all.iter().filter(|figure| figure.stage == Stage::Disk);
    let read = disks.filter_map(|figure| Some(of_burst(&figure.name, figure.burst.as_ref()?)));
    read.chain(seen.plan.sources.iter().filter_map(of_writing)).collect()
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
