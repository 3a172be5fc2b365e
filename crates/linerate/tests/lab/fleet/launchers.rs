//! The same fleet by MPICH, ssh, pdsh and Slurm: each names the planted fault, and leaves nothing behind.

use super::{assert_nothing_left, fleet, measured, on_head, rsh_agent, sentence};
use crate::support::lab::{Lab, folder};
use crate::support::program;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// `./test --thorough` says so; these start services that a machine otherwise has no use for.
const WANTED: &str = "LINERATE_LAUNCHERS";

/// A lab with a slow receiver; none, with a message, where this is not wanted or a program is not there.
fn lab(test: &str, programs: &[(&str, &str)]) -> Option<Lab> {
    if std::env::var(WANTED).as_deref() != Ok("1") {
        eprintln!("skipped: {WANTED}=1 is not set: other launchers are started by ./test --thorough");
        return None;
    }
    for (program, package) in programs {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: {program} is not installed (apt install {package})");
            return None;
        }
    }
    Lab::up(
        test,
        &["--hosts", "8", "--racks", "2", "--uplink", "1300", "--rate", "300", "--slow", "h3:receive:100"],
    )
}

/// sshd or Slurm on the hosts of the lab, for as long as it is up.
fn start(launcher: &str, lab: &Lab, place: &Path) {
    let script = folder().join("launchers.sh");
    let words = [launcher, lab.name(), "8", &place.to_string_lossy()].map(str::to_string);
    let started = Command::new(script).args(words).status().expect("the script starts");
    assert!(started.success(), "{launcher}");
}

fn assert_slow_receiver(result: &Value) {
    assert!(sentence(result).starts_with("h3 receives at 0."), "{}", sentence(result));
    assert!(sentence(result).contains("7 of 7 pairs"), "{}", sentence(result));
    assert_eq!(result["members"].as_array().map(Vec::len), Some(8));
}

/// The words of a fleet that is started within a job.
fn inside<'a>(program: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = [program, "fleet", "pairs", "--streams", "1", "--seconds", "0.3", "--json"];
    [&words, more].concat()
}

#[test]
fn mpich_from_outside_and_from_inside() {
    let Some(lab) = lab("mpich", &[("mpiexec.hydra", "mpich")]) else { return };
    let agent = rsh_agent(&lab);
    let words = format!(
        "mpiexec.hydra -iface eth0 -launcher ssh -launcher-exec {} -hosts h1,h2,h3,h4,h5,h6,h7,h8 -np 8",
        agent.display()
    );
    assert_slow_receiver(&measured(&mut fleet(&lab, &["--launch", &words]), 0));
    let rendezvous = agent.with_file_name("rendezvous").to_string_lossy().into_owned();
    let program = program();
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = [words, inside(&program, &["--rendezvous", &rendezvous])].concat();
    assert_slow_receiver(&measured(on_head(&lab, &words).env("LINERATE_KEY", "3c".repeat(32)), 0));
    assert_nothing_left(&lab, 8);
    let _ = std::fs::remove_dir_all(agent.parent().expect("a folder"));
}

/// The key arrives by standard input with ssh, by AcceptEnv with pdsh.
#[test]
fn ssh_and_pdsh() {
    let Some(lab) = lab("ssh", &[("/usr/sbin/sshd", "openssh-server"), ("pdsh", "pdsh")]) else { return };
    let place = tempfile::tempdir().expect("a folder");
    start("ssh", &lab, place.path());
    let config = place.path().join("ssh_config").display().to_string();
    let ssh = format!("ssh -F {config} {{host}}");
    assert_slow_receiver(&measured(&mut fleet(&lab, &["--hosts", "h[1-8]", "--launch", &ssh]), 0));
    let pdsh = ["--hosts", "h[1-8]", "--launch", "pdsh -R ssh -w {hosts}"];
    let mut command = fleet(&lab, &pdsh);
    assert_slow_receiver(&measured(command.env("PDSH_SSH_ARGS_APPEND", format!("-F {config}")), 0));
}

#[test]
fn slurm_from_outside_and_from_inside() {
    let programs = [
        ("/usr/sbin/slurmd", "slurmd"),
        ("/usr/sbin/slurmctld", "slurmctld"),
        ("srun", "slurm-client"),
        ("/usr/sbin/munged", "munge"),
    ];
    let Some(lab) = lab("slurm", &programs) else { return };
    let place = tempfile::tempdir().expect("a folder");
    start("slurm", &lab, place.path());
    let config = place.path().join("slurm.conf").display().to_string();
    let mut outside = fleet(&lab, &["--launch", "srun -N 8"]);
    assert_slow_receiver(&measured(outside.env("SLURM_CONF", &config), 0));
    // No name server knows the hosts of a lab, so the ranks are given the address of the first.
    let address = lab.succeed("host", &["h1", "--", "ip", "-4", "-o", "addr", "show", "dev", "eth0"]);
    let address = address.split_whitespace().nth(3).and_then(|word| word.split('/').next());
    let address = address.expect("an address").to_string();
    let program = program();
    let words = [&["srun", "-N", "8"][..], &inside(&program, &["--coordinator", &address])].concat();
    let mut command = on_head(&lab, &words);
    command.env("SLURM_CONF", &config).env("LINERATE_KEY", "3c".repeat(32));
    assert_slow_receiver(&measured(&mut command, 0));
}
