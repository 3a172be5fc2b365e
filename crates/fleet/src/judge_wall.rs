//! Whether the screens of a wall have what their tiles take, who does not, and how much more would pass.

use crate::evidence::evidence;
use crate::fabric::FabricLinks;
use crate::judge_disks::{slow_sources, slow_words};
use crate::predict::{headroom, limit_of_each};
use crate::product::{
    FleetCell, FleetDirection, FleetLimit, FleetResult, FleetVerdict, FlowLimitKind, SlowMember,
};
use crate::schedule::WindowPlan;
use crate::sentence::{limit_words, listed};
use crate::wall::{FleetWall, FleetWallFlow, ShortFlow, WallVerdict};
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording::counted;
use linerate_model::alike::median;

/// A flow that has less of what it takes leaves out frames.
const WHOLE: f64 = 0.95;
/// More or less than the wall takes by this is as much as it takes.
const KNOWN: f64 = 0.05;
/// How often as much would pass is of no use beyond this.
const MANY: f64 = 10.0;

/// Judges the windows at the rate of the wall.
pub(crate) fn judge_wall(result: &FleetResult) -> FleetVerdict {
    let disks = slow_sources(result);
    let measured: Vec<MeasuredFlow<'_>> = result
        .wall
        .iter()
        .flat_map(|wall| &wall.flows)
        .filter_map(|flow| MeasuredFlow::of(result, flow))
        .collect();
    let Some(wall) = result.wall.as_ref().filter(|_| !measured.is_empty()) else {
        return FleetVerdict {
            sentence: "nothing was measured".into(),
            members: disks,
            ..FleetVerdict::default()
        };
    };
    let (plan, fabric) = (plan_of(result, wall), FabricLinks::new(&result.fabric, &result.members));
    let more = headroom(&plan, result, &fabric);
    let limits = limit_of_each(&plan, result, &fabric).unwrap_or_default();
    let limit = |flow: &FleetWallFlow| {
        let at = wall.flows.iter().position(|one| one == flow)?;
        limits.get(at)
    };
    let short: Vec<&MeasuredFlow<'_>> = measured.iter().filter(|flow| flow.ratio() < WHOLE).collect();
    let mut parts = vec![together(wall, &measured)];
    let mut members = blamed(&measured, &short, limit);
    for member in &mut members {
        member.evidence = evidence(result, member);
    }
    if short.is_empty() {
        parts.push("every screen has what its tiles take".into());
    }
    parts.extend(members.first().map(|worst| blame_words(worst, &short)));
    let uplinks =
        short.iter().filter_map(|flow| limit(flow.flow)).filter(|limit| limit.kind == FlowLimitKind::Uplink);
    parts.extend(uplinks.clone().next().map(|limit| {
        let tiles: Vec<String> = short.iter().flat_map(|flow| flow.flow.tiles.iter().cloned()).collect();
        let words = limit_words(std::slice::from_ref(limit)).unwrap_or_default();
        format!("{words} is too narrow for {}", listed(&tiles))
    }));
    parts.extend(disks.first().map(slow_words));
    let mut others: Vec<String> =
        members.iter().skip(1).chain(disks.iter().skip(1)).map(|slow| slow.name.clone()).collect();
    others.dedup();
    if !others.is_empty() {
        parts.push(format!("too slow as well: {}", listed(&others)));
    }
    parts.extend(more.as_ref().and_then(|(times, limit)| headroom_words(*times, limit)));
    members.extend(disks);
    let verdict = WallVerdict {
        wanted_bytes_per_second: measured.iter().map(|flow| flow.flow.wanted_bytes_per_second).sum(),
        bytes_per_second: measured.iter().map(|flow| flow.bytes_per_second).sum(),
        headroom: more.map(|(times, _)| times),
        short: short.iter().map(|flow| flow.product()).collect(),
    };
    FleetVerdict { sentence: parts.join("; "), members, wall: Some(verdict), ..FleetVerdict::default() }
}

/// A flow of the wall, by the median of its windows.
struct MeasuredFlow<'a> {
    flow: &'a FleetWallFlow,
    bytes_per_second: f64,
    predicted: Option<f64>,
}

impl MeasuredFlow<'_> {
    fn of<'a>(result: &FleetResult, flow: &'a FleetWallFlow) -> Option<MeasuredFlow<'a>> {
        let cells = || result.measured_cells().filter(|cell| cell.from == flow.from && cell.to == flow.to);
        let predicted = |cell: &FleetCell| cell.predicted_bytes_per_second;
        Some(MeasuredFlow {
            flow,
            bytes_per_second: result.rate(&flow.from, &flow.to)?,
            predicted: median(cells().filter_map(predicted)),
        })
    }

    /// Of what its tiles take.
    fn ratio(&self) -> f64 {
        self.bytes_per_second / self.flow.wanted_bytes_per_second
    }

    /// It was predicted that it would have less.
    fn is_expected(&self) -> bool {
        self.predicted.is_some_and(|rate| rate < WHOLE * self.flow.wanted_bytes_per_second)
    }

    fn product(&self) -> ShortFlow {
        ShortFlow {
            from: self.flow.from.clone(),
            to: self.flow.to.clone(),
            tiles: self.flow.tiles.clone(),
            ratio: self.ratio(),
            predicted_ratio: self.predicted.map(|rate| rate / self.flow.wanted_bytes_per_second),
        }
    }
}

