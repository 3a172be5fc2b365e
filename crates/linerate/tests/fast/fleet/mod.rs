//! Fleets on loopback, and every way to ask for one that cannot be: one sentence, the status of the contract.

mod compared;
mod kubernetes;
mod patterns;

use crate::support::process::Ends;
use crate::support::{keep_apart, linerate};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A launcher that starts each member here, whatever its host is called.
const HERE: &str = "sh -c 'exec \"$@\"' {host}";

fn fleet(words: &[&str]) -> Command {
    let mut command = linerate();
    command.arg("fleet").args(words);
    for name in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_STEP_ID", "JOB_COMPLETION_INDEX", "LINERATE_KEY"]
    {
        command.env_remove(name);
    }
    command
}

pub fn ended(command: &mut Command) -> (i32, String, String) {
    let (code, stdout, stderr) = command.ended().parts();
    (code.unwrap_or(-1), stdout, stderr)
}

/// A short window of little, for tests that look at who takes part.
const SHORT: [&str; 6] = ["--streams", "1", "--seconds", "0.2", "--rate-limit", "400M"];

/// Members on this machine, without shaping: that the bytes arrive and all of them are counted.
pub fn here(pattern: &str, hosts: &str, more: &[&str]) -> Command {
    let mut words = vec![pattern, "--hosts", hosts, "--launch", HERE, "--coordinator", "127.0.0.1:0"];
    words.extend(SHORT);
    words.extend(more);
    fleet(&words)
}

#[test]
fn every_pair_of_four_members_is_measured_each_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out");
    let began = Instant::now();
    let mut command = here("pairs", "a[1-4]", &["--json", "--output", &output.to_string_lossy()]);
    let result = keep_apart(&mut command, folder.path()).ended().gives(0).json();
    assert_eq!(result["schema"], 2);
    assert_eq!(result["pattern"], "pairs");
    let members = result["members"].as_array().expect("members");
    let names: Vec<&str> = members.iter().filter_map(|member| member["name"].as_str()).collect();
    assert_eq!(names, ["a1", "a2", "a3", "a4"]);
    assert!(members.iter().all(|member| member["machine"]["nics"].is_array()), "each says what it is");
    let error = |member: &Value| member["clock_error_seconds"].as_f64().expect("an error");
    assert!(members.iter().all(|member| error(member) < 0.1), "{members:?}");
    let cells = result["cells"].as_array().expect("cells");
    // Twelve, and what chance made slow or stop on a busy machine is measured again.
    let pairs = |cell: &Value| format!("{} to {}", cell["from"], cell["to"]);
    let measured = cells.iter().filter(|cell| cell["bytes_per_second"].as_f64() > Some(0.0));
    assert_eq!(measured.map(pairs).collect::<std::collections::HashSet<_>>().len(), 12, "{cells:?}");
    assert!(result["windows"].as_array().map(Vec::len) >= Some(10), "four of them alone, then six");
    let windows = result["windows"].as_array().expect("windows");
    let alone = |cell: &Value| windows[cell["window"].as_u64().expect("a number") as usize]["alone"] == true;
    for cell in cells.iter().filter(|cell| !alone(cell)) {
        assert!(cell["predicted_bytes_per_second"].as_f64() > Some(0.0), "{cell}");
    }
    assert!(!result["verdict"]["sentence"].as_str().unwrap_or_default().is_empty());
    let saved = std::fs::read_to_string(output.join("run.json")).expect("run.json");
    assert_eq!(serde_json::from_str::<Value>(&saved).expect("JSON"), result);
    let kept = std::fs::read(folder.path().join("linerate/results/000001.json")).expect("kept as every run");
    assert_eq!(serde_json::from_slice::<Value>(&kept).expect("JSON"), result);
    let report =
        keep_apart(&mut linerate(), folder.path()).args(["report", "@fleet-1", "--json"]).ended().json();
    assert_eq!(report["members"][3]["name"], "a4");
    let list = keep_apart(&mut linerate(), folder.path()).args(["list", "--json"]).ended().json();
    assert_eq!(list["results"][0]["sentence"], result["verdict"]["sentence"], "{list}");
    let page = std::fs::read_to_string(output.join("report.html")).expect("report.html");
    assert!(page.contains("a3 to a2") && !page.contains("<script"), "the heat map has every pair");
    assert!(
        page.contains("Achieved by predicted") && page.contains("of predicted</title>"),
        "and its prediction"
    );
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn all_to_all_predicts_from_each_member_alone() {
    let result = here("all-to-all", "a[1-3]", &["--json"]).ended().gives(0).json();
    let windows = result["windows"].as_array().expect("windows");
    assert_eq!(windows.len(), 5, "each sends and receives, with two partners; then all, three times");
    assert_eq!(windows.last().expect("one")["flows"], 6);
    assert!(windows[2]["predicted_bytes_per_second"].as_f64() > Some(0.0), "{windows:?}");
    let sentence = result["verdict"]["sentence"].as_str().unwrap_or_default();
    assert!(sentence.contains("together") && sentence.contains("; single flows have "), "{sentence}");
    let sums = result["verdict"]["sums"].as_array().expect("sums");
    assert_eq!(sums.len(), 3);
    for way in sums.iter().flat_map(|host| [&host["send"], &host["receive"]]) {
        let range = &way["single_flows"];
        assert!(range["least_bytes_per_second"].as_f64() <= range["most_bytes_per_second"].as_f64(), "{way}");
        assert!(way["predicted_bytes_per_second"].as_f64() > Some(0.0), "{way}");
    }
}

