//! The product of the diagnosis: predicted, achieved, the bottleneck in one sentence, findings.

use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Bound, Resource, RunFlow};
use linerate_model::verdict::{FlowRate, LimitKind, Verdict};
use serde::{Deserialize, Serialize};

/// What the figures mean. Where one stage alone was measured there is no flow to speak of: `findings` only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// What the parts allow (from the plan).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Bound>,
    /// The ceiling recomputed with measured capacities and CPU cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Bound>,
    /// What the path did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved: Option<Achieved>,
    /// How sure it is what limits the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The minimum cut of the prediction, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// What the flow lost for what was taken of each resource, where that was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareFigure>,
    /// What the path showed from within.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceFigure>,
    /// Every resource on the way with the capacity that the prediction used.
    pub resources: Vec<Resource>,
    /// What is wrong or worth changing, worst first.
    pub findings: Vec<Finding>,
    /// The same for each protocol that was measured; the fields above are those of the headline protocol.
    pub by_protocol: Vec<ProtocolDiagnosis>,
}

impl Diagnosis {
    /// Of one stage.
    pub fn of_findings(findings: Vec<Finding>) -> Self {
        Diagnosis { findings, ..Diagnosis::default() }
    }
}

/// Prediction and result of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProtocolDiagnosis {
    pub protocol: Protocol,
    pub predicted: Bound,
    pub achieved: Achieved,
    pub verdict: Verdict,
    pub bottleneck: Bottleneck,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareFigure>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceFigure>,
    pub resources: Vec<Resource>,
}

/// What the flow really did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Achieved {
    /// Bytes per second that arrived; 0 if the path was not measured.
    pub bytes_per_second: f64,
    /// Ends of the 95 % interval over the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Achieved ÷ predicted, paired by rounds; 0 where either is unknown.
    pub of_predicted: f64,
    /// Ends of its 95 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_predicted_interval: Option<[f64; 2]>,
}

impl Achieved {
    /// `2.61 ± 0.05 GB/s (20.9 Gb/s) from disk to network.`; none where nothing was measured.
    pub(super) fn sentence_of(&self, flow: RunFlow) -> Option<String> {
        let Achieved { bytes_per_second, interval, .. } = *self;
        FlowRate { bytes_per_second, interval, flow }.sentence()
    }
}

/// One figure of what the path showed from within.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvidenceFigure {
    /// Empty: this host.
    pub host: String,
    /// Id as in `resources`; empty: the flow.
    pub resource: String,
    /// `wait-source`, `wait-sink`, `busy`, `queue-depth`, `latency-seconds`, …
    pub what: String,
    pub value: f64,
}

/// What a flow lost ÷ what was taken of a resource, both as parts of what the flow uses of it: 1 where it limits, 0 where
/// there is room.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShareFigure {
    /// Id as in `resources`; `raise:…`: a setting that was raised, with the part by which the flow changed as its share.
    pub resource: String,
    /// Ids of all that were taken from at once; empty: of that one alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Ends of its 95 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// What was taken, as a part of what the flow uses.
    pub taken: f64,
    /// Why the share is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The resources which, raised, raise the flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Kind of the largest part of the cut.
    pub kind: LimitKind,
    /// Ids, as in `resources`.
    pub resources: Vec<String>,
    /// What was achieved, what limits it with the evidence, what raises it and what limits next.
    pub sentence: String,
    /// The same as its sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sentences: Vec<String>,
    /// Bytes per second that the flow gains where all of the cut is lifted away.
    pub gain: f64,
}

impl Bottleneck {
    /// In these sentences.
    pub fn new(kind: LimitKind, resources: Vec<String>, sentences: Vec<String>, gain: f64) -> Bottleneck {
        Bottleneck { kind, resources, sentence: sentences.join(" "), sentences, gain }
    }
}

/// How bad a finding is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// Data is lost.
    Loss,
    /// The flow is slower than it could be.
    Slow,
    /// Worth knowing.
    Note,
}

/// One thing that is wrong or worth changing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name: `straggler`, `udp-receive-buffer`, `mtu-mismatch`, …
    pub id: String,
    pub severity: Severity,
    /// What is so, in one or two sentences, with the figures.
    pub text: String,
    /// The figures behind it.
    pub evidence: serde_json::Value,
    /// What to do.
    pub remedy: String,
    /// Expected gain, bytes per second; 0 where it cannot be said.
    pub gain: f64,
}

impl Finding {
    /// One without figures, remedy and gain as yet.
    pub(super) fn new(severity: Severity, id: &str, text: impl Into<String>) -> Finding {
        let evidence = serde_json::Value::Null;
        Finding {
            id: id.to_string(),
            severity,
            text: text.into(),
            evidence,
            remedy: String::new(),
            gain: 0.0,
        }
    }

    pub(super) fn loss(id: &str, text: impl Into<String>) -> Finding {
        Finding::new(Severity::Loss, id, text)
    }

    pub(super) fn slow(id: &str, text: impl Into<String>) -> Finding {
        Finding::new(Severity::Slow, id, text)
    }

    pub(super) fn note(id: &str, text: impl Into<String>) -> Finding {
        Finding::new(Severity::Note, id, text)
    }

    /// The figures behind it.
    pub(super) fn evidence(self, evidence: serde_json::Value) -> Finding {
        Finding { evidence, ..self }
    }

    /// What to do.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: remedy.into(), ..self }
    }

    /// Expected gain, bytes per second.
    pub(super) fn gain(self, gain: f64) -> Finding {
        Finding { gain, ..self }
    }
}
