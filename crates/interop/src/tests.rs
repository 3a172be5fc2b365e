//! Files that the tools wrote, and some by hand after their formats: each figure is the tool's own.

use super::*;
use linerate_measure::diagnose::Bottleneck;
use linerate_measure::measure::Measurement;
use linerate_model::verdict::LimitKind;
use proptest::prelude::*;

fn fixture(name: &str) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/foreign");
    std::fs::read(folder.join(name)).expect("a fixture")
}

fn run(name: &str) -> Run {
    of(&fixture(name))
}

fn of(bytes: &[u8]) -> Run {
    read(bytes).expect("a file of a tool").expect("of a known tool")
}

fn limit(run: &Run) -> &Bottleneck {
    run.diagnosis
        .as_ref()
        .and_then(|found| found.bottleneck.as_ref())
        .expect("a verdict, if only that it is unknown")
}

/// MB/s and requests a second of reads and writes together.
fn rates(figure: &Measurement) -> (f64, f64) {
    let access = figure.access.as_ref().expect("files");
    let sides = access.reads.iter().chain(&access.writes);
    let requests: f64 = sides.map(|side| side.operations_per_second).sum();
    ((figure.bytes_per_second / 1e5).round() / 10.0, requests.round())
}

#[test]
fn fio_with_warnings_before_it_has_each_job_and_all_together() {
    let run = run("fio-3-warning-before-json.txt");
    let figures: Vec<_> =
        run.measurements.iter().map(|figure| (figure.name.as_str(), rates(figure))).collect();
    let expected =
        [("r1", (204.8, 50_000.0)), ("r2", (163.8, 40_000.0)), ("2 jobs together", (368.6, 90_000.0))];
    assert_eq!(figures, expected);
    assert_eq!((run.tool.as_str(), run.stage), ("fio-3.33", Some(Stage::Disk)));
    assert_eq!(limit(&run).kind, LimitKind::Disk);
    assert_eq!(limit(&run).resources, ["disk:nvme0n1"]);
    assert!(
        limit(&run).sentence.starts_with("Probably limited by the disk: nvme0n1"),
        "{}",
        limit(&run).sentence
    );
    let latency =
        &run.measurements[0].access.as_ref().and_then(|access| access.reads.as_ref()).expect("reads").latency;
    assert_eq!(
        [latency.p50, latency.p99, latency.p99_9].map(|seconds| (seconds * 1e6).round()),
        [150.0, 310.0, 930.0]
    );
    assert_eq!((latency.mean * 1e7).round(), 1671.0, "of the whole request");
}

/// The summary for the eye and the JSON of one run are in one file.
#[test]
fn the_sum_of_a_group_equals_the_summary_of_fio() {
    let text = String::from_utf8(fixture("fio-3.33-normal-and-json.txt")).expect("text");
    let group = text.split("Run status group 0").nth(1).expect("a summary");
    // `READ: bw=147MiB/s (154MB/s), …`
    let said =
        |side: &str| group.split(side).nth(1)?.split_once('(')?.1.split_once("MB/s")?.0.parse::<f64>().ok();
    let run = of(text.as_bytes());
    let whole = run.measurements.last().and_then(|figure| figure.access.as_ref()).expect("all together");
    let digits =
        |rate: f64, said: f64| if said < 100.0 { (rate / 1e5).round() / 10.0 } else { (rate / 1e6).round() };
    for (side, name) in [(&whole.reads, "READ:"), (&whole.writes, "WRITE:")] {
        let (rate, said) = (side.as_ref().expect("a side").bytes_per_second, said(name).expect("a rate"));
        assert_eq!(digits(rate, said), said, "{name}");
    }
}

#[test]
fn the_last_snapshot_of_an_interval_counts_and_a_group_is_as_many_workers() {
    let run = run("fio-3.33-snapshots.json");
    let [one] = &run.measurements[..] else { panic!("{:?}", run.measurements) };
    let last = String::from_utf8(fixture("fio-3.33-snapshots.json")).expect("text");
    let last = last.rsplit_once("\"bw_bytes\" : ");
    assert!(last.is_some());
    let job = &one.access.as_ref().expect("files").job;
    assert_eq!((job.workers, job.queue_depth, job.transfer_bytes, job.direct), (2, 8, 65_536, true));
}

