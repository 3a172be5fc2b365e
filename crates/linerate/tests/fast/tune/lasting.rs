//! What `tune persist` writes is what its readers read, and goes with the rest.

use super::{SETTINGS, ran, with_settings};
use crate::support::process::Ends;
use crate::support::rights::there;
use crate::support::tune_place::MachineFolder;
use linerate::tune::journal::{Bytes, Host, JournalEntry, JournalState, Record};
use linerate::tune::{Knob, SettingPlace, Shape, persistence};
use std::path::Path;
use std::process::Command;

/// The drop-ins are read by the programs that they are for, where these are there to be asked.
#[test]
fn drop_ins_are_what_their_programs_read() {
    let tree = MachineFolder::new();
    let before = tree.content();
    let root = tree.root();
    assert_eq!(ran(&with_settings(&["apply", "--yes", "--root", &root], &SETTINGS)).0, 0);
    assert_eq!(ran(&["persist", "--yes", "--root", &root]).0, 0);
    let path = |below: &str| tree.path(below).display().to_string();
    let accepts = |program: &str, words: &[&str]| {
        if !there(program) {
            return;
        }
        let ended = Command::new(program).args(words).ended();
        let text = ended.text();
        if text.contains("nknown command") || text.contains("nknown operation") {
            eprintln!("skipped: {program} {} is too new for this machine", words[0]);
            return;
        }
        ended.gives(0);
    };
    accepts("udevadm", &["verify", "--no-style", &path("etc/udev/rules.d/90-linerate.rules")]);
    // sysctl reads the file, and writes nothing where it is told a dry run.
    accepts("sysctl", &["--dry-run", "-p", &path("etc/sysctl.d/90-linerate.conf")]);
    assert_eq!(ran(&["undo", "--root", &root]).0, 0);
    assert_eq!(tree.content(), before);
}

/// What no program reads from a file is set by a unit, and the unit goes with the rest.
#[test]
fn a_unit_holds_what_no_drop_in_can() {
    let wish = |id: &str, place: SettingPlace| JournalEntry {
        id: id.into(),
        place,
        shape: Shape::Words,
        device: None,
        old: Some(Bytes::of(b"0")),
        wanted: Bytes::of(b"1"),
    };
    let offload = SettingPlace::Driver { interface: "eth0".into(), knob: Knob::Feature("rx-gro".into()) };
    let entries = vec![
        wish("generic-receive:eth0", offload),
        wish("rx-ring:eth0", SettingPlace::Driver { interface: "eth0".into(), knob: Knob::RxRing }),
    ];
    let begin = Record::Begin {
        schema: 1,
        version: "0".into(),
        started: String::new(),
        host: Host::default(),
        entries,
    };
    let done = (0..2).map(|n| Record::Done { n, now: Bytes::of(b"1") });
    let state = JournalState::of(std::iter::once(begin).chain(done).collect()).expect("a journal");
    let lasting = persistence(&state, Path::new(env!("CARGO_BIN_EXE_linerate")));
    assert_eq!(lasting.left, []);
    let folder = tempfile::tempdir().expect("a temporary directory");
    for wish in &lasting.changes {
        let SettingPlace::DropIn(path) = &wish.place else { panic!("{wish:?}") };
        let file = folder.path().join(path.strip_prefix("/").expect("a whole path"));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("directories");
        std::fs::write(&file, &wish.value).expect("written");
    }
    let unit = folder.path().join("etc/systemd/system/linerate-tune.service");
    let text = std::fs::read_to_string(&unit).expect("a unit");
    assert!(
        text.contains("tune apply --yes --setting \"generic-receive:eth0=1\" --setting \"rx-ring:eth0=1\"\n"),
        "{text}"
    );
    if there("systemd-analyze") {
        let ended = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&unit).ended();
        ended.gives(0);
        assert!(!ended.text().contains("linerate-tune"), "{ended}");
    }
}
