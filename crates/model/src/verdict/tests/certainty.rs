//! How sure a limit is: what the parts predict against what the flow showed.

use super::*;

pub(super) fn claim(kind: LimitKind) -> Claim<'static> {
    Claim {
        of_sink: false,
        kind,
        tied: &[],
        rounds: 6,
        least_rounds: 6,
        distrust: None,
        of_predicted: Some(0.99),
        of_predicted_interval: None,
        others: false,
        burst: 1.0,
    }
}

#[test]
fn only_what_the_path_shows_is_confirmed() {
    let of = |claim: &Claim, evidence: &Evidence| verdict(claim, &judge(evidence));
    let (source, sink, calm) = (path(0.9, 0.05), path(0.05, 0.9), path(0.3, 0.3));
    let disk = claim(LimitKind::Disk);
    assert_eq!(of(&disk, &source), (Verdict::Confirmed, None));
    assert_eq!(of(&disk, &sink), (Verdict::Contradicted, None));
    assert_eq!(of(&disk, &calm), (Verdict::Unexplained, Some(Doubt::NothingSeen)));
    assert_eq!(of(&claim(LimitKind::Nic), &sink), (Verdict::Confirmed, None));
    assert_eq!(of(&claim(LimitKind::Nic), &source), (Verdict::Contradicted, None));
    let tie = |tied| Claim { tied, ..disk };
    assert_eq!(of(&tie(&[LimitKind::Nic]), &source), (Verdict::Tie, None));
    assert_eq!(of(&Claim { kind: LimitKind::Nic, ..tie(&[LimitKind::Disk]) }, &source), (Verdict::Tie, None));
    let neither = Claim { kind: LimitKind::Nic, ..tie(&[LimitKind::Window]) };
    assert_eq!(of(&neither, &source), (Verdict::Contradicted, None), "the path showed a third");
    // The ratio takes certainty away, and gives none.
    for ratio in [0.94, 1.06] {
        let off = Claim { of_predicted: Some(ratio), ..disk };
        assert_eq!(of(&off, &source), (Verdict::Unexplained, Some(Doubt::Ratio)));
        assert_eq!(of(&off, &sink), (Verdict::Contradicted, None));
    }
    // Rounds that are far apart from each other say neither that it agrees nor that it does not.
    for (ratio, rounds, expected) in [
        (0.88, [0.69, 1.05], Doubt::Unsteady { low: 69, high: 105 }),
        (1.2, [1.04, 1.5], Doubt::Unsteady { low: 104, high: 150 }),
        (0.88, [0.8, 0.94], Doubt::Ratio),
        (1.2, [1.1, 1.5], Doubt::Ratio),
    ] {
        let wide = Claim { of_predicted: Some(ratio), of_predicted_interval: Some(rounds), ..disk };
        assert_eq!(of(&wide, &source), (Verdict::Unexplained, Some(expected)));
        assert_eq!(of(&Claim { of_predicted: Some(0.98), ..wide }, &source), (Verdict::Confirmed, None));
    }
    // Between what lasts and what a full bucket gives.
    let bucket = Claim { of_predicted: Some(1.34), burst: 4.0, ..disk };
    assert_eq!(of(&bucket, &source), (Verdict::Confirmed, None));
    assert_eq!(of(&Claim { of_predicted: Some(0.9), ..bucket }, &source).1, Some(Doubt::Ratio));
    assert_eq!(of(&Claim { of_predicted: Some(4.5), ..bucket }, &source).1, Some(Doubt::Ratio));
    // What a byte costs a CPU is not known better.
    let quota = Evidence { quota: Some(QuotaEvidence { throttled: 0.5, used: None }), ..path(0.05, 0.9) };
    let far = Claim { of_predicted: Some(1.2), ..claim(LimitKind::Quota) };
    assert_eq!(of(&far, &quota), (Verdict::Confirmed, None));
    let farther = Claim { of_predicted: Some(0.7), ..far };
    assert_eq!(of(&farther, &quota), (Verdict::Unexplained, Some(Doubt::Ratio)));
    let exact = Claim { of_predicted: Some(1.0), ..disk };
    assert_eq!(of(&exact, &calm), (Verdict::Unexplained, Some(Doubt::NothingSeen)));
    // What others took makes the answer unknown, except of a flow that has what it asked for.
    let beside_others = Claim { others: true, ..disk };
    for evidence in [&source, &sink, &calm] {
        assert_eq!(of(&beside_others, evidence), (Verdict::Unexplained, Some(Doubt::Others)));
    }
    let limited = Evidence { rate_limit: Some(1e8), bytes_per_second: Some(1e8), ..path(0.3, 0.3) };
    let demand = Claim { others: true, ..claim(LimitKind::Demand) };
    assert_eq!(of(&demand, &limited), (Verdict::Confirmed, None));
    // Too little was measured, or a cache.
    let few = Claim { rounds: 5, ..disk };
    assert_eq!(of(&few, &source), (Verdict::Unexplained, Some(Doubt::FewRounds { measured: 5 })));
    assert_eq!(
        of(&Claim { distrust: Some(Distrust::Cache), ..disk }, &source),
        (Verdict::Unexplained, Some(Doubt::Untrusted(Distrust::Cache)))
    );
    let no_path = Claim { of_predicted: None, ..disk };
    assert_eq!(of(&no_path, &source), (Verdict::Unexplained, Some(Doubt::NotMeasured)));
}