#[test]
fn a_durable_write_at_a_time_is_limited_by_its_flush() {
    let run = run("fio-3.33-durable.json");
    assert_eq!(limit(&run).kind, LimitKind::Pipeline, "{}", limit(&run).sentence);
    assert!(limit(&run).sentence.contains("the flush to vda"), "{}", limit(&run).sentence);
    assert!(run.measurements[0].flags[0].contains("flushes"), "{:?}", run.measurements[0].flags);
}

/// After listings of fio 2.2: sizes in KiB, times in microseconds, no options.
#[test]
fn fio_2_has_other_units_and_fewer_fields() {
    let text = br#"{ "fio version" : "fio-2.2.10", "jobs" : [ { "jobname" : "random-read", "groupid" : 0, "error" : 0,
        "read" : { "io_bytes" : 7116, "bw" : 275, "iops" : 68.99, "runtime" : 25788, "total_ios" : 1779,
        "clat" : { "min" : 90, "max" : 90000, "mean" : 14400.0, "percentile" : { "99.000000" : 45312 } },
        "lat" : { "min" : 91, "max" : 90001, "mean" : 14490.5, "stddev" : 3.0 } } } ], "disk_util" : [ ] }"#;
    let run = of(text);
    let reads = run.measurements[0].access.as_ref().and_then(|access| access.reads.as_ref()).expect("reads");
    assert_eq!((reads.bytes, reads.operations, reads.bytes_per_second), (7116 << 10, 1779, 275.0 * 1024.0));
    assert_eq!((reads.latency.mean, reads.latency.p99), (14490.5e-6, 45312e-6));
    assert_eq!(run.started, "1970-01-01T00:00:00Z".replace("1970-01-01T00:00:00Z", "unknown"));
    assert_eq!(
        run.measurements[0].access.as_ref().expect("files").job.workers,
        0,
        "what the job was is unknown"
    );
    assert_eq!(limit(&run).kind, LimitKind::Unknown);
}

