//! Findings about sources: the page cache in the way.

use super::super::product::{Finding, Severity};
use super::Context;
use crate::diagnose::figures::flagged;
use crate::measure::{PAGE_CACHE, Stage};
use serde_json::json;

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
