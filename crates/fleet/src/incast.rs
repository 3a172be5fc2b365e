//! Where an incast has its knee: with how many senders one host takes clearly less, loses, or answers late.

use linerate_facts::units::show_bits_rate;
use linerate_measure::run::fleet::{FleetCell, FleetResult, IncastKnees, IncastSink, IncastStep};
use linerate_model::alike::median;

/// What carries less than this of what was predicted is past its knee.
const GOODPUT: f64 = 0.9;
/// Segments sent again, of all: fewer are what any network loses.
const LOSS: f64 = 0.001;
/// A p99 that has grown by so much is a queue that has filled, and not chance.
const LATER_SECONDS: f64 = 0.001;
/// What one sender alone has, times this, is more of it.
const MORE: f64 = 3.0;

/// Every host that was a sink, in the order in which they were.
pub(crate) fn sinks(result: &FleetResult) -> Vec<IncastSink> {
    let mut sinks: Vec<IncastSink> = Vec::new();
    for (number, window) in result.windows.iter().enumerate().filter(|(_, window)| !window.alone) {
        let cells: Vec<&FleetCell> = result.cells.iter().filter(|cell| cell.window == number).collect();
        let Some(to) = cells.first().map(|cell| cell.to.clone()) else { continue };
        // What failed is not the goodput of fewer senders.
        if cells.iter().any(|cell| cell.figures.bytes_per_second.is_none()) {
            continue;
        }
        let step = IncastStep {
            senders: window.flows,
            bytes_per_second: window.bytes_per_second,
            of_predicted: window
                .predicted_bytes_per_second
                .map(|predicted| window.bytes_per_second / predicted),
            single_flows: window.single_flows,
            retransmitted_share: retransmitted_share(&cells),
            p99_seconds: cells.iter().filter_map(|cell| cell.figures.p99_seconds).reduce(f64::max),
        };
        match sinks.iter_mut().find(|sink| sink.to == to) {
            Some(sink) => sink.steps.push(step),
            None => sinks.push(IncastSink { to, steps: vec![step], knees: IncastKnees::default() }),
        }
    }
    sinks.iter_mut().for_each(|sink| sink.steps.sort_by_key(|step| step.senders));
    let alone = |of: fn(&IncastStep) -> Option<f64>| {
        let ones = sinks.iter().flat_map(|sink| &sink.steps).filter(|step| step.senders == 1);
        median(ones.filter_map(of))
    };
    let one = OneSender {
        loss: alone(|step| step.retransmitted_share).unwrap_or(0.0),
        p99_seconds: alone(|step| step.p99_seconds),
    };
    for sink in &mut sinks {
        sink.knees = knees(&sink.steps, &one);
    }
    sinks
}

/// Over all flows, each by what it carried.
fn retransmitted_share(cells: &[&FleetCell]) -> Option<f64> {
    let of = |cell: &&FleetCell| {
        let rate = cell.figures.bytes_per_second?;
        Some((cell.figures.retransmitted_share? * rate, rate))
    };
    let (again, all) =
        cells.iter().filter_map(of).fold((0.0, 0.0), |(again, all), (more, rate)| (again + more, all + rate));
    (all > 0.0).then(|| again / all)
}

/// What all sinks have of one sender, in the median: one of them alone may have had luck.
struct OneSender {
    loss: f64,
    p99_seconds: Option<f64>,
}

fn knees(steps: &[IncastStep], one: &OneSender) -> IncastKnees {
    let first = |worse: &dyn Fn(&IncastStep) -> bool| {
        steps.iter().filter(|step| step.senders > 1).find(|step| worse(step)).map(|step| step.senders)
    };
    IncastKnees {
        goodput: first(&|step| step.of_predicted.is_some_and(|ratio| ratio < GOODPUT)),
        loss: first(&|step| step.retransmitted_share.is_some_and(|share| share > LOSS.max(MORE * one.loss))),
        p99: first(&|step| {
            let grown =
                |one: f64| step.p99_seconds.is_some_and(|p99| p99 > (MORE * one).max(one + LATER_SECONDS));
            one.p99_seconds.is_some_and(grown)
        }),
    }
}