/// What of a flow a declared uplink takes is predicted, in every cell and in the words.
#[test]
fn a_declared_fabric_is_part_of_the_prediction() {
    let racks = ["--fabric", "a[1-2]:40M", "--fabric", "a[3-4]:40M"];
    let result = here("pairs", "a[1-4]", &[&racks[..], &["--json"]].concat()).ended().gives(0).json();
    assert_eq!(result["fabric"][1]["hosts"], serde_json::json!(["a3", "a4"]));
    assert_eq!(result["fabric"][1]["uplink_bytes_per_second"], 5e6);
    let rack = |name: &Value| usize::from(name == "a3" || name == "a4");
    let (mut within, mut crossing) = (0, 0);
    for cell in result["cells"].as_array().expect("cells") {
        let (from, to) = (rack(&cell["from"]), rack(&cell["to"]));
        let alone = result["windows"][cell["window"].as_u64().expect("a window") as usize]["alone"] == true;
        let predicted = cell["predicted_bytes_per_second"].as_f64();
        match (alone, from == to) {
            (true, same) => assert!(same && predicted.is_none(), "alone is within a rack: {cell}"),
            (false, true) => {
                within += 1;
                assert_eq!(cell["fabric_share"], 1.0, "{cell}");
            }
            (false, false) => {
                crossing += 1;
                assert!(predicted <= Some(5e6) && cell["fabric_share"].as_f64() < Some(1.0), "{cell}");
            }
        }
    }
    assert!(within >= 4 && crossing >= 8, "{within} {crossing}");
    let stdout = here("pairs", "a[1-4]", &racks).ended().gives(0).stdout.clone();
    assert!(stdout.contains("over the 2 declared uplinks") && stdout.contains("of predicted:"), "{stdout}");
    assert!(stdout.contains("less what the declared uplinks take"), "{stdout}");
}

/// Disks of every host, alone and together; nothing is left of their files, however they are shared.
#[test]
fn disks_of_all_hosts_are_read_and_written_and_no_file_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().to_string_lossy().into_owned();
    let words = ["--hosts", "a[1-4]", "--launch", HERE, "--coordinator", "127.0.0.1:0"];
    let small = ["--source", &source, "--amount", "2M", "--transfer", "64k", "--workers", "2", "--json"];
    for (sharing, windows) in [
        (&["--write"][..], 12),
        (&["--reorder"][..], 6),
        (&["--layout", "segmented", "--reorder"][..], 6),
        (&["--layout", "strided", "--write"][..], 12),
    ] {
        let (status, stdout, stderr) =
            ended(&mut fleet(&[&["disk"], &words[..], &small[..], sharing].concat()));
        assert_eq!(status, 0, "{sharing:?}: {stderr}");
        let result: Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!(result["windows"].as_array().map(Vec::len), Some(windows), "{sharing:?}");
        let disks = result["disks"].as_array().expect("disks");
        // Four alone, then two, then four.
        assert_eq!(disks.len(), windows / 6 * 10, "{sharing:?}");
        for disk in disks {
            assert!(disk["bytes_per_second"].as_f64() > Some(0.0), "{sharing:?}: {disk}");
            assert_eq!(disk["bytes"], 4 << 20, "{sharing:?}: {disk}");
        }
        let last = &result["windows"][windows - 1];
        assert_eq!((&last["hosts"], &last["disks"]), (&Value::from(4), &Value::from("read")));
        assert!(last["scalability"].as_f64() > Some(0.0), "{last}");
        assert!(last["predicted_bytes_per_second"].as_f64() > Some(0.0), "{last}");
        assert!(last["first_done_bytes_per_second"].as_f64() > Some(0.0), "{last}");
        let sentence = result["verdict"]["sentence"].as_str().unwrap_or_default();
        assert!(
            sentence.starts_with("4 hosts read") && sentence.contains("% of what each does alone"),
            "{sentence}"
        );
        let left: Vec<_> = std::fs::read_dir(&source).expect("the folder").flatten().collect();
        assert!(left.is_empty(), "{sharing:?}: {left:?}");
    }
}

