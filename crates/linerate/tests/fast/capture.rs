//! `linerate probe --capture` as a user runs it: on this machine, and on the recorded trees of others
//! (`LINERATE_CAPTURES`, or `../shared/captures` beside the workspace; skipped and said where they are
//! absent).

use crate::support::place::captures;
use crate::support::process::{Ends, ProcessEnd};
use linerate::probe::{Machine, probe};
use linerate::sysroot::Sysroot;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn linerate(folder: &Path, words: &[&str]) -> ProcessEnd {
    crate::support::linerate().args(words).current_dir(folder).ended()
}

#[test]
fn a_capture_is_the_owners_and_is_not_written_over() {
    let folder = linerate_testing::folder_in_memory();
    let words = ["probe", "--capture", "this.tar.gz"];
    let made = linerate(folder.path(), &words);
    made.gives(0);
    assert!(made.stdout.contains("linerate probe this.tar.gz"), "{}", made.stdout);
    let file = folder.path().join("this.tar.gz");
    assert_eq!(std::fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);
    let again = linerate(folder.path(), &words);
    assert_eq!(again.status.code(), Some(3));
    assert!(again.stderr.contains("is there already") && again.stderr.contains("--capture"));
    let probed = linerate(folder.path(), &["probe", "this.tar.gz"]);
    assert!(probed.status.success() && probed.stderr.is_empty(), "{}", probed.stderr);
}

/// Machines that others recorded: the probe of their capture is the probe of their tree but for names and
/// addresses.
#[test]
fn captures_of_recorded_machines_probe_the_same() {
    let Some(place) = captures() else { return };
    let mut compared = 0;
    for name in "hwloc/linux/32intel64-2p8co2t+8ve.tar.bz2 hwloc/linux/fakepcilocalities.tar.bz2 \
        hwloc/linux/nvidiagpunumanodes.tar.bz2 hwloc/linux/offline-cpu0-node0.tar.bz2 \
        hwloc/linux/nvidia-dgx-gb10.tar.bz2 ghw/linux-amd64-offlineCPUs.tar.gz \
        ghw/linux-amd64-415ee03b8c4d1c4f07ae2e9d8b3d3d6d.tar.gz libnvme/tree-pcie.tar.xz"
        .split(' ')
    {
        let tree = Sysroot::at(&place.join(name)).expect("a recorded machine");
        let capture = linerate::capture::capture(&tree).expect("a capture");
        let folder = linerate_testing::folder_in_memory();
        let file = folder.path().join("capture.tar.gz");
        linerate::capture::write(&capture, std::fs::File::create(&file).expect("a file")).expect("a tarball");
        let again = probe(&Sysroot::at(&file).expect("the capture"));
        let (again, before) = (facts(again), facts(probe(&tree)));
        let differs: Vec<_> =
            before.lines().zip(again.lines()).filter(|(before, again)| before != again).take(9).collect();
        assert!(again == before, "{name}: {differs:#?}");
        compared += 1;
    }
    assert_eq!(compared, 8);
}

/// The machine without what is replaced, as text that a failing test can show.
fn facts(mut machine: Machine) -> String {
    machine.host = machine.host.map(|_| "host".into());
    machine.nics.iter_mut().for_each(|nic| nic.addresses.clear());
    for fs in &mut machine.file_systems {
        (fs.mount_point, fs.source, fs.options) = Default::default();
    }
    machine.disks.iter_mut().for_each(|disk| disk.backing_file = None);
    serde_json::to_string_pretty(&machine).expect("JSON")
}
