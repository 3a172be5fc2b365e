//! Job files as they are found, and as they should not be.

use super::*;
use proptest::prelude::*;

const COMMON: &str = include_str!("common.fio");

fn refused(text: &str) -> String {
    parse(text).expect_err("it is refused").to_string()
}

#[test]
fn the_common_part_is_taken() {
    let jobs = parse(COMMON).expect("jobs");
    assert_eq!(jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["write", "random"]);
    let (write, random) = (&jobs[0], &jobs[1]);
    assert_eq!(write.sources, [PathBuf::from("/mnt/a"), PathBuf::from("/mnt/b")]);
    assert_eq!(
        (write.access, write.order, write.layout),
        (Access::Write, AccessOrder::Sequential, FileLayout::FilePerWorker)
    );
    assert_eq!((write.transfer_bytes, write.amount_bytes, write.workers), (1 << 20, Some(2 << 30), 4));
    assert_eq!(
        (write.engine, write.direct, write.fsync, write.seconds),
        (Engine::IoUring, true, true, Some(60.0))
    );
    assert_eq!(write.notes, ["ioengine=libaio: done with io_uring, which took its place"]);
    assert_eq!((random.access, random.order), (Access::Mixed { read_share: 0.7 }, AccessOrder::Random));
    assert_eq!((random.transfer_bytes, random.queue_depth, random.workers), (4096, 16, 1));
    assert_eq!((random.requests_per_second, random.fsync), (Some(500.0), false));
}

#[test]
fn what_is_not_reported_is_as_fio_has_it() {
    let job = &parse("[job]\nfilename=/dev/sdb\n").expect("a job")[0];
    assert_eq!((job.transfer_bytes, job.queue_depth, job.workers, job.direct), (4096, 1, 1, false));
    assert_eq!(
        (job.engine, job.access, job.amount_bytes, job.seconds),
        (Engine::Psync, Access::Read, None, None)
    );
    assert!(job.notes.is_empty(), "{:?}", job.notes);
}

#[test]
fn one_file_of_several_workers_is_parted_and_that_is_said() {
    let job = &parse("[job]\nfilename=/data/x\\:y\nnumjobs=4\nsize=1g\nrate=10m\n").expect("a job")[0];
    assert_eq!(job.sources, [PathBuf::from("/data/x:y")]);
    assert_eq!((job.layout, job.amount_bytes), (FileLayout::Segmented, Some(256 << 20)));
    assert_eq!(job.limit_bytes_per_second, Some(40.0 * 1_048_576.0));
    assert!(job.notes[0].contains("each worker has a part of it"), "{:?}", job.notes);
}

#[test]
fn units_are_those_of_fio() {
    for (text, bytes) in [
        ("512", 512),
        ("4k", 4096),
        ("4K", 4096),
        ("4kb", 4096),
        ("4ki", 4096),
        ("4KiB", 4000),
        ("1g", 1 << 30),
    ] {
        assert_eq!(values::size(text), Some(bytes), "{text}");
    }
    for wrong in
        ["", "k", "4x", "50%", "4k-8k", "4k,8k", "-1", "1.5g", "ib", "99999999999999999999", "99999999999p"]
    {
        assert_eq!(values::size(wrong), None, "{wrong}");
    }
    for (text, seconds) in [("30", 30.0), ("30s", 30.0), ("5m", 300.0), ("500ms", 0.5), ("2h", 7200.0)] {
        assert_eq!(values::duration(text), Some(seconds), "{text}");
    }
}

