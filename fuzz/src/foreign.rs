//! What other tools wrote: about a machine the XML of lstopo and of NCCL, about a test their results.

use linerate::interop;
use linerate::probe::Machine;
use linerate::probe::foreign::{ForeignSources, NamedText, machine};
use linerate::report::tree;

/// Any text as either. What comes of it can be shown, saved and read again.
pub fn lstopo(input: &[u8]) {
    let named = Some(NamedText { name: "given".into(), bytes: input.to_vec() });
    for sources in [
        ForeignSources { lstopo: named.clone(), ..Default::default() },
        ForeignSources { nccl: named.clone(), ..Default::default() },
        ForeignSources { lstopo: named.clone(), nccl: named.clone(), ..Default::default() },
    ] {
        match machine(&sources) {
            Err(why) => assert!(why.file == "given" && why.to_string().len() > 10, "{why}"),
            Ok(machine) => {
                assert!(!tree::show_tree(&machine).is_empty());
                let json = serde_json::to_string(&machine).expect("a machine is JSON");
                if let Err(error) = serde_json::from_str::<Machine>(&json) {
                    panic!("the machine cannot be read again: {error}: {json}");
                }
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
