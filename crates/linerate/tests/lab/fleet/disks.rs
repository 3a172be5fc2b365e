//! Four hosts with two disks of known speed each: the slow one is named with its host.

use super::{measured, sentence};
use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::program;
use std::os::unix::fs::PermissionsExt;

/// A launcher that gives each host two of the lab's disks, by the same paths on all of them.
fn launcher(lab: &Lab, place: &std::path::Path) -> String {
    let mounts = lab.succeed("mounts", &[]);
    let mounts: Vec<&str> = mounts.lines().collect();
    assert_eq!(mounts.len(), 8, "{mounts:?}");
    let mut script = String::from("#!/bin/bash\nset -e\nhost=${1#h}; shift\nmount --make-rprivate /\n");
    for source in 0..2 {
        let data = place.join(format!("data{source}"));
        std::fs::create_dir_all(&data).expect("a folder");
        let of_hosts: Vec<String> = mounts.chunks(2).map(|disks| format!("'{}'", disks[source])).collect();
        script += &format!(
            "all=({}); mount --bind \"${{all[host-1]}}\" '{}'\n",
            of_hosts.join(" "),
            data.display()
        );
    }
    script += "exec \"$@\"\n";
    let path = place.join("host");
    std::fs::write(&path, script).expect("the script");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("its mode");
    format!("unshare --mount {} {{host}}", path.display())
}

#[test]
fn names_the_slow_disk_with_its_host() {
    undisturbed("the rates of eight disks", 2, slow_disk);
}

fn slow_disk() {
    let Some(lab) = Lab::up("disks", &["--disks", "50,50,50,50,50,20,50,50", "--file-size", "16M"]) else {
        return;
    };
    let place = tempfile::tempdir().expect("a folder");
    let launch = launcher(&lab, place.path());
    let data = ["data0", "data1"].map(|name| place.path().join(name).display().to_string());
    let program = program();
    let line = format!(
        "{program} fleet disk --hosts h[1-4] --coordinator 127.0.0.1:0 --source {} --source {} --amount 30M --json",
        data[0], data[1]
    );
    let words: Vec<&str> = line.split(' ').chain(["--launch", &launch]).collect();
    let result = measured(&mut lab.command("run", &[&["--"], &words[..]].concat()), 0);
    let says = format!("h3 reads {} (", data[1]);
    assert!(sentence(&result).contains(&says), "{}", sentence(&result));
    assert!(sentence(&result).contains("its other sources normally: that disk"), "{}", sentence(&result));
    let slow = result["verdict"]["members"].as_array().expect("members");
    assert_eq!(slow.len(), 1, "{}", sentence(&result));
    let ratio = slow[0]["ratio"].as_f64().expect("a ratio");
    assert!((0.3..0.55).contains(&ratio), "{ratio}");
    // Disks of their own: eight do what each does alone.
    let last = result["windows"].as_array().and_then(|windows| windows.last()).expect("a window");
    let scalability = last["scalability"].as_f64().expect("a share");
    assert!((0.8..1.2).contains(&scalability), "{scalability}");
}