#[test]
fn fio_has_a_limit_only_as_far_as_its_file_shows_one() {
    let judged = |depth: u32, direct: &str, extra: &str, util: f64, queue_ms: f64, cpu: f64| {
        let text = format!(
            r#"{{ "fio version": "fio-3.36", "global options": {{ "direct": "{direct}", "ioengine": "libaio" {extra} }},
            "jobs": [ {{ "jobname": "a", "job options": {{ "rw": "randread", "iodepth": "{depth}" }},
            "read": {{ "io_bytes": 40960000, "bw_bytes": 4096000, "iops": 1000, "runtime": 10000, "total_ios": 10000,
            "lat_ns": {{ "mean": {} }} }}, "job_runtime": 10000, "usr_cpu": {cpu}, "sys_cpu": 0 }} ],
            "disk_util": [ {{ "name": "sda", "read_ios": 10000, "in_queue": {queue_ms}, "util": {util} }} ] }}"#,
            f64::from(depth) * 1e6
        );
        limit(&of(text.as_bytes())).clone()
    };
    let kind = |limit: Bottleneck| (limit.kind, limit.sentence);
    assert_eq!(judged(16, "1", "", 99.0, 150_000.0, 5.0).kind, LimitKind::Disk);
    let one = judged(1, "1", "", 97.0, 9_700.0, 5.0);
    assert!(
        one.kind == LimitKind::Pipeline && one.sentence.contains("one request at a time"),
        "{}",
        one.sentence
    );
    assert_eq!(judged(4, "1", "", 60.0, 38_000.0, 5.0).kind, LimitKind::Pipeline);
    let (throttled, sentence) = kind(judged(16, "1", "", 30.0, 4_000.0, 5.0));
    assert!(throttled == LimitKind::Unknown && sentence.contains("throttle"), "{sentence}");
    let (throttled, sentence) = kind(judged(16, "1", "", 3.0, 400.0, 0.3));
    assert!(throttled == LimitKind::Quota && sentence.contains("before sda gets it"), "{sentence}");
    assert_eq!(judged(16, "1", "", 99.0, 150_000.0, 97.0).kind, LimitKind::Cpu);
    let polls = r#", "hipri": "1""#;
    assert_eq!(judged(16, "1", polls, 99.0, 150_000.0, 97.0).kind, LimitKind::Disk, "it works as it waits");
    assert_eq!(judged(16, "1", r#", "rate": "4000k""#, 99.0, 150_000.0, 5.0).kind, LimitKind::Demand);
    assert_eq!(judged(16, "1", r#", "rate_iops": "1000""#, 30.0, 4_000.0, 5.0).kind, LimitKind::Demand);
    assert_eq!(judged(16, "1", r#", "rate": "4000k,1k""#, 99.0, 150_000.0, 5.0).kind, LimitKind::Demand);
    assert_eq!(judged(16, "1", r#", "rate": ",4000k""#, 99.0, 150_000.0, 5.0).kind, LimitKind::Disk);
    assert_eq!(judged(1, "1", r#", "thinktime": "100""#, 50.0, 5_000.0, 5.0).kind, LimitKind::Unknown);
    let (cached, sentence) = kind(judged(16, "0", "", 1.0, 100.0, 50.0));
    assert!(cached == LimitKind::Unknown && sentence.contains("page cache"), "{sentence}");
}

/// A device that answers four requests as fast as one has no queue, though it is never idle.
#[test]
fn a_disk_without_a_pause_is_the_limit_where_requests_wait_in_it() {
    let judged = |shortest: f64| {
        let text = format!(
            r#"{{ "fio version": "fio-3.36", "global options": {{ "direct": "1", "ioengine": "libaio", "iodepth": "4" }},
            "jobs": [ {{ "jobname": "a", "job options": {{ "rw": "randread" }}, "job_runtime": 10000, "usr_cpu": 5,
            "read": {{ "io_bytes": 40960000, "bw_bytes": 4096000, "iops": 1000, "runtime": 10000, "total_ios": 10000,
            "lat_ns": {{ "mean": 4e6, "min": {shortest} }} }} }} ],
            "disk_util": [ {{ "name": "sda", "read_ios": 10000, "in_queue": 40000, "util": 99.0 }} ] }}"#
        );
        limit(&of(text.as_bytes())).clone()
    };
    let few = judged(3.9e6);
    assert!(
        few.kind == LimitKind::Pipeline && few.sentence.contains("sda has 4 at a time"),
        "{}",
        few.sentence
    );
    assert_eq!((judged(1e6).kind, judged(0.0).kind), (LimitKind::Disk, LimitKind::Disk));
    assert_eq!(judged(2.2e6).kind, LimitKind::Unknown, "on a busy host each takes longer at times");
}

#[test]
fn both_sides_of_a_mix_count_once_beside_their_sum() {
    let side = |rate: u32| {
        format!(
            r#"{{ "bw_bytes": {rate}, "io_bytes": {rate}, "runtime": 1000, "total_ios": {rate}, "iops": {rate} }}"#
        )
    };
    let text = format!(
        r#"{{ "fio version": "fio-3.33", "jobs": [ {{ "jobname": "a", "read": {}, "write": {}, "mixed": {} }} ] }}"#,
        side(200),
        side(100),
        side(300)
    );
    assert_eq!(of(text.as_bytes()).measurements[0].bytes_per_second, 300.0);
}

#[test]
fn the_rate_of_iperf3_is_its_own_sum_of_what_arrived() {
    let run = run("iperf3-3.17-four-streams.json");
    let one = &run.measurements[0];
    assert_eq!((one.bytes_per_second * 8.0, run.host.as_str()), (8.36e9, "sender"));
    let streams = one.streams.as_ref().expect("streams");
    let retransmits =
        streams.streams.iter().filter_map(|stream| Some(stream.tcp.as_ref()?.retransmits)).sum::<u64>();
    assert_eq!((streams.streams.len(), retransmits, one.samples.len()), (4, 15, 3));
    assert_eq!(one.flags, ["sender's CPU 97 %", "receiver's CPU 41 %", "round trip 53.1 ms"]);
    // 97 % of a CPU are a quarter of each of four threads, and the window may be full of a queue.
    assert_eq!(limit(&run).kind, LimitKind::Unknown, "{}", limit(&run).sentence);
    assert!(limit(&run).sentence.contains("13.2 MiB are under way"), "{}", limit(&run).sentence);
}

#[test]
fn iperf3_both_ways_backwards_and_with_datagrams() {
    let both = run("iperf3-3.12-both-ways.json");
    let paths = &both.measurements[0].streams.as_ref().expect("streams").paths;
    assert_eq!(paths.len(), 2);
    assert_eq!(
        paths.iter().map(|path| path.bytes_per_second).sum::<f64>(),
        both.measurements[0].bytes_per_second
    );
    let receive = run("iperf3-3.12-receive.json");
    assert!(receive.measurements[0].incoming && receive.measurements[0].sender.is_some());
    let lossy = run("iperf3-3.12-datagrams.json");
    let one = &lossy.measurements[0];
    assert_eq!((one.bytes_per_second * 8.0, (one.loss * 1e6).round()), (1151225199.6502216, 615_825.0));
    assert_eq!(limit(&lossy).kind, LimitKind::Unknown, "where they were dropped is unknown");
}

#[test]
fn a_failed_test_has_no_rate_and_its_reason() {
    let run = run("iperf3-failed.json");
    assert!(run.measurements.is_empty());
    assert_eq!(
        run.errors,
        ["iperf3's test failed: unable to connect to server: Connection refused; it has no rate"]
    );
}

/// iperf3 3.18 wrote both; sums of the stream's events are those of its end.
#[test]
fn the_stream_of_a_test_has_the_rates_of_its_end_and_a_failed_one_its_reason() {
    let stream = run("iperf3-3.18-stream.json");
    let one = &stream.measurements[0];
    assert_eq!(((one.bytes_per_second * 8.0).round(), one.samples.len()), (400_228_845.0, 2));
    assert_eq!(one.streams.as_ref().map(|streams| streams.streams.len()), Some(2));
    assert_eq!(limit(&stream).kind, LimitKind::Demand, "{}", limit(&stream).sentence);
    let failed = run("iperf3-3.18-stream-failed.json");
    assert!(failed.measurements.is_empty() && failed.errors[0].contains("Connection refused"));
}

/// A stream has an event a line; one that is cut has what was sent until then, and says so.
#[test]
fn a_stream_of_events_is_the_same_test() {
    let whole: serde_json::Value =
        serde_json::from_slice(&fixture("iperf3-3.17-four-streams.json")).expect("JSON");
    let event =
        |name: &str, data: &serde_json::Value| serde_json::json!({ "event": name, "data": data }).to_string();
    let mut lines = vec![event("start", &whole["start"])];
    lines.extend(whole["intervals"].as_array().expect("some").iter().map(|one| event("interval", one)));
    let cut = of(lines.join("\n").as_bytes());
    lines.push(event("end", &whole["end"]));
    let stream = of(lines.join("\r\n").as_bytes());
    assert_eq!(stream.measurements, run("iperf3-3.17-four-streams.json").measurements);
    assert_eq!((cut.measurements[0].bytes_per_second * 8.0, cut.errors.len()), (8.4e9, 1));
    let failed = format!("{}\n{}", lines[0], event("error", &"control socket has closed".into()));
    let failed = of(failed.as_bytes());
    assert!(failed.measurements.is_empty() && failed.errors[0].contains("control socket has closed"));
}

#[test]
fn iperf3_has_a_limit_only_as_far_as_its_file_shows_one() {
    let judged = |version: &str, streams: u32, start: &str, side: &str, host: f64, remote: f64| {
        let stream = format!(
            r#"{{ "sender": {{ "seconds": 10, "bytes": 125000000, "bits_per_second": 1e8, "sender": true {side} }},
            "receiver": {{ "seconds": 10, "bytes": 125000000, "bits_per_second": 1e8 }} }}"#
        );
        let all = vec![stream; streams as usize].join(",");
        let rate = 1e8 * f64::from(streams);
        let intervals = vec![format!(r#"{{ "sum": {{ "bits_per_second": {rate} }} }}"#); 3].join(",");
        let text = format!(
            r#"{{ "start": {{ "version": "iperf {version}", "tcp_mss_default": 1448 {start},
            "test_start": {{ "protocol": "TCP", "num_streams": {streams} }} }}, "intervals": [ {intervals} ],
            "end": {{ "streams": [ {all} ], "sum_received": {{ "seconds": 10, "bits_per_second": {rate} }},
            "cpu_utilization_percent": {{ "host_total": {host}, "remote_total": {remote} }} }} }}"#
        );
        limit(&of(text.as_bytes())).clone()
    };
    let rtt = |rest: &str| format!(r#", "mean_rtt": 20000, "min_rtt": 19500, "max_rtt": 20500 {rest}"#);
    let small = rtt(r#", "retransmits": 0, "max_snd_wnd": 260000"#);
    let set = r#", "sock_bufsize": 131072"#;
    assert_eq!(judged("3.12", 1, set, &small, 10.0, 10.0).kind, LimitKind::Window);
    assert_eq!(judged("3.12", 1, "", &small, 10.0, 10.0).kind, LimitKind::Unknown, "a queue may fill it");
    assert_eq!(judged("3.12", 4, "", &rtt(""), 97.0, 10.0).kind, LimitKind::Cpu, "one thread for all");
    assert_eq!(judged("3.17.1", 4, "", &rtt(""), 97.0, 10.0).kind, LimitKind::Unknown, "a thread for each");
    assert_eq!(judged("3.17.1", 1, "", &rtt(""), 97.0, 10.0).kind, LimitKind::Cpu);
    assert_eq!(judged("3.12", 1, "", &rtt(""), 50.0, 98.0).kind, LimitKind::Receiver);
    let lossy = |lost| rtt(&format!(r#", "retransmits": {lost}"#));
    assert_eq!(judged("3.12", 1, "", &lossy(8), 10.0, 10.0).kind, LimitKind::Loss);
    assert_eq!(judged("3.12", 2, "", &lossy(8), 10.0, 10.0).kind, LimitKind::Loss, "of two streams alike");
    let fast = judged("3.12", 1, "", &lossy(900), 10.0, 10.0);
    assert_eq!(fast.kind, LimitKind::Unknown, "faster than such losses let cubic be, such as bbr");
    let sawtooth = r#", "mean_rtt": 20000, "min_rtt": 14000, "max_rtt": 26000, "retransmits": 8"#;
    assert_eq!(
        judged("3.12", 1, "", sawtooth, 10.0, 10.0).kind,
        LimitKind::Unknown,
        "its own queue loses them"
    );
}

/// Rates of intervals as they were recorded: of a shaper of 100 Mb/s, and of a sender with a CPU quota of 5 %.
#[test]
fn datagrams_that_go_out_as_by_a_clock_wait_in_their_hosts_own_queue() {
    let judged = |asked: f64, rates: &[f64], lost: f64, cpu: f64| {
        let interval =
            |rate: &f64| format!(r#"{{ "sum": {{ "bits_per_second": {rate}e6, "sender": true }} }}"#);
        let intervals: Vec<String> = rates.iter().map(interval).collect();
        let rate = rates.iter().sum::<f64>() / rates.len() as f64;
        let sum = format!(
            r#"{{ "seconds": 3, "bits_per_second": {rate}e6, "packets": 4185, "lost_percent": {lost} }}"#
        );
        let text = format!(
            r#"{{ "start": {{ "version": "iperf 3.12", "test_start": {{ "protocol": "UDP", "num_streams": 1, "blksize": 8948,
            "target_bitrate": {asked}e6 }} }}, "intervals": [ {} ], "end": {{ "streams": [ {{ "udp": {sum} }} ], "sum": {sum},
            "cpu_utilization_percent": {{ "host_total": {cpu}, "remote_total": 4 }} }} }}"#,
            intervals.join(",")
        );
        limit(&of(text.as_bytes())).clone()
    };
    let shaped = [100.50, 99.58, 98.70];
    let found = judged(400.0, &shaped, 0.24, 6.3);
    assert!(
        found.kind == LimitKind::Nic && found.sentence.contains("a shaper before it"),
        "{}",
        found.sentence
    );
    let quota = judged(2000.0, &[402.37, 407.38, 416.48, 429.07], 50.0, 5.0);
    assert_eq!(quota.kind, LimitKind::Unknown, "{}", quota.sentence);
    assert_eq!(judged(2000.0, &[402.37, 407.38, 416.48, 429.07], 0.0, 5.0).kind, LimitKind::Unknown);
    assert_eq!(judged(400.0, &shaped, 5.0, 6.3).kind, LimitKind::Unknown, "lost on the way");
    assert_eq!(judged(400.0, &shaped[..2], 0.0, 6.3).kind, LimitKind::Unknown, "too short");
    assert_ne!(judged(400.0, &shaped, 0.0, 97.0).kind, LimitKind::Nic, "its CPU is full");
    assert_eq!(judged(100.0, &shaped, 0.0, 6.3).kind, LimitKind::Demand);
}

#[test]
fn a_path_is_full_where_more_under_way_brings_no_more() {
    let judged = |trips: [u32; 5], rates: [f64; 5]| {
        let interval = |(trip, rate): (&u32, &f64)| {
            format!(
                r#"{{ "sum": {{ "bits_per_second": {rate} }}, "streams": [ {{ "rtt": {trip}, "bits_per_second": {rate} }} ] }}"#
            )
        };
        let intervals: Vec<String> = trips.iter().zip(&rates).map(interval).collect();
        let text = format!(
            r#"{{ "start": {{ "version": "iperf 3.12", "test_start": {{ "protocol": "TCP", "num_streams": 1 }} }},
            "intervals": [ {} ], "end": {{ "streams": [ {{ "sender": {{ "bytes": 62500000, "bits_per_second": 1e8,
            "sender": true }} }} ], "sum_received": {{ "seconds": 5, "bits_per_second": 1e8 }},
            "cpu_utilization_percent": {{ "host_total": 3, "remote_total": 2 }} }} }}"#,
            intervals.join(",")
        );
        limit(&of(text.as_bytes())).clone()
    };
    let (swings, same) = ([9000, 20_000, 41_000, 33_000, 28_000], [1.3e8, 1.0e8, 1.01e8, 1.0e8, 1.0e8]);
    let full = judged(swings, same);
    assert!(full.kind == LimitKind::Nic && full.sentence.contains("20.0 to 41.0 ms"), "{}", full.sentence);
    assert_eq!(judged([20_000; 5], same).kind, LimitKind::Unknown);
    assert_eq!(judged(swings, [1.3e8, 1.0e8, 0.5e8, 0.6e8, 0.7e8]).kind, LimitKind::Unknown);
    assert_eq!(judged([90, 200, 410, 330, 280], same).kind, LimitKind::Unknown, "as the hosts do");
}

