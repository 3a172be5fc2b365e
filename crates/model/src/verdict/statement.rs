//! The verdict in sentences, in this order: what was achieved; what limits it, by which evidence; what raises it,
//! and what limits next.

use super::certainty::{Distrust, Doubt, Verdict};
use super::limit::{Judgement, LimitKind};
use crate::plan::RunFlow;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_bytes_rate_within};

/// What there is to be said of a flow from disk to network.
#[derive(Clone, Debug)]
pub struct Statement<'a> {
    pub kind: LimitKind,
    pub limit: NamedLimit,
    /// What the limit allows, bytes per second.
    pub predicted: f64,
    pub achieved: FlowRate,
    /// Achieved ÷ predicted.
    pub of_predicted: f64,
    pub verdict: Verdict,
    pub doubt: Option<Doubt>,
    /// What the flow showed from within.
    pub flow: &'a Judgement,
    /// The limit that cannot be distinguished from this one, in words.
    pub tied: String,
    /// `A faster disk would raise this to 4.80 GB/s, where the CPU limits`.
    pub headroom: String,
    /// What limits does less than others of its kind: which, and what to look at. Then nothing more is to be bought.
    pub unlike: Option<String>,
    /// Rounds that a figure needs.
    pub least_rounds: u32,
    /// Rounds failed, or were interrupted.
    pub cut_short: bool,
}

/// What limits, in words.
#[derive(Clone, Debug, Default)]
pub struct NamedLimit {
    /// `disk vda`, `the four disks`.
    pub name: String,
    /// `2.64 ± 0.06 GB/s`; empty where there is none.
    pub figure: String,
    /// What limits beside it: `, together with …`; mostly empty.
    pub beside: String,
    /// It is more than one thing.
    pub several: bool,
}

/// A rate with the ends of its 95 % interval, bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowRate {
    /// 0: not measured.
    pub bytes_per_second: f64,
    pub interval: Option<[f64; 2]>,
    /// From where to where.
    pub flow: RunFlow,
}

impl FlowRate {
    /// `2.61 ± 0.05 GB/s (20.9 Gb/s) from disk to network.`; none where nothing was measured.
    pub fn sentence(&self) -> Option<String> {
        let FlowRate { bytes_per_second, interval, flow } = *self;
        let bytes = show_bytes_rate_within(bytes_per_second, interval);
        let measured = bytes_per_second.is_finite() && bytes_per_second > 0.0;
        measured.then(|| format!("{bytes} ({}) from {}.", show_bits_rate(bytes_per_second), flow.ends()))
    }
}

impl NamedLimit {
    pub fn new(name: impl Into<String>, figure: impl Into<String>) -> NamedLimit {
        NamedLimit { name: name.into(), figure: figure.into(), ..NamedLimit::default() }
    }

    /// `disk vda (2.64 ± 0.06 GB/s; the worker spent 71 % of the time waiting for it)`.
    fn text(&self, evidence: Option<String>) -> String {
        let figure = Some(&self.figure).filter(|figure| !figure.is_empty()).cloned();
        let inside: Vec<String> = figure.into_iter().chain(evidence).collect();
        let inside = if inside.is_empty() { String::new() } else { format!(" ({})", inside.join("; ")) };
        format!("{}{inside}{}", self.name, self.beside)
    }

    fn verb(&self) -> &'static str {
        if self.several || !self.beside.is_empty() { "limit" } else { "limits" }
    }
}

/// What a flow did, and what other programs took of what it needs: what limits it without them is not known, and
/// nothing is to be bought for it.
pub fn beside_others(achieved: &FlowRate, others: &str) -> Vec<String> {
    let unknown = format!("{NOT_KNOWN_BESIDE_OTHERS}.");
    achieved.sentence().into_iter().chain([others.to_string(), unknown]).collect()
}

const NOT_KNOWN_BESIDE_OTHERS: &str = "What limits it without them is not known: measure again when they are quiet, or \
                                       over five minutes (--budget 5m)";

