//! fio's keys, in a job file or as options: which a job file may hold, and what linerate has for each.

/// One key of fio.
#[derive(Clone, Copy, Debug)]
pub struct FioKey {
    /// The name that fio's manual has first, then its other names.
    pub names: &'static [&'static str],
    /// Options of `linerate disk` for it; none: it needs no option.
    pub ours: &'static [&'static str],
    /// How they are written, or why there is none.
    pub note: &'static str,
    /// A job file may hold it.
    taken: bool,
}

const fn taken(names: &'static [&'static str], ours: &'static [&'static str], note: &'static str) -> FioKey {
    FioKey { names, ours, note, taken: true }
}

const fn other(names: &'static [&'static str], ours: &'static [&'static str], note: &'static str) -> FioKey {
    FioKey { names, ours, note, taken: false }
}

const PAST_THE_CACHE: &str = "reads and writes go past the page cache unless --buffered is given";
const PATTERN: &str = "--access read --pattern random for randread";
const FLUSH: &str = "once at the end of writing, within the measured time";
const ONE_FIGURE: &str = "all workers together are one figure";
const IN_TURN: &str = "sections of a job file run at once unless one waits for those before it";
const SIZES: &str = "name one size, or a list like 4k,64k that is measured one by one";
const LIMIT: &str = "`linerate load` finds the highest load within it";
const SAVED: &str = "it saves every figure";
const YOURSELF: &str = "run the command yourself: linerate starts no other program";

/// What linerate has for each.
pub const FIO_KEYS: [FioKey; 52] = [
    taken(&["name"], &["--name"], ""),
    taken(&["description"], &["--name"], ""),
    taken(&["filename"], &["--source"], ""),
    taken(&["directory"], &["--source"], ""),
    taken(&["rw", "readwrite"], &["--access", "--pattern"], PATTERN),
    taken(&["bs", "blocksize"], &["--transfer"], ""),
    taken(&["size"], &["--amount"], ""),
    taken(&["filesize"], &["--amount"], ""),
    taken(&["numjobs"], &["--workers"], ""),
    taken(&["iodepth"], &["--queue-depth"], ""),
    taken(&["ioengine"], &["--engine"], ""),
    taken(&["direct"], &[], PAST_THE_CACHE),
    taken(&["buffered"], &["--buffered"], ""),
    taken(&["runtime", "timeout"], &["--seconds"], ""),
    taken(&["time_based"], &["--seconds"], "with it a measurement ends by time"),
    taken(&["ramp_time"], &[], "the warm-up is left out of every figure"),
    taken(&["rwmixread"], &["--access"], "--access mixed:70"),
    taken(&["rwmixwrite"], &["--access"], "--access mixed:70 for rwmixwrite=30"),
    taken(&["fsync"], &["--sync", "--every"], "--sync full, and --every N for fsync=N"),
    taken(&["fdatasync"], &["--sync", "--every"], "--sync data, and --every N for fdatasync=N"),
    taken(&["sync"], &["--sync"], "--sync direct (O_DSYNC)"),
    taken(&["end_fsync"], &["--fsync"], FLUSH),
    taken(&["fsync_on_close"], &["--fsync"], FLUSH),
    taken(&["group_reporting"], &[], ONE_FIGURE),
    taken(&["rate"], &["--rate-limit"], "bytes a second, such as 100MB/s"),
    taken(&["rate_iops"], &["--rate"], "requests a second"),
    taken(&["stonewall"], &[], IN_TURN),
    taken(&["wait_for_previous"], &[], IN_TURN),
    taken(&["nrfiles"], &["--layout"], "a file for each worker, or one that all share"),
    taken(&["thread"], &[], "workers are threads"),
    other(&["verify"], &["--verify"], "it stamps each block with its place"),
    other(&["do_verify"], &["--verify"], "it stamps each block with its place"),
    other(&["bsrange", "blocksize_range"], &["--transfer"], SIZES),
    other(&["bssplit"], &["--transfer"], SIZES),
    other(&["random_distribution"], &["--pattern"], "zipf:THETA or hot:PERCENT:HITS"),
    other(&["randseed", "allrandrepeat"], &[], "offsets and data are the same each time"),
    other(&["latency_target"], &[], LIMIT),
    other(&["latency_window"], &[], LIMIT),
    other(&["thinktime"], &["--rate"], "requests on a schedule"),
    other(&["write_bw_log"], &["--output"], SAVED),
    other(&["write_lat_log"], &["--output"], SAVED),
    other(&["write_iops_log"], &["--output"], SAVED),
    other(&["output-format"], &["--format"], "fio-json for fio's own, or json, csv"),
    other(&["minimal"], &["--format"], "csv"),
    other(&["invalidate"], &["--prepare"], "drop-caches"),
    other(&["fill_device"], &["--prepare"], "fill"),
    other(&["loops"], &["--repeats"], ""),
    other(&["steadystate", "ss"], &["--steady-state"], "by SNIA's rule"),
    other(&["section"], &["--fio-job"], IN_TURN),
    other(&["include"], &[], "put the lines of that file into the job file"),
    other(&["exec_prerun"], &[], YOURSELF),
    other(&["exec_postrun"], &[], YOURSELF),
];

/// What changes nothing here: how fio makes its data and its random numbers, batches its calls, counts and prints.
const NO_EFFECT: [&str; 45] = [
    "randrepeat",
    "norandommap",
    "softrandommap",
    "random_generator",
    "refill_buffers",
    "scramble_buffers",
    "zero_buffers",
    "overwrite",
    "fallocate",
    "create_on_open",
    "create_serialize",
    "unlink",
    "file_service_type",
    "openfiles",
    "iodepth_batch",
    "iodepth_batch_submit",
    "iodepth_batch_complete",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "iodepth_low",
    "userspace_reap",
    "gtod_reduce",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "clocksource",
    "percentile_list",
    "clat_percentiles",
    "lat_percentiles",
    "bwavgtime",
    "iopsavgtime",
    "log_avg_msec",
    "eta",
    "eta-newline",
    "thinktime_blocks",
    "per_job_logs",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "log_offset",
    "new_group",
    "registerfiles",
    "fixedbufs",
    "nonvectored",
];
/// What fio does only with another value than 0.
const OFF_AT_0: [&str; 6] = ["verify", "do_verify", "verify_fatal", "invalidate", "fill_device", "thinktime"];

/// It changes nothing here with this value.
pub(super) fn has_no_effect(name: &str, value: Option<&str>) -> bool {
    NO_EFFECT.contains(&name) || OFF_AT_0.contains(&name) && value == Some("0")
}

fn find_key(name: &str) -> Option<&'static FioKey> {
    FIO_KEYS.iter().find(|key| key.names.contains(&name))
}

/// The first name of a key that a job file may hold; else what to do.
pub(super) fn taken_from_a_file(name: &str) -> Result<&'static str, String> {
    let instead = match find_key(name) {
        Some(key) if key.taken => return Ok(key.names[0]),
        Some(FioKey { ours: [], note, .. }) => (*note).to_string(),
        Some(FioKey { ours, note: "", .. }) => format!("use {}", ours.join(" and ")),
        Some(FioKey { ours, note, .. }) => format!("use {}: {note}", ours.join(" and ")),
        None => "take the line out if it does not matter, or run the job with fio".into(),
    };
    Err(format!("linerate does not take `{name}` from a job file; {instead}"))
}