#[test]
fn a_source_that_is_not_there_is_named_with_its_host() {
    let words = ["disk", "--hosts", "a[1-2]", "--launch", HERE, "--coordinator", "127.0.0.1:0"];
    let (status, stdout, stderr) = ended(&mut fleet(&[&words[..], &["--source", "/no/such/place"]].concat()));
    assert_eq!(status, 1, "{stdout}");
    assert!(stderr.contains("a1: source /no/such/place: not there"), "{stderr}");
    assert!(stdout.contains("nothing was measured"), "{stdout}");
}

/// The launcher of a2 hangs, as ssh to a host that drops what comes; that of a3 fails.
#[test]
fn hosts_that_do_not_come_are_named_before_they_are_given_up_and_the_others_are_measured() {
    let launch = "sh -c 'case $0 in a2) exec sleep 600;; a3) echo no route to a3 >&2; exit 255;; esac; exec \"$@\"' {host}";
    let words = ["pairs", "--hosts", "a[1-4]", "--launch", launch, "--coordinator", "127.0.0.1:0"];
    let words = [&words[..], &SHORT, &["--join-timeout", "6s"]].concat();
    let (status, stdout, stderr) = ended(&mut fleet(&words));
    assert_eq!(status, 1, "{stdout}{stderr}");
    let waiting = stderr.find("a2 did not come yet");
    let given_up = stderr.find("a2 is left out: it did not connect within 6 s");
    assert!(waiting < given_up && waiting.is_some(), "{stderr}");
    assert!(stderr.contains("a3 is left out") && stderr.contains("no route to a3"), "{stderr}");
    assert!(
        ["a1", "not measured: a2", "not measured: a3"].iter().all(|one| stdout.contains(one)),
        "{stdout}"
    );
}

/// The second member comes by IPv6, the others by IPv4.
#[test]
fn members_of_two_families_of_addresses_are_refused_in_one_sentence() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let launch = "bash -c 'if [ $0 = a2 ]; then set -- \"${@/127.0.0.1/[::1]}\"; fi; exec \"$@\"' {host}";
    let words = ["pairs", "--hosts", "a[1-2]", "--launch", launch, "--coordinator", "127.0.0.1:0"];
    let (status, stdout, stderr) = ended(&mut fleet(&words));
    assert_eq!((status, stdout.as_str()), (3, ""), "{stderr}");
    assert!(
        stderr.contains("a1 is reached by IPv4 and a2 by IPv6") && stderr.contains("--network"),
        "{stderr}"
    );
}

#[test]
fn a_network_that_a_member_lacks_is_named_with_the_member() {
    let (status, stdout, stderr) = ended(&mut here("pairs", "a[1-2]", &["--network", "203.0.113.0/24"]));
    assert_eq!((status, stdout.as_str()), (3, ""), "{stderr}");
    assert!(stderr.contains("a1 has no address in 203.0.113.0/24"), "{stderr}");
}