impl Statement<'_> {
    /// What was achieved, where it was measured; what limits; what raises it, where that is known.
    pub fn sentences(&self) -> Vec<String> {
        let headroom = match self.verdict {
            _ if self.unlike.is_some() => self.unlike.clone(),
            Verdict::Tie | Verdict::Contradicted => None,
            Verdict::Confirmed if self.kind == LimitKind::Demand => {
                Some("What it can do beyond that was not measured.".into())
            }
            _ => Some(&self.headroom).filter(|text| !text.is_empty()).map(|text| format!("{text}.")),
        };
        self.achieved.sentence().into_iter().chain([self.bottleneck()]).chain(headroom).collect()
    }

    fn evidence(&self) -> Option<String> {
        self.flow.limit().map(|limit| limit.clause(self.limit.several))
    }

    /// What waits and stages show is inferred, however well they agree: a flat statement is that of an experiment.
    fn bottleneck(&self) -> String {
        let name = self.limit.text(None);
        let rate = show_bytes_rate(self.predicted);
        match self.verdict {
            Verdict::Confirmed if self.kind == LimitKind::Demand => format!(
                "The flow asked for no more than {rate} (--rate-limit) and had it: nothing of this server limited \
                 it."
            ),
            Verdict::Confirmed => format!("Probably the bottleneck is {}.", self.limit.text(self.evidence())),
            Verdict::Tie => format!(
                "Probably the bottleneck is {} or {}: the measurements cannot tell them apart.",
                self.limit.text(self.evidence()),
                self.tied
            ),
            Verdict::Contradicted => {
                let shown = self.flow.limit().map(|limit| format!(": {limit}")).unwrap_or_default();
                let verb = self.limit.verb();
                format!(
                    "Not explained: by its parts {name} {verb} the flow to {rate}, but the path showed \
                     another limit{shown}."
                )
            }
            Verdict::Unexplained => format!("{}.", self.unexplained(&name, &rate)),
        }
    }

    fn unexplained(&self, name: &str, rate: &str) -> String {
        let verb = self.limit.verb();
        let claim = format!("the bottleneck is {name}, which {verb} the flow to {rate}");
        let share = (self.of_predicted * 100.0).round();
        match self.doubt {
            Some(Doubt::NotMeasured) | None => {
                format!("The path was not measured: no verdict; by its parts {claim}")
            }
            Some(Doubt::FewRounds { measured }) => format!(
                "Not confirmed: {claim}. {} measured, {} are needed ({})",
                match measured {
                    1 => "1 round was".into(),
                    more => format!("{more} rounds were"),
                },
                self.least_rounds,
                match self.cut_short {
                    true => "others failed or were interrupted: the errors say why",
                    false => "a longer --budget",
                }
            ),
            Some(Doubt::Others) => NOT_KNOWN_BESIDE_OTHERS.into(),
            Some(Doubt::Untrusted(why)) => format!("Not confirmed: {claim}, but {}", why.words()),
            Some(Doubt::NothingSeen) => {
                let missing = self.flow.missing.as_ref().map(|missing| format!(": {missing}"));
                format!(
                    "Not confirmed: by the stages {claim}; the path did {share} % of it{}",
                    missing.unwrap_or_default()
                )
            }
            Some(Doubt::Unsteady { low, high }) => format!(
                "Not confirmed: the bottleneck is likely {}; in the same rounds the path did {low} to {high} % of what \
                 it allows: the machine is too unsteady for more in this time (--budget 5m takes longer)",
                self.limit.text(self.evidence())
            ),
            Some(Doubt::Ratio) => {
                let evidence = self.evidence().map(|evidence| format!(" ({evidence})"));
                format!(
                    "Not explained: {claim}, and the path agrees{}, but it did {share} % of that",
                    evidence.unwrap_or_default()
                )
            }
        }
    }
}

impl Distrust {
    /// What is not known of the part.
    pub fn words(self) -> &'static str {
        match self {
            Distrust::Cache => "a cache answered some of its reads, and the device is another",
            Distrust::Uncounted => {
                "nothing counts what the device read itself (/proc/diskstats has no such device): a cache may \
                 have answered"
            }
            Distrust::FasterAgain => {
                "what was read again came faster than at first: a cache below the device answered"
            }
            Distrust::NoFirstReading => {
                "all of it had been read before: a cache below the device cannot be ruled out"
            }
            Distrust::HiddenProcesses => {
                "CPUs were busy with work of processes that cannot be seen from here: it may not be the flow's"
            }
            Distrust::OwnPace => "its streams sent nearly what linerate's own pace lets them",
            Distrust::MaybeFull => "the link's rate is not known, and a full link loses packets, too",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Limit;

    fn judgement() -> Judgement {
        let limits = vec![Limit::Source { count: 1, share: 0.71, disk: None }];
        Judgement { limits, missing: None }
    }

    fn statement(flow: &Judgement) -> Statement<'_> {
        Statement {
            kind: LimitKind::Disk,
            limit: NamedLimit::new("disk vda", "2.64 ± 0.06 GB/s"),
            predicted: 2.64e9,
            achieved: FlowRate {
                bytes_per_second: 2.61e9,
                interval: Some([2.56e9, 2.65e9]),
                ..FlowRate::default()
            },
            of_predicted: 0.99,
            verdict: Verdict::Confirmed,
            doubt: None,
            flow,
            tied: String::new(),
            headroom: "A faster disk would raise this to 4.80 GB/s, where the CPU limits".into(),
            unlike: None,
            least_rounds: 6,
            cut_short: false,
        }
    }

