//! What an experiment says of a program: its verdict in place of what was only observed, and the run that is kept of it.

use crate::product::Explanation;
use crate::sentences::remedy;
use linerate_machine::probe::Machine;
use linerate_measure::diagnose::{Bottleneck, Diagnosis, ShareFigure, SharesVerdict};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::Goal;
use linerate_model::shares::{ShareRecord, SlotRecord};
use linerate_model::verdict::{LimitKind, Verdict};

impl Explanation {
    /// Nothing was taken, or what was taken says nothing: what was observed stands, with the reason.
    pub fn not_measured(&mut self, why: impl std::fmt::Display) {
        self.bottleneck = with_sentence(&self.bottleneck, format!("Not measured: {why}."));
    }

    /// Takes the verdict of the shares where they decide; a part that has room by its share is not named, either.
    /// `untaken`: what could not be taken from.
    pub fn measured(&mut self, record: &ShareRecord, untaken: &[ShareFigure]) {
        let found = SharesVerdict::of(record, &[]);
        let moved = self.bottleneck.sentences.first().cloned();
        // Takers are not in its place there: that its CPUs have room says nothing of these.
        let is_beyond = matches!(self.bottleneck.kind, LimitKind::Quota | LimitKind::Steal);
        self.bottleneck = match &found.limit {
            Some(limit) => {
                self.verdict = "measured";
                self.rule = None;
                let sentences = moved.into_iter().chain([found.sentence.clone()]);
                let sentences = sentences.chain(remedy(&self.findings, limit.kind)).collect();
                Bottleneck::new(limit.kind, limit.ids.clone(), sentences, 0.0)
            }
            None if is_beyond => with_sentence(&self.bottleneck, found.sentence.clone()),
            None => found.beside((Verdict::Unexplained, self.bottleneck.clone()), moved).1,
        };
        if self.bottleneck.kind == LimitKind::Unknown {
            self.verdict = "unknown";
            self.rule = None;
        }
        self.shares = found.shares.into_iter().chain(untaken.iter().cloned()).collect();
    }

    /// The run that is kept of an experiment.
    pub fn run(&self, machine: Machine, record: ShareRecord) -> Run {
        let name = self.program.name.clone();
        let bytes = |slot: &SlotRecord| slot.counted.flow.iter().sum::<u64>();
        let nanos: u64 = record.slots.iter().map(|slot| slot.counted.nanos).sum();
        let seconds = nanos as f64 * 1e-9;
        let rate = record.slots.iter().map(bytes).sum::<u64>() as f64 / seconds.max(1e-9);
        let measurement = Measurement {
            stage: Stage::Explain,
            name: name.clone(),
            resource: "all".into(),
            bytes_per_second: rate,
            samples: vec![rate],
            seconds,
            experiment: Some(Box::new(record)),
            ..Measurement::default()
        };
        let verdict = if self.verdict == "measured" { Verdict::Confirmed } else { Verdict::Unexplained };
        let diagnosis = Diagnosis {
            verdict: Some(verdict),
            bottleneck: Some(self.bottleneck.clone()),
            shares: self.shares.clone(),
            findings: self.findings.clone(),
            ..Diagnosis::default()
        };
        Run {
            measurements: vec![measurement],
            diagnosis: Some(diagnosis),
            ..Run::begin_stage(Stage::Explain, name, machine, Goal::default())
        }
    }
}

fn with_sentence(bottleneck: &Bottleneck, sentence: String) -> Bottleneck {
    let sentences = bottleneck.sentences.iter().cloned().chain([sentence]).collect();
    Bottleneck::new(bottleneck.kind, bottleneck.resources.clone(), sentences, bottleneck.gain)
}
