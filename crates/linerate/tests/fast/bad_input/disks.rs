//! Full disks: for the scratch file, for the results, at the start and in the middle. Each on a file system
//! of the test's own, in a mount namespace that goes with the processes in it.

use super::ground::{SECONDS, TestFolder};
use crate::support::process::{ProcessEnd, Started};
use crate::support::rights;

/// Runs a shell script as root of a mount namespace, with a tmpfs of this size at `disk`; `$L` is linerate.
fn on_a_disk_of(ground: &TestFolder, size: &str, script: &str) -> Option<ProcessEnd> {
    if !rights::may_mount() {
        rights::skipped("no mount namespaces of our own: not root, or in a container that forbids them");
        return None;
    }
    std::fs::create_dir(ground.path().join("disk")).expect("a directory");
    let whole = format!(
        "set -e; mount -t tmpfs -o size={size} none disk; L={}; set +e\n{script}",
        env!("CARGO_BIN_EXE_linerate")
    );
    let before = ground.seen();
    let mut command = ground.command("unshare", &["--mount", "--propagation", "private", "sh", "-c", &whole]);
    let ended = Started::of(&mut command).end_within(SECONDS);
    ground.left_alone(&before, &ended);
    Some(ended)
}

const SHORT: &str = "--seconds 0.2 --repeats 1 --budget 5 --stages";

#[test]
fn a_scratch_file_on_a_disk_that_is_nearly_full() {
    let ground = TestFolder::new();
    let script = format!("cd disk; $L run {SHORT} disk; status=$?; ls -A . >&2; exit $status");
    let Some(ended) = on_a_disk_of(&ground, "40m", &script) else { return };
    ended.gives(3).says(&["scratch", "nearly full", "--source FILE", "--source DIR"]);
}

#[test]
fn a_scratch_file_is_as_small_as_the_disk_wants_it_and_gone_after() {
    let ground = TestFolder::new();
    let script = format!(
        "$L run {SHORT} disk --source disk --output out --json; status=$?
         ls -A disk >&2; n=0
         # The kernel ends a ring, and what it holds open, a moment after its process.
         until [ $(stat -f -c %f disk) = $(stat -f -c %b disk) ]; do
             n=$((n + 1)); [ $n -gt 100 ] && echo not empty >&2 && break; sleep 0.05
         done
         exit $status"
    );
    let Some(ended) = on_a_disk_of(&ground, "200m", &script) else { return };
    ended.is_content();
    let run = ground.result("out");
    let change = run["changes"][0].as_str().expect("a change");
    assert!(change.contains("scratch file") && change.contains("gone"), "{change}");
    let length = run["plan"]["sources"][0]["length_bytes"].as_u64().expect("a length");
    assert!((64 << 20..=180 << 20).contains(&length), "a tenth of the disk stays free: {length}");
}

#[test]
fn a_disk_that_fills_up_while_the_scratch_file_is_written() {
    let ground = TestFolder::new();
    // Another writer takes the room that linerate was told of.
    let script = format!(
        "(while ! [ -e done ]; do head -c 60m /dev/zero >disk/other 2>/dev/null; done) & 
         $L run {SHORT} disk --source disk --output out; status=$?; touch done; wait; rm done; exit $status"
    );
    let Some(ended) = on_a_disk_of(&ground, "110m", &script) else { return };
    // Which of the two is first is a race; that it ends with a sentence or with figures is not.
    match ended.status.code() {
        Some(0) => ended.is_content(),
        _ => ended.gives(3).says(&["scratch", "full"]),
    };
}

#[test]
fn results_on_a_full_disk() {
    let ground = TestFolder::with_source();
    let script = format!(
        "head -c 1m /dev/zero >disk/filler 2>/dev/null
         $L run {SHORT} disk --source source --output disk/out; status=$?; ls -A disk | grep -v filler >&2; \
         exit $status"
    );
    let Some(ended) = on_a_disk_of(&ground, "64k", &script) else { return };
    ended.gives(3).says(&["disk/out", "--output"]);
}

#[test]
fn a_disk_that_is_full_after_the_first_results() {
    let ground = TestFolder::with_source();
    let script = "
        $L run --stages disk,path --seconds 1 --repeats 2 --source source --output disk/out & run=$!
        until [ -s disk/out/run.json ]; do sleep 0.05; done
        head -c 4m /dev/zero >disk/filler 2>/dev/null
        wait $run; status=$?
        grep -q '\"schema\": 2' disk/out/run.json && tail -n 1 disk/out/run.json | grep -q '^}' || echo \
        damaged >&2
        ls -A disk/out | grep new >&2
        exit $status";
    let Some(ended) = on_a_disk_of(&ground, "256k", script) else { return };
    ended.gives(1).says(&["could not be saved in disk/out", "--output"]);
}

#[test]
fn a_file_system_that_is_read_only() {
    let ground = TestFolder::with_source();
    let script = format!(
        "mount -o remount,ro disk; $L run {SHORT} disk --source source --output disk/out; first=$?
         $L run {SHORT} disk --source disk --output out; second=$?
         [ $first = 3 ] && [ $second = 3 ]"
    );
    let Some(ended) = on_a_disk_of(&ground, "64k", &script) else { return };
    ended.gives(0);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(
        matches!(lines[..], [first, second] if first.contains("--output") && second.contains("scratch")),
        "{ended}"
    );
    assert!(lines.iter().all(|line| line.contains("ead-only") || line.contains("nearly full")), "{ended}");
    ground.no_result();
}