fn plan_of(result: &FleetResult, wall: &FleetWall) -> WindowPlan {
    let number = |name: &String| result.members.iter().position(|member| member.name == *name);
    let flows = wall
        .flows
        .iter()
        .filter_map(|flow| Some(((number(&flow.from)?, number(&flow.to)?), flow.wanted_bytes_per_second)));
    let (flows, wanted) = flows.unzip();
    WindowPlan { wanted, disks: !result.disks.is_empty(), ..WindowPlan::measured(flows) }
}

/// Tiles, hosts, and what arrived of what they take.
fn together(wall: &FleetWall, measured: &[MeasuredFlow<'_>]) -> String {
    let hosts = |of: fn(&FleetWallFlow) -> &String| {
        let mut hosts: Vec<&String> = measured.iter().map(|flow| of(flow.flow)).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len()
    };
    let tiles: usize = measured.iter().map(|flow| flow.flow.tiles.len()).sum();
    format!(
        "{} from {} to {}: {} of {}",
        counted(tiles, "tile"),
        counted(hosts(|flow| &flow.from), "server"),
        counted(hosts(|flow| &flow.to), "host"),
        show_bits_rate(measured.iter().map(|flow| flow.bytes_per_second).sum()),
        wall.rate_words()
    )
}

/// The members behind flows that are too slow: where the prediction limits them, else the server where all that it
/// sends is too slow, else the screens.
fn blamed<'a>(
    measured: &[MeasuredFlow<'_>],
    short: &[&MeasuredFlow<'_>],
    limit: impl Fn(&FleetWallFlow) -> Option<&'a FleetLimit>,
) -> Vec<SlowMember> {
    let all_short = |server: &String| {
        let own = || measured.iter().filter(|flow| flow.flow.from == *server);
        own().count() > 1 && own().all(|flow| flow.ratio() < WHOLE)
    };
    let mut members: Vec<SlowMember> = Vec::new();
    for flow in short {
        let kind = limit(flow.flow).map(|limit| limit.kind).filter(|_| flow.is_expected());
        let direction = match kind {
            Some(FlowLimitKind::Send) => FleetDirection::Send,
            Some(FlowLimitKind::Disks) => FleetDirection::Send,
            Some(FlowLimitKind::Receive) => FleetDirection::Receive,
            Some(FlowLimitKind::Uplink | FlowLimitKind::RateLimit) => continue,
            Some(FlowLimitKind::Wanted) | None if all_short(&flow.flow.from) => FleetDirection::Send,
            Some(FlowLimitKind::Wanted) | None => FleetDirection::Receive,
        };
        let end = |flow: &FleetWallFlow| match direction {
            FleetDirection::Send => flow.from.clone(),
            _ => flow.to.clone(),
        };
        let name = end(flow.flow);
        if members.iter().any(|member| member.name == name && member.direction == direction) {
            continue;
        }
        let own = || measured.iter().filter(|one| end(one.flow) == name);
        let late: Vec<&MeasuredFlow<'_>> = own().filter(|one| one.ratio() < WHOLE).collect();
        let sum = |of: fn(&MeasuredFlow<'_>) -> f64| late.iter().map(|one| of(one)).sum::<f64>();
        members.push(SlowMember {
            ratio: sum(|one| one.bytes_per_second) / sum(|one| one.flow.wanted_bytes_per_second),
            pairs: late.len(),
            pairs_measured: own().count(),
            name,
            direction,
            other_way: None,
            sources: Vec::new(),
            evidence: Vec::new(),
        });
    }
    members.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    members
}

fn blame_words(worst: &SlowMember, short: &[&MeasuredFlow<'_>]) -> String {
    let sends = worst.direction == FleetDirection::Send;
    let own =
        || short.iter().filter(|flow| worst.name == *if sends { &flow.flow.from } else { &flow.flow.to });
    let tiles: Vec<String> = own().flat_map(|flow| flow.flow.tiles.iter().cloned()).collect();
    let expected = own().all(|flow| flow.is_expected());
    let why = match (expected, worst.evidence.first()) {
        (_, Some(why)) => format!(": {why}"),
        (true, None) => ", as follows from what it does alone".into(),
        (false, None) => ", and alone it does more".into(),
    };
    let does = if sends { "sends" } else { "receives" };
    let take = if tiles.len() == 1 { "takes" } else { "take" };
    format!("{} {does} {:.2} of what {} {take}{why}", worst.name, worst.ratio, listed(&tiles))
}

fn headroom_words(times: f64, limit: &FleetLimit) -> Option<String> {
    let what = limit_words(std::slice::from_ref(limit))?;
    Some(match times {
        // What is predicted is known to a few per cent.
        fits if fits < 1.0 - KNOWN => format!("the wall fits at {fits:.2} of its rate, limited by {what}"),
        hardly if hardly < 1.0 + KNOWN => format!("hardly more would pass, limited by {what} then"),
        some if some < MANY => format!("{some:.1} times as much would pass, limited by {what} then"),
        _ => format!("more than {MANY} times as much would pass"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{FleetMember, FleetWindow, FlowFigures};

    /// Two servers of 500 and three screens that take 100 each, of which h5 receives `last` alone; `rate` is what
    /// each flow has.
    fn result(last: f64, rate: impl Fn(&str, &str) -> f64) -> FleetResult {
        let mut result = FleetResult::default();
        let names = ["h1", "h2", "h3", "h4", "h5"];
        result.members =
            names.map(|name| FleetMember { name: name.into(), ..FleetMember::default() }).to_vec();
        result.windows.push(FleetWindow { flows: 2, alone: true, ..FleetWindow::default() });
        result.windows.push(FleetWindow { flows: 6, ..FleetWindow::default() });
        let cell = |from: &str, to: &str, window, rate| FleetCell {
            from: from.into(),
            to: to.into(),
            window,
            figures: FlowFigures { bytes_per_second: Some(rate), ..FlowFigures::default() },
            ..FleetCell::default()
        };
        for (from, to, rate) in [("h1", "h3", 500.0), ("h2", "h4", 500.0), ("h1", "h5", last)] {
            result.cells.push(cell(from, to, 0, rate));
        }
        let mut wall = FleetWall { frames_per_second: 24.0, ..FleetWall::default() };
        for (number, from) in ["h1", "h2"].iter().enumerate() {
            for to in ["h3", "h4", "h5"] {
                wall.flows.push(FleetWallFlow {
                    from: from.to_string(),
                    to: to.into(),
                    tiles: vec![format!("r{number}c{to}")],
                    wanted_bytes_per_second: 50.0,
                });
                let predicted = if to == "h5" { Some((last / 2.0).min(50.0)) } else { Some(50.0) };
                result.cells.push(FleetCell {
                    predicted_bytes_per_second: predicted,
                    ..cell(from, to, 1, rate(from, to))
                });
            }
        }
        result.wall = Some(wall);
        result
    }

    #[test]
    fn a_wall_that_has_its_rate_says_how_much_more_would_pass() {
        let verdict = judge_wall(&result(500.0, |_, _| 50.0));
        assert_eq!(
            verdict.sentence,
            "6 tiles from 2 servers to 3 hosts: 2.40 kb/s of 2.40 kb/s at 24 frames/s; every screen has what its tiles \
             take; 3.3 times as much would pass, limited by what h1 sends then"
        );
        assert!(verdict.members.is_empty());
        assert_eq!(verdict.wall.expect("a wall").short, []);
    }

    #[test]
    fn headroom_has_no_more_digits_than_are_known() {
        let limit = FleetLimit { kind: FlowLimitKind::Send, hosts: vec!["h1".into()] };
        let words = |times: f64| headroom_words(times, &limit).expect("words");
        assert_eq!(words(0.4987), "the wall fits at 0.50 of its rate, limited by what h1 sends");
        assert_eq!(words(0.97), "hardly more would pass, limited by what h1 sends then");
        assert_eq!(words(1.04), "hardly more would pass, limited by what h1 sends then");
        assert_eq!(words(9.87), "9.9 times as much would pass, limited by what h1 sends then");
        assert_eq!(words(462.13), "more than 10 times as much would pass");
    }

    #[test]
    fn a_screen_that_was_slow_alone_is_named_with_its_tiles() {
        let verdict = judge_wall(&result(40.0, |_, to| if to == "h5" { 20.0 } else { 50.0 }));
        let says = "h5 receives 0.40 of what r0ch5, r1ch5 take, as follows from what it does alone; the \
                    wall fits at 0.40 of its rate, limited by what h5 receives";
        assert!(verdict.sentence.ends_with(says), "{}", verdict.sentence);
        assert_eq!((verdict.members.len(), verdict.members[0].direction), (1, FleetDirection::Receive));
        let wall = verdict.wall.expect("a wall");
        assert_eq!(wall.short.len(), 2);
        assert_eq!(wall.short[0].predicted_ratio, Some(0.4));
    }

    #[test]
    fn a_server_whose_tiles_all_come_late_is_named_and_a_single_flow_names_its_screen() {
        let verdict = judge_wall(&result(500.0, |from, _| if from == "h2" { 30.0 } else { 50.0 }));
        assert!(
            verdict
                .sentence
                .contains("h2 sends 0.60 of what r1ch3, r1ch4, r1ch5 take, and alone it does more"),
            "{}",
            verdict.sentence
        );
        let one = judge_wall(&result(500.0, |from, to| if (from, to) == ("h2", "h4") { 10.0 } else { 50.0 }));
        assert!(one.sentence.contains("h4 receives 0.20 of what r1ch4 takes"), "{}", one.sentence);
    }

    #[test]
    fn nothing_measured_is_reported() {
        assert_eq!(judge_wall(&FleetResult::default()).sentence, "nothing was measured");
    }
}