    #[test]
    fn a_confirmed_verdict_says_what_was_achieved_what_limits_and_what_is_next() {
        assert_eq!(
            statement(&judgement()).sentences(),
            [
                "2.61 ± 0.05 GB/s (20.9 Gb/s) from disk to network.",
                "Probably the bottleneck is disk vda (2.64 ± 0.06 GB/s; the worker spent 71 % of the time waiting for \
                 it).",
                "A faster disk would raise this to 4.80 GB/s, where the CPU limits.",
            ]
        );
    }

    #[test]
    fn only_a_confirmed_verdict_is_a_flat_statement() {
        let flow = judgement();
        let text_of = |verdict, doubt| {
            let statement = Statement { verdict, doubt, tied: "the CPU".into(), ..statement(&flow) };
            statement.sentences()[1..].join(" ")
        };
        assert_eq!(
            text_of(Verdict::Tie, None),
            "Probably the bottleneck is disk vda (2.64 ± 0.06 GB/s; the worker spent 71 % of the time waiting for it) or \
             the CPU: the measurements cannot tell them apart."
        );
        assert_eq!(
            text_of(Verdict::Contradicted, None),
            "Not explained: by its parts disk vda (2.64 ± 0.06 GB/s) limits the flow to 2.64 GB/s, but the path \
             showed another limit: the disks: the worker waits for them 71 % of the time."
        );
        let doubts = [
            (
                Doubt::NotMeasured,
                "The path was not measured: no verdict; by its parts the bottleneck is disk vda",
            ),
            (Doubt::FewRounds { measured: 2 }, "2 rounds were measured, 6 are needed (a longer --budget)."),
            (Doubt::Untrusted(Distrust::Cache), "but a cache answered some of its reads"),
            (Doubt::Untrusted(Distrust::Uncounted), "nothing counts what the device read itself"),
            (Doubt::Untrusted(Distrust::FasterAgain), "what was read again came faster than at first"),
            (Doubt::NothingSeen, "the path did 99 % of it"),
            (
                Doubt::Unsteady { low: 69, high: 105 },
                "likely disk vda (2.64 ± 0.06 GB/s; the worker spent 71 % of the time waiting for it); in the same \
                 rounds the path did 69 to 105 % of what it allows",
            ),
            (
                Doubt::Ratio,
                "and the path agrees (the worker spent 71 % of the time waiting for it), but it did 99 %",
            ),
        ];
        for (doubt, expected) in doubts {
            let text = text_of(Verdict::Unexplained, Some(doubt));
            assert!(text.contains(expected) && !text.starts_with("Probably"), "{text}");
        }
    }

    #[test]
    fn where_one_does_less_than_its_like_nothing_is_to_be_bought() {
        let flow = judgement();
        for verdict in [Verdict::Confirmed, Verdict::Tie, Verdict::Unexplained, Verdict::Contradicted] {
            let unlike = Some("a1 carries a tenth of a0. Look at its link.".to_string());
            let text_of = Statement { verdict, unlike, ..statement(&flow) }.sentences().join(" ");
            assert!(text_of.ends_with("a1 carries a tenth of a0. Look at its link."), "{text_of}");
            assert!(!text_of.contains("raise"), "{text_of}");
        }
    }

    #[test]
    fn what_others_took_is_said_after_the_rate_and_nothing_is_to_be_bought_for_it() {
        let flow = judgement();
        let others =
            "Other programs used 77 % of CPU 0, most of it rustc (pid 1673): 2.61 GB/s is what was left.";
        assert_eq!(
            beside_others(&statement(&flow).achieved, others),
            [
                "2.61 ± 0.05 GB/s (20.9 Gb/s) from disk to network.",
                others,
                "What limits it without them is not known: measure again when they are quiet, or over five \
                 minutes (--budget 5m).",
            ]
        );
    }

    #[test]
    fn a_flow_that_had_what_it_asked_for_has_no_bottleneck() {
        let flow = judgement();
        let demand = Statement { kind: LimitKind::Demand, predicted: 2.6e9, ..statement(&flow) };
        assert_eq!(
            demand.sentences()[1..].join(" "),
            "The flow asked for no more than 2.60 GB/s (--rate-limit) and had it: nothing of this server limited it. \
             What it can do beyond that was not measured."
        );
    }

    #[test]
    fn evidence_goes_where_the_figure_is_and_what_was_not_measured_is_not_said() {
        let flow = judgement();
        let limit =
            NamedLimit { beside: ", together with what b and c share".into(), ..statement(&flow).limit };
        let two = Statement { limit, ..statement(&flow) };
        assert!(two.sentences()[1].ends_with("waiting for it), together with what b and c share."));
        let limit = NamedLimit { name: "the two disks".into(), several: true, ..NamedLimit::default() };
        let nothing = Statement { limit, achieved: FlowRate::default(), ..statement(&flow) };
        let first =
            "Probably the bottleneck is the two disks (the worker spent 71 % of the time waiting for them).";
        assert_eq!(nothing.sentences()[0], first);
    }
}
