//! A machine described in a file: read, planned for, sized, shown.

use linerate::fact::Fact;
use linerate::plan::flow::{Flow, Method, plan_flow};
use linerate::plan::machine_file::parse;
use linerate::plan::sizing::size;
use linerate::protocol::Protocol;
use linerate::report::FlowReport;

/// A machine with more devices is read but not planned for: thousands take seconds, and find nothing that
/// these do not.
const MOST_DEVICES: usize = 48;

/// Any text as a machine file.
pub fn machine_toml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let parts = match parse(&text) {
        Ok(parts) => parts,
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty(), "{error}");
            assert!(error.line <= text.matches('\n').count() + 1, "{error}");
            return;
        }
    };
    assert!(!parts.nodes.is_empty());
    assert!(parts.joints.iter().all(|joint| parts.node_of(&joint.up).is_some()), "all hangs from a node");
    if parts.devices.len() > MOST_DEVICES
        || parts.nodes.len() > MOST_DEVICES
        || parts.socket_links.len() > MOST_DEVICES
    {
        return;
    }
    for (from, to) in
        [("disk", "nic"), ("nic", "disk"), ("memory", "nic"), ("disk", "memory"), ("nic", "gpu")]
    {
        let Ok(flow) = Flow::between(&parts, [&[from], &[to]], Protocol::Udp, Method::Cached) else {
            continue;
        };
        let plan = plan_flow(&parts, &flow);
        if let Fact::Known(rate) = plan.ceiling.bytes_per_second {
            assert!(rate.is_finite() && rate >= 0.0, "{rate}");
        }
        assert!(plan.resources.iter().all(|resource| (0.0..=1.0).contains(&resource.utilisation)));
        let report = FlowReport {
            demand: None,
            long_path: None,
            processors: parts.processors.clone(),
            before: None,
            likely_before: None,
            steps: Vec::new(),
            sizing: Some(size(&parts, &flow, 5e9)),
            plan,
            findings: Vec::new(),
            in_bits: flow.in_bits(),
            measured: None,
        };
        assert!(serde_json::from_str::<serde_json::Value>(&report.json()).is_ok());
        assert!(
            report.screen(80, false).chars().all(|c| c == '\n' || !c.is_control()),
            "a name acts on the terminal"
        );
    }
}