#[test]
fn a_fleet_that_cannot_be_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let windows = folder.path().join("hosts.txt");
    std::fs::write(&windows, "a1\r\nA1 slots=2\r\n").expect("a hostfile");
    let windows = windows.to_string_lossy().into_owned();
    let empty = folder.path().join("none.txt");
    std::fs::write(&empty, "# none yet\n").expect("a hostfile");
    let empty = empty.to_string_lossy().into_owned();
    for (words, status, says) in [
        (&["pairs"][..], 2, "--hosts a[1-8]"),
        (&["pairs", "--hosts", "a1"], 2, "a1 alone"),
        (&["pairs", "--hosts", ""], 2, "no host"),
        (&["pairs", "--hosts", "a1,a1"], 2, "a1 twice"),
        (&["pairs", "--hosts", "a[1-"], 2, "no other end"),
        (&["pairs", "--hostfile", &windows], 2, "A1 twice"),
        (&["pairs", "--hostfile", "/no/such/file"], 3, "/no/such/file"),
        (&["pairs", "--launch", "ssh {host}"], 2, "--hosts or --hostfile"),
        (&["pairs", "--hosts", "a,b", "--launch", "mpirun"], 2, "{hosts}"),
        (&["pairs", "--hosts", "a,b", "--launch", "no-such-launcher {host}"], 3, "is it installed"),
        (
            &["pairs", "--hosts", "a,b", "--launch", "false {host}", "--join-timeout", "5s"],
            3,
            "0 of 2 members",
        ),
        (&["pairs", "--hosts", "a,b", "--coordinator", "no-such-host.invalid"], 3, "no-such-host"),
        (&["pairs", "--hosts", "a,b", "--network", "10.0.0.1/99"], 2, "--network"),
        (&["triangles", "--hosts", "a,b"], 2, "triangles"),
        (&["pairs", "--hosts", "a,b", "--fabric", "a"], 2, "h[1-3]:500M"),
        (&["pairs", "--hosts", "a,b", "--fabric", "./no/such/racks"], 2, "./no/such/racks cannot be read"),
        (&["pairs", "--hosts", "a,b", "--fabric", &windows], 2, "hosts.txt, line 2: "),
        (&["storage", "--hosts", "a,b", "--source", "/tmp"], 2, "--servers a[1-2]"),
        (&["storage", "--hosts", "a,b", "--servers", "a"], 2, "--source DIR"),
        (&["storage", "--hosts", "a,b", "--servers", "c", "--source", "/tmp"], 2, "none of the hosts"),
        (&["storage", "--hosts", "a,b", "--servers", "a,b", "--source", "/tmp"], 2, "as a client"),
        (&["storage", "--hosts", "a,b", "--servers", "", "--source", "/tmp"], 2, "no host"),
        (&["storage", "--hosts", "a,b", "--servers", "a", "--source", "/tmp", "--reorder"], 2, "fleet disk"),
        (
            &["storage", "--hosts", "a,b", "--servers", "a", "--source", "/tmp", "--redundancy", "4+2"],
            2,
            "needs 6 servers",
        ),
        (
            &["storage", "--hosts", "a,b", "--servers", "a", "--source", "/tmp", "--redundancy", "0"],
            2,
            "one copy",
        ),
        (&["pairs", "--hosts", "a,b", "--servers", "a"], 2, "fleet storage"),
        (&["pairs", "--hostfile", &empty], 2, "no host"),
        (&["pairs", "--hosts", "a,b", "--fabric", "a:fast"], 2, "like 10G"),
        (&["pairs", "--hosts", "a,b", "--fabric", "a:1G", "--fabric", "b,a:1G"], 2, "a twice"),
        (&["pairs", "--hosts", "a,b", "--fabric", "a,c:1G"], 2, "c, which is none of the hosts"),
        (&["disk", "--hosts", "a,b"], 2, "--source DIR"),
        (&["pairs", "--hosts", "a,b", "--source", "/tmp"], 2, "fleet disk"),
        (&["disk", "--hosts", "a,b", "--source", "/tmp", "--amount", "4k"], 2, "--transfer smaller"),
    ] {
        let began = Instant::now();
        let (given, stdout, stderr) = ended(&mut fleet(words));
        assert_eq!(given, status, "{words:?}: {stderr}");
        assert!(stderr.contains(says) && stdout.is_empty(), "{words:?}: {stderr}");
        assert!(began.elapsed() < Duration::from_secs(20), "{words:?}");
    }
}

#[test]
fn of_a_key_that_never_ends_little_is_read() {
    let mut command = linerate();
    command.args(["fleet-member", "--join", "127.0.0.1:1"]).env_remove("LINERATE_KEY");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut member = command.spawn().expect("a member");
    let (mut input, mut written) = (member.stdin.take().expect("a pipe"), 0);
    while let Ok(bytes) = input.write(&[b'a'; 4096]) {
        written += bytes;
        assert!(written < 16 << 20, "it reads on");
    }
    let ended = member.ended();
    ended.gives(2);
    assert!(ended.stderr.contains("LINERATE_KEY did not arrive here"), "{}", ended.stderr);
}