/// Recorded: four streams into a shaper behind 20 ms, whose round trips swing together; a sender with a CPU quota of 10 %
/// over 10 ms; losses of 1 % as the server that sends has them, without the size of a segment.
#[test]
fn what_was_under_way_parts_a_full_path_from_a_host_that_pauses() {
    let limit_of = |name: &str| limit(&run(name)).clone();
    let shaped = limit_of("iperf3-3.12-shaper-four-streams.json");
    assert!(
        shaped.kind == LimitKind::Nic && shaped.sentence.contains("79.6 to 89.7 ms"),
        "{}",
        shaped.sentence
    );
    let quota = limit_of("iperf3-3.12-cpu-quota-far.json");
    assert_eq!(quota.kind, LimitKind::Unknown, "{}", quota.sentence);
    let lost = limit_of("iperf3-3.12-server-losses.json");
    assert!(lost.kind == LimitKind::Loss && lost.sentence.contains("1.02 %"), "{}", lost.sentence);
}

/// The server knows of each stream only its own end: bytes of TCP, datagrams of UDP.
#[test]
fn a_file_of_the_server_has_the_rates_of_its_streams() {
    let text = |end: &str, protocol: &str| {
        format!(
            r#"{{ "start": {{ "version": "iperf 3.12", "accepted_connection": {{ "host": "192.0.2.7" }},
            "test_start": {{ "protocol": "{protocol}", "num_streams": 2, "blksize": 1000, "reverse": 0 }} }}, "intervals": [],
            "end": {{ "streams": [ {end}, {end} ], "sum_received": {{ "seconds": 2, "bits_per_second": 16000 }},
            "cpu_utilization_percent": {{ "host_total": 3, "remote_total": 0 }} }} }}"#
        )
    };
    let of_stream = |text: String| {
        let run = of(text.as_bytes());
        let one = &run.measurements[0];
        (one.streams.as_ref().expect("streams").streams[1].bytes_per_second, one.flags.clone())
    };
    let tcp = r#"{ "sender": { "bytes": 0, "bits_per_second": 0, "sender": false },
        "receiver": { "bytes": 2000, "bits_per_second": 8000, "sender": false } }"#;
    let udp = r#"{ "udp": { "bytes": 0, "bits_per_second": 0, "lost_packets": 3, "packets": 5, "sender": false } }"#;
    assert_eq!(of_stream(text(tcp, "TCP")), (1000.0, vec!["receiver's CPU 3 %".to_string()]));
    assert_eq!(of_stream(text(udp, "UDP")).0, 1000.0);
}

