//! Findings about what the kernel allows: locked memory, io_uring, huge pages.

use super::super::product::{Finding, Severity};
use super::Context;
use crate::measure::{Measurement, Stage};
use linerate_facts::units::show_size;
use serde_json::json;

/// `memlock`: RLIMIT_MEMLOCK made the buffer pool smaller than wished, or kept it from being registered.
pub(super) fn memlock(context: &Context) -> Vec<Finding> {
    let need = context.plan.pool_wished_bytes;
    let Some(have) = context.machine.kernel.memlock_bytes.known().copied().filter(|have| *have < need) else {
        return Vec::new();
    };
    let effect = if context.plan.registered {
        format!("the buffer pool shrank to {}", show_size(context.plan.pool_bytes))
    } else {
        "the buffers could not be registered with the kernel".into()
    };
    let kibibytes = need.div_ceil(1024);
    // A somewhat smaller pool costs little; buffers that are not registered cost on every read.
    vec![Finding::new(if context.plan.registered { Severity::Note } else { Severity::Slow }, "memlock", format!(
            "RLIMIT_MEMLOCK allows {} of locked memory and {} are needed: {effect}",
            show_size(have),
            show_size(need)
        )).evidence(json!({
            "need_bytes": need, "have_bytes": have, "pool_bytes": context.plan.pool_bytes, "registered": context.plan.registered,
        })).remedy(format!(
            "`ulimit -l {kibibytes}` in the shell that starts linerate, or “memlock” in \
             /etc/security/limits.conf"
        ))]
}

/// `io-uring-off`: the disks were read without io_uring.
pub(super) fn io_uring_off(context: &Context) -> Vec<Finding> {
    let methods: Vec<&str> = context
        .figures
        .all
        .iter()
        .filter(|figure| figure.stage == Stage::Disk && figure.sink.is_none() && !figure.incoming)
        .map(|figure| figure.method.as_str())
        .filter(|method| !method.is_empty())
        .collect();
    let without = |method: &str| {
        let method = method.to_ascii_lowercase();
        // “(no io_uring)” alone is what the user asked for.
        !method.contains("io_uring")
            || ["fallback", "without io_uring", "io_uring was refused"]
                .iter()
                .any(|word| method.contains(word))
    };
    let setting = context.machine.kernel.io_uring_disabled.known().copied().unwrap_or(0);
    let without_it = methods.iter().copied().find(|method| without(method));
    if without_it.is_none() && (setting == 0 || !methods.is_empty()) {
        return Vec::new();
    }
    let (text, remedy) = if setting == 0 {
        (
            "io_uring was refused to this process".to_string(),
            "a container's seccomp profile refuses it: allow io_uring_setup, io_uring_enter and \
             io_uring_register",
        )
    } else {
        let who = if setting == 1 { "for all but one group" } else { "for all" };
        (
            format!("io_uring is switched off {who} (kernel.io_uring_disabled={setting})"),
            "`linerate tune apply --finding io-uring-off` (or `sysctl -w kernel.io_uring_disabled=0`), if \
             the person who switched it off agrees",
        )
    };
    vec![
        Finding::slow(
            "io-uring-off",
            format!("{text}: each read in flight takes a thread and a system call of its own"),
        )
        .evidence(
            json!({ "io_uring_disabled": context.machine.kernel.io_uring_disabled.known(), "method": without_it }),
        )
        .remedy(remedy),
    ]
}

/// `no-huge-pages`: the buffers lie on pages of 4 KiB, each of which is pinned, mapped and looked up by itself. On
/// a virtual machine a read past the page cache cost 0.021 CPU seconds per GB so, and 0.006 on huge pages.
pub(super) fn no_huge_pages(context: &Context) -> Vec<Finding> {
    let never = context.machine.kernel.transparent_huge_pages.known().is_some_and(|mode| mode == "never");
    let reads =
        |figure: &Measurement| figure.stage == Stage::Disk && figure.sink.is_none() && !figure.incoming;
    let read = context.figures.all.iter().any(reads);
    if !never || !read {
        return Vec::new();
    }
    let text = "transparent huge pages are off (never): the buffers lie on small pages, and each read pins and maps \
                hundreds of them";
    vec![Finding::slow("no-huge-pages", text).evidence(json!({ "transparent_huge_pages": "never" })).remedy(
        "`linerate tune apply --finding no-huge-pages` (or “madvise” in \
         /sys/kernel/mm/transparent_hugepage/enabled), which only programs that ask for them notice",
    )]
}