/// The environment of each launcher, simulated.
fn job(rank: u32) -> [Vec<(&'static str, String)>; 4] {
    let rank = rank.to_string();
    let pod = format!("fleet-{rank}");
    let of = |pairs: &[(&'static str, &str)]| {
        pairs.iter().map(|(name, value)| (*name, value.to_string())).collect()
    };
    [
        of(&[("OMPI_COMM_WORLD_RANK", &rank), ("OMPI_COMM_WORLD_SIZE", "3")]),
        of(&[("PMI_RANK", &rank), ("PMI_SIZE", "3")]),
        of(&[
            ("SLURM_PROCID", &rank),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "3"),
            ("SLURM_STEP_NODELIST", "n[1-3]"),
        ]),
        of(&[("JOB_COMPLETION_INDEX", &rank), ("HOSTNAME", &pod)]),
    ]
}

#[test]
fn without_a_key_rank_0_prints_the_line_to_add_and_all_end_with_2() {
    for (first, second) in job(0).into_iter().zip(job(1)) {
        let (status, stdout, stderr) = ended(fleet(&["pairs"]).envs(first.clone()));
        assert_eq!((status, stdout.as_str()), (2, ""), "{first:?}: {stderr}");
        assert!(stderr.contains("LINERATE_KEY="), "{first:?}: {stderr}");
        let (status, stdout, stderr) = ended(fleet(&["pairs"]).envs(second));
        assert_eq!((status, stdout.as_str(), stderr.as_str()), (2, "", ""));
    }
}

#[test]
fn a_command_that_measures_one_host_refuses_to_run_in_several_ranks() {
    for (first, second) in job(0).into_iter().zip(job(1)).take(3) {
        for command in ["run", "network", "disk"] {
            let (status, stdout, stderr) = ended(linerate().arg(command).envs(first.clone()));
            assert_eq!((status, stdout.as_str()), (2, ""), "{command}: {stderr}");
            assert!(stderr.contains("rank 0 of 3") && stderr.contains("linerate fleet pairs"), "{stderr}");
            let (status, _, stderr) = ended(linerate().arg(command).envs(second.clone()));
            assert_eq!((status, stderr.as_str()), (2, ""));
        }
        // What only reads goes on.
        let (status, ..) = ended(linerate().args(["plan", "--help"]).envs(first));
        assert_eq!(status, 0);
    }
}

#[test]
fn ranks_of_a_job_find_each_other_by_a_file_that_they_share() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rendezvous").to_string_lossy().into_owned();
    find_each_other(&folder, &["--rendezvous", &file], &[("PMI_RANK", ""), ("PMI_SIZE", "3")]);
}

/// From a login node Open MPI says where the launcher is, which is not a rank: here an address that nobody has.
#[test]
fn ranks_of_a_job_find_each_other_by_the_home_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().to_string_lossy().into_owned();
    let job = [
        ("OMPI_COMM_WORLD_RANK", ""),
        ("OMPI_COMM_WORLD_SIZE", "3"),
        ("PMIX_NAMESPACE", "prterun-login-71@1"),
        ("OMPI_MCA_orte_hnp_uri", "71.0;tcp://255.255.255.255:40123"),
        ("HOME", home.as_str()),
    ];
    find_each_other(&folder, &[], &job);
}

/// Three ranks with these words; the first variable of the job has the rank.
#[track_caller]
fn find_each_other(folder: &tempfile::TempDir, words: &[&str], job: &[(&str, &str)]) {
    let words = [&["pairs", "--json"][..], words, &SHORT].concat();
    let key = "7e".repeat(32);
    let start = |rank: u32| {
        let mut command = fleet(&words);
        command.envs(job.iter().copied()).env(job[0].0, rank.to_string()).env("LINERATE_KEY", &key);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("a rank")
    };
    let mut ranks: Vec<_> = [2, 1, 0].into_iter().map(start).collect();
    let first = ranks.pop().expect("rank 0").ended();
    let says = &first.stderr;
    // A machine without any address of its own has nothing to write into the file.
    if says.contains("no address that members could connect to") {
        eprintln!("skipped: this machine has no address but loopback");
        ranks.iter_mut().for_each(|rank| drop(rank.kill()));
        return;
    }
    assert_eq!(first.status.code(), Some(0), "{says}");
    let result = first.json();
    let ranks_of: Vec<u64> = result["members"]
        .as_array()
        .expect("members")
        .iter()
        .filter_map(|member| member["rank"].as_u64())
        .collect();
    assert_eq!(ranks_of, [0, 1, 2]);
    for rank in ranks {
        let ended = rank.ended();
        ended.gives(0);
        assert!(ended.stdout.is_empty(), "rank 0 prints for all");
    }
    let left = std::fs::read_dir(folder.path()).expect("a list").flatten().map(|entry| entry.file_name());
    let is_of_fleet = |name: &str| name == "rendezvous" || name.starts_with(".linerate-fleet");
    let left: Vec<_> = left.filter(|name| is_of_fleet(&name.to_string_lossy())).collect();
    assert!(left.is_empty(), "the file goes with the coordinator: {left:?}");
}