#[test]
fn the_rest_is_refused_by_name_line_and_remedy() {
    let cases = [
        (
            "[a]\nrw=read\nverify=crc32c\n",
            "line 3: linerate does not take `verify` from a job file; use --verify",
        ),
        (
            "[a]\nzonemode=zbd\n",
            "line 2: linerate does not take `zonemode` from a job file; take the line out",
        ),
        ("rw=read\n", "line 1: an option before the first section"),
        ("[a\n", "line 1: “[a” is not a section"),
        ("[a]\nrw=trim\n", "line 2: rw=trim: linerate has read, write"),
        ("[a]\nbs=4k-8k\n", "line 2: bs=4k-8k: one size like 4k"),
        ("[a]\nbs=2g\n", "line 2: bs=2147483648: a request has at most 1 GiB"),
        ("[a]\nsize=50%\n", "line 2: size=50%: one size"),
        ("[a]\nioengine=rados\n", "line 2: ioengine=rados: linerate has io_uring"),
        ("[a]\nsync=2\n", "line 2: sync=2: 0, 1, none, sync or dsync"),
        ("[a]\nrw=write\nfsync=1\nfdatasync=4\n", "line 1: [a] has both fdatasync and fsync; keep one"),
        ("[a]\nnrfiles=8\n", "line 2: nrfiles=8: linerate has one file for each worker"),
        ("[a]\nnumjobs=0\n", "line 2: numjobs=0: a whole number from 1"),
        ("[a]\nrw\n", "line 2: `rw` wants a value"),
        ("[a]\ndirect=yes\n", "line 2: `direct` is 0 or 1"),
        ("[a]\ntime_based\n", "line 1: [a] is time_based without a runtime"),
        ("[a]\nsize=${SIZE}\n", "line 2: `size` asks for a variable of the environment"),
        ("[a]\nrate=1m\nrate_iops=5\n", "line 1: [a] has both rate and rate_iops"),
        ("[global]\nrw=read\n", "line 1: there is no job"),
        ("", "line 1: there is no job"),
    ];
    for (text, expected) in cases {
        let said = refused(text);
        assert!(said.starts_with(expected), "{text:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn every_refused_line_is_named_at_once_and_words_without_effect_are_one_note() {
    let said =
        refused("[a]\nverify=crc32c\nrw=trim\nzonemode=zbd\nbs=4x\n[b]\nioengine=rados\nzonemode=zbd\n");
    let lines: Vec<&str> = said.split("; line").collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(
        said.starts_with("line 2: ") && said.contains("s 4, 8: linerate does not take `zonemode`"),
        "{said}"
    );
    let unknown = |number: usize| format!("word{number}=1\n");
    let many = refused(&format!("[a]\n{}", (0..60).map(unknown).collect::<String>()));
    assert!(many.ends_with("; and 20 more"), "{many}");
    let job = &parse("[global]\nrandrepeat=0\nverify=0\n[a]\nnorandommap\nrefill_buffers\nrandrepeat=1\n")
        .expect("a job")[0];
    assert_eq!(job.notes, ["randrepeat, verify, norandommap, refill_buffers: no effect here, left out"]);
}

#[test]
fn sections_without_a_wall_run_at_once_and_each_sync_has_its_like() {
    let jobs = parse(
        "[global]\nrw=write\nfdatasync=1\n[a]\n[b]\nfdatasync=0\nfsync=32\n[c]\nstonewall\nfdatasync=0\nsync=1\n[d]\nrw=read\n",
    )
    .expect("jobs");
    let of = |job: &FioJob| (job.at_once, job.sync.map(|sync| sync.to_string()));
    let expected = [
        (false, Some("fdatasync")),
        (true, Some("fsync every 32 writes")),
        (false, Some("O_DSYNC")),
        (true, None),
    ];
    let expected = expected.map(|(at_once, sync)| (at_once, sync.map(String::from)));
    assert_eq!(jobs.iter().map(of).collect::<Vec<_>>(), expected);
    let etcd = parse("[wal]\nrw=write\nbs=2300\nsize=22m\nfdatasync=1\n").expect("a job").remove(0);
    assert_eq!(etcd.amount_bytes, Some((22 << 20) / 2300 * 2300), "whole requests");
    assert!(
        jobs[2].notes[0].contains("done with O_DSYNC")
            && jobs[3].notes == ["fdatasync has no effect on reads"]
    );
}

/// One of the lines that a file may have.
fn line() -> impl Strategy<Value = String> {
    let keys: Vec<&str> = "rw bs size numjobs iodepth ioengine direct runtime time_based stonewall fsync \
        fdatasync sync filename rate"
        .split(' ')
        .collect();
    let values: Vec<&str> =
        "read randrw 4k 1g 0 1 16 io_uring mmap 30s a:b  99999999999999999999".split(' ').collect();
    prop_oneof![
        3 => (0..keys.len(), 0..values.len()).prop_map(move |(key, value)| format!("{}={}", keys[key], values[value])),
        1 => "\\[[a-z]{1,6}\\]",
        1 => Just("[global]".to_string()),
        1 => "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn any_file_is_jobs_or_one_sentence_with_a_line(lines in proptest::collection::vec(line(), 0..20)) {
        let text = lines.join("\n");
        match parse(&text) {
            Ok(jobs) => for job in jobs {
                prop_assert!(job.workers > 0 && job.queue_depth > 0 && job.transfer_bytes > 0 && !job.sources.is_empty());
                prop_assert!(job.amount_bytes != Some(0));
            },
            Err(errors) => for error in errors.0 {
                prop_assert!(error.line <= lines.len().max(1), "{error}");
                prop_assert!(!error.why.contains('\n') && error.to_string().len() < 400);
            }
        }
    }

    #[test]
    fn comments_and_blanks_change_nothing(at in 0usize..20) {
        let mut lines: Vec<&str> = COMMON.lines().collect();
        lines.insert(at.min(lines.len()), "  ; numjobs=9");
        lines.insert(at.min(lines.len()), "");
        prop_assert_eq!(parse(&lines.join("\n")), parse(COMMON));
    }
}
