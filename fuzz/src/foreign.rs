//! What other tools wrote: about a machine their listings, about a test their results.

use linerate::diagnose::ledger::counted_findings;
use linerate::interop;
use linerate::probe::Machine;
use linerate::probe::foreign::{ForeignSources, NamedText, described};
use linerate::report::tree;

/// Any bytes as the XML of lstopo or of NCCL.
pub fn lstopo(input: &[u8]) {
    machine_of(vec![input.to_vec()]);
}

/// Any bytes as listings; zero bytes part the files, but where all of it is a table of the firmware.
pub fn listings(input: &[u8]) {
    machine_of(vec![input.to_vec()]);
    machine_of(input.split(|byte| *byte == 0).take(16).map(<[u8]>::to_vec).collect());
}

/// What comes of them can be shown, saved and read again.
fn machine_of(files: Vec<Vec<u8>>) {
    let files = files.into_iter().map(|bytes| NamedText { name: "given".into(), bytes }).collect();
    match described(&ForeignSources { files, tree: None }) {
        Err(why) => assert!(why.file == "given" && why.to_string().len() > 10, "{why}"),
        Ok(described) => {
            assert!(!tree::show_tree(&described.machine).is_empty());
            let json = serde_json::to_string(&described.machine).expect("a machine is JSON");
            if let Err(error) = serde_json::from_str::<Machine>(&json) {
                panic!("the machine cannot be read again: {error}: {json}");
            }
            for finding in counted_findings(&described.counted) {
                assert!(!finding.text.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
            }
        }
    }
}

/// Any bytes as a result of fio, iperf3, nuttcp, IOR or elbencho. What comes of it is shown as any run is.
pub fn foreign_results(input: &[u8]) {
    match interop::read(input) {
        Ok(run) => run.into_iter().for_each(super::run::show),
        Err(error) => assert!(error.to_string().len() < 500, "{error}"),
    }
}
