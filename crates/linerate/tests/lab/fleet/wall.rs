//! A wall of fifteen screens on eight hosts, started by one command: SARA's wall was 15 processes on 8 hosts, by MPI.

use super::{as_root, assert_nothing_left, has_open_mpi, on_head, rsh_agent};
use crate::support::lab::{Lab, folder};
use crate::support::process::Ends;
use crate::support::{linerate, program};

#[test]
fn fifteen_screens_on_eight_hosts_are_started_by_one_command() {
    let Some(lab) = Lab::up("wallup", &["--hosts", "8", "--rate", "400"]) else { return };
    let place = tempfile::tempdir().expect("a folder");
    let movie = place.path().join("movie");
    let words = ["wall", "generate", "--grid", "5x3", "--tile", "64x40", "--frames", "48"];
    linerate().args(words).arg(&movie).ended().gives(0);
    let own = lab.command("host", &["h1", "--", "ip", "-4", "-o", "addr", "show", "eth0"]).ended().text();
    let own = own.split_whitespace().find_map(|word| word.split_once('/')).expect("its address").0;
    let network = own.rsplit_once('.').expect("an address").0;
    let hosts: Vec<String> = (1..=8).map(|host| format!("{network}.{host}")).collect();
    let tool = folder().join("lab");
    // As ssh: the host by its address, and no environment.
    let mut launchers = vec![format!(
        "env -u LINERATE_KEY sh -c 'exec {} host --name {} h${{0##*.}} -- \"$@\"' {{host}}",
        tool.display(),
        lab.name()
    )];
    let agent = has_open_mpi().then(|| rsh_agent(&lab));
    launchers.extend(agent.as_ref().map(|agent| {
        format!(
            "mpirun --mca plm_rsh_agent {} --mca oob_tcp_if_include eth0 -np 1 --host {{host}}",
            agent.display()
        )
    }));
    for launcher in launchers {
        let (program, movie, list) = (program(), movie.display().to_string(), hosts.join(","));
        let words = [&program, "wall", "serve", &movie, "--json", "--page", "none", "--screens", &list];
        let more = ["--seconds", "6", "--launch", &launcher, "--", "--verify"];
        let status = as_root(&mut on_head(&lab, &[&words[..], &more].concat())).ended().json();
        let tiles = status["tiles"].as_array().expect("tiles");
        let proven = tiles.iter().filter(|tile| {
            let report = &tile["report"];
            report["frames_proven"].as_u64() > Some(0) && report["frames_wrong"].as_u64() == Some(0)
        });
        assert_eq!((tiles.len(), proven.count()), (15, 15), "{launcher}: {status:#}");
        assert_nothing_left(&lab, 8);
    }
    drop(agent.map(|agent| std::fs::remove_dir_all(agent.parent().expect("a folder"))));
}
