//! Which of fio's keys are taken, and what to do instead of the others.

/// Keys that linerate understands, by the name that fio's manual has first.
const TAKEN: [&str; 28] = [
    "name",
    "description",
    "filename",
    "directory",
    "rw",
    "bs",
    "size",
    "filesize",
    "numjobs",
    "iodepth",
    "ioengine",
    "direct",
    "buffered",
    "runtime",
    "time_based",
    "ramp_time",
    "rwmixread",
    "rwmixwrite",
    "fsync",
    "end_fsync",
    "fsync_on_close",
    "group_reporting",
    "rate",
    "rate_iops",
    "stonewall",
    "wait_for_previous",
    "nrfiles",
    "thread",
];

/// Other names of the same key.
const ALIASES: [(&str, &str); 2] = [("readwrite", "rw"), ("blocksize", "bs")];

/// What linerate has for a key that it does not take from a job file.
const INSTEAD: [(&str, &str); 17] = [
    ("verify", "use --verify of linerate, which stamps each block with its place"),
    ("do_verify", "use --verify of linerate"),
    ("bsrange", "name one size with bs, or several runs with --transfer 4k,64k"),
    ("bssplit", "name one size with bs, or several runs with --transfer 4k,64k"),
    ("random_distribution", "use --pattern zipf:THETA or hot:PERCENT:HITS"),
    ("latency_target", "use `linerate load`, which looks for the highest load within a limit"),
    ("latency_window", "use `linerate load`, which looks for the highest load within a limit"),
    ("thinktime", "use --rate: requests on a schedule"),
    ("write_bw_log", "use --output DIR, which saves every figure"),
    ("write_lat_log", "use --output DIR, which saves every figure"),
    ("write_iops_log", "use --output DIR, which saves every figure"),
    ("loops", "use --repeats"),
    ("steadystate", "use --steady-state, SNIA's rule"),
    ("ss", "use --steady-state, SNIA's rule"),
    ("include", "put the lines of that file here"),
    ("exec_prerun", "run the command yourself: linerate starts no other program"),
    ("exec_postrun", "run the command yourself: linerate starts no other program"),
];

/// The name of a key that is taken; else what to do.
pub(super) fn taken(key: &str) -> Result<&'static str, String> {
    let first = ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, first)| first);
    if let Some(taken) = TAKEN.iter().find(|taken| **taken == first) {
        return Ok(taken);
    }
    let instead = INSTEAD.iter().find(|(other, _)| *other == key).map(|(_, instead)| *instead);
    let instead = instead.unwrap_or("take the line out if it does not matter, or run the job with fio");
    Err(format!("linerate does not take `{key}` from a job file; {instead}"))
}