#[test]
fn lines_and_tables_of_other_tools() {
    let nuttcp = run("nuttcp-6.1.2-tcp.txt");
    assert_eq!((nuttcp.measurements[0].bytes_per_second * 8.0).round(), 399_826_800.0);
    assert_eq!(nuttcp.measurements[0].samples.len(), 2);
    let flags = ["sender's CPU 88 %", "receiver's CPU 2 %", "0 retransmitted", "round trip 0.06 ms"];
    assert_eq!(nuttcp.measurements[0].flags, flags);
    let datagrams = &run("nuttcp-8.2.2-udp.txt").measurements[0];
    assert_eq!((datagrams.bytes_per_second * 8.0, datagrams.loss), (50_286_700.0, 0.0));
    let parse = &run("nuttcp-6.1.2-parse.txt").measurements[0];
    assert_eq!((parse.bytes_per_second * 8.0, parse.flags.len()), (14_846_284_100.0, 4));
    let both_ends = &run("nuttcp-6.1.2-both-ends.txt").measurements[0];
    assert_eq!(
        (both_ends.bytes_per_second * 8.0, both_ends.flags.len()),
        (19_374_948_800.0, 0),
        "of the receiver"
    );
    let ior = of(b"IOR-3.3.0: MPI Coordinated Test of Parallel I/O\nMachine             : Linux c1\n\nOptions: \napi : POSIX\n\
ordering in a file  : sequential\ntasks               : 64\nxfersize            : 1 MiB\n\nResults: \n\naccess    bw(MiB/s)  IOPS       \
Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter\n------    ---------\nwrite     6335       6335       \
5.44        16384      1024.00    0.016925   87.13      3.56       87.13      0   \nread      7438       7438       4.59        16384      \
1024.00    0.081018   74.20      20.08      74.20      0   \nMax Write: 6334.77 MiB/sec (6642.49 MB/sec)\nMax Read:  7438.33 MiB/sec \
(7799.66 MB/sec)\n\nSummary of all tests:\nOperation Max(MiB)\nwrite 6334.77 6334.77\n");
    let found: Vec<_> = ior.measurements.iter().map(|one| (one.name.as_str(), rates(one).0)).collect();
    assert_eq!((found, ior.host.as_str()), (vec![("read", 7799.7), ("write", 6642.5)], "c1"));
    let elbencho = of(b"ISO date,label,threads,block size,direct IO,random,IO depth,operation,time ms [last],IOPS [last],MiB/s [last],\
MiB [last],IO lat us [min],IO lat us [avg],IO lat us [max]\n2026-05-22T16:09:38,x,8,1048576,1,0,4,MKDIRS,5,,,,,,\n\
2026-05-22T16:09:38,x,8,1048576,1,0,4,WRITE,2784,2941,2941,8192,210,2900,9000\n");
    let [one] = &elbencho.measurements[..] else { panic!("{:?}", elbencho.measurements) };
    assert_eq!((one.bytes_per_second, rates(one).1), (2941.0 * 1_048_576.0, 2941.0));
    for run in [nuttcp, ior, elbencho] {
        assert_eq!(limit(&run).kind, LimitKind::Unknown, "none of them says what the hosts did");
    }
}