/// What the sinks show together: the one with the earliest knee of each kind.
pub(crate) fn incast_sentence(sinks: &[IncastSink]) -> Option<String> {
    let steps = || sinks.iter().flat_map(|sink| &sink.steps).filter(|step| step.senders > 1);
    let most = steps().map(|step| step.senders).max()?;
    let least = steps().filter_map(|step| step.of_predicted).reduce(f64::min)?;
    let earliest = |knee: fn(&IncastKnees) -> Option<usize>, worse: fn(&IncastStep) -> f64| {
        let at = |sink: &'_ IncastSink| -> Option<(usize, String, IncastStep, IncastStep)> {
            let senders = knee(&sink.knees)?;
            let step = sink.steps.iter().find(|step| step.senders == senders)?;
            Some((senders, sink.to.clone(), step.clone(), sink.steps.first()?.clone()))
        };
        let all = sinks.iter().filter_map(at);
        all.min_by(|one, other| one.0.cmp(&other.0).then(worse(&other.2).total_cmp(&worse(&one.2))))
    };
    let mut parts = Vec::new();
    match earliest(|knees| knees.goodput, |step| -step.of_predicted.unwrap_or(1.0)) {
        Some((senders, to, step, _)) => parts.push(format!(
            "from {senders} senders on {to} takes {:.2} of what follows from each member alone, {}",
            step.of_predicted.unwrap_or_default(),
            show_bits_rate(step.bytes_per_second)
        )),
        None => parts.push(format!(
            "up to {most} senders every host takes {least:.2} or more of what follows from each member alone"
        )),
    }
    if let Some((senders, to, step, _)) =
        earliest(|knees| knees.loss, |step| step.retransmitted_share.unwrap_or(0.0))
    {
        let share = step.retransmitted_share.unwrap_or_default() * 100.0;
        parts.push(format!("with {senders} senders {share:.1} % of the segments to {to} are retransmitted"));
    }
    if let Some((senders, to, step, one)) =
        earliest(|knees| knees.p99, |step| step.p99_seconds.unwrap_or(0.0))
    {
        let shown = |step: &IncastStep| format!("{:.1} ms", step.p99_seconds.unwrap_or_default() * 1e3);
        parts.push(format!(
            "with {senders} senders the p99 of a request to {to} is {}, with one {}",
            shown(&step),
            shown(&one)
        ));
    }
    Some(parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::cell;
    use linerate_measure::run::fleet::{FleetWindow, FlowFigures};

    /// One sink; each step is senders, what each of them gets, the share that is sent again, p99.
    fn result(steps: &[(usize, f64, f64, f64)]) -> FleetResult {
        let mut result = FleetResult::default();
        for (number, (senders, rate, share, p99)) in steps.iter().enumerate() {
            result.windows.push(FleetWindow {
                flows: *senders,
                bytes_per_second: rate * *senders as f64,
                predicted_bytes_per_second: Some(100.0),
                ..FleetWindow::default()
            });
            for sender in 0..*senders {
                let mut cell = cell(number, &format!("h{}", sender + 2), "h1", Some(*rate));
                (cell.figures.retransmitted_share, cell.figures.p99_seconds) = (Some(*share), Some(*p99));
                result.cells.push(cell);
            }
        }
        result
    }

    #[test]
    fn each_knee_is_where_it_gets_worse() {
        let steps =
            [(1, 100.0, 0.0, 0.001), (2, 49.0, 0.0002, 0.0015), (4, 24.0, 0.02, 0.002), (7, 9.0, 0.04, 0.2)];
        let sinks = sinks(&result(&steps));
        assert_eq!(sinks.len(), 1);
        let IncastKnees { goodput, loss, p99 } = sinks[0].knees;
        assert_eq!((goodput, loss, p99), (Some(7), Some(4), Some(7)));
        let sentence = incast_sentence(&sinks).expect("a sentence");
        for part in [
            "from 7 senders on h1 takes 0.63 of what follows",
            "with 4 senders 2.0 % of the segments to h1 are retransmitted",
            "with 7 senders the p99 of a request to h1 is 200.0 ms, with one 1.0 ms",
        ] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    #[test]
    fn a_network_that_takes_all_has_no_knee() {
        // One sender loses as much, and waits as long.
        let sinks = sinks(&result(&[(1, 100.0, 0.01, 0.02), (2, 50.0, 0.02, 0.03), (3, 33.0, 0.025, 0.04)]));
        assert_eq!(sinks[0].knees, IncastKnees::default());
        let sentence = incast_sentence(&sinks).expect("a sentence");
        assert_eq!(
            sentence,
            "up to 3 senders every host takes 0.99 or more of what follows from each member alone"
        );
    }

    #[test]
    fn what_failed_is_no_step() {
        let mut result = result(&[(1, 100.0, 0.0, 0.001), (2, 50.0, 0.0, 0.001)]);
        result.cells[2].figures = FlowFigures { failure: Some("gone".into()), ..FlowFigures::default() };
        let sinks = sinks(&result);
        assert_eq!(sinks[0].steps.len(), 1);
        assert_eq!(incast_sentence(&sinks), None);
    }
}