#[test]
fn other_encodings_cut_ends_and_foreign_files() {
    let text = String::from_utf8(fixture("iperf3-failed.json")).expect("text");
    let units =
        |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let marked = format!("\u{feff}{text}");
    for bytes in
        [units(&marked, u16::to_le_bytes), units(&marked, u16::to_be_bytes), marked.clone().into_bytes()]
    {
        assert_eq!(of(&bytes).errors.len(), 1);
    }
    assert_eq!(of(text.replace('\n', "\r\n").as_bytes()).errors.len(), 1);
    let fio = fixture("fio-3-warning-before-json.txt");
    let cut = read(&fio[..fio.len() / 2]).expect_err("it ends early");
    assert_eq!(cut, ForeignError::Cut { tool: "fio" });
    assert!(matches!(read(&fixture("iperf3-failed.json")[..150]), Err(ForeignError::Cut { tool: "iperf3" })));
    for none in
        [&b""[..], b"{}", b"[1, 2]", b"hello { world", b"\0\0\0\0", &[0xff, 0xfe], b"{ \"schema\": 2 }"]
    {
        assert_eq!(read(none).expect("not broken"), None);
    }
    assert_eq!(read(br#"{ "fio version": "fio-3.33", "jobs": [] }"#), Err(ForeignError::NoJob));
    let mixed = [fio, fixture("iperf3-failed.json")].concat();
    assert_eq!(read(&mixed), Err(ForeignError::TwoTools));
}

#[test]
fn of_a_long_list_the_begin_is_kept_and_of_many_broken_objects_none_is_read() {
    #[derive(serde::Deserialize)]
    struct List {
        #[serde(deserialize_with = "lenient::first::<_, _, 2>")]
        all: Vec<lenient::Number>,
    }
    let list: List = serde_json::from_str(r#"{ "all": [1, 2, 3, 4] }"#).expect("a list");
    assert_eq!(list.all.len(), 2);
    let after = |broken| [b"{ x\n".repeat(broken), fixture("fio-3.33-durable.json")].concat();
    let is_read = |broken| read(&after(broken)).is_ok_and(|run| run.is_some());
    assert!(is_read(10) && !is_read(1000));
}

#[test]
fn of_ten_thousand_jobs_there_is_one_figure() {
    let job = r#"{ "jobname": "a", "read": { "bw_bytes": 1000, "io_bytes": 10000, "runtime": 10000, "total_ios": 10, "iops": 1 } }"#;
    let text = format!(r#"{{ "fio version": "fio-3.33", "jobs": [ {} ] }}"#, vec![job; 10_000].join(","));
    let run = of(text.as_bytes());
    let [one] = &run.measurements[..] else { panic!("{}", run.measurements.len()) };
    assert_eq!((one.name.as_str(), one.bytes_per_second), ("10000 jobs together", 1e7));
}

/// Every number can be saved and read again.
fn is_whole(run: &Run) -> bool {
    let text = serde_json::to_string(run).expect("JSON");
    serde_json::from_str::<Run>(&text).is_ok()
}

proptest! {
    #[test]
    fn any_change_of_a_file_gives_a_whole_run_or_a_sentence(
        which in 0..6usize, cuts in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6),
        values in proptest::collection::vec((any::<u16>(), prop_oneof!["-1", "1e308", "null", "\"x\"", "\\[\\]", "\\{\\}"]), 0..4),
    ) {
        let names = ["fio-3-warning-before-json.txt", "fio-3.33-snapshots.json", "fio-3.33-durable.json",
            "iperf3-3.12-both-ways.json", "iperf3-3.12-datagrams.json", "iperf3-3.17-four-streams.json"];
        let mut text = fixture(names[which]);
        // A value for another, then bytes anywhere.
        for (at, value) in values {
            let at = usize::from(at) % text.len();
            let Some(colon) = text[at..].iter().position(|byte| *byte == b':') else { continue };
            let from = at + colon + 1;
            let Some(end) = text[from..].iter().position(|byte| matches!(byte, b',' | b'\n')) else { continue };
            text.splice(from..from + end, value.bytes());
        }
        for (at, byte) in cuts {
            let at = usize::from(at) % text.len();
            text[at] = byte;
        }
        match read(&text) {
            Ok(run) => prop_assert!(run.iter().all(is_whole)),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_bytes_are_read_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(Some(run)) = read(&bytes) {
            prop_assert!(is_whole(&run));
        }
    }
}
