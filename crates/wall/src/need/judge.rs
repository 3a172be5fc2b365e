//! Held against a machine: its parts as a flow from the disks to the NICs, by the model of `linerate plan`.

use super::{Applied, Dealt, DiskShare, WallFigures, WallNeed, deal};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_bits_rate;
use linerate_machine::probe::Machine;
use linerate_model::plan::flow::{Flow, FlowEnd, FlowEndError, FlowPlan, Method, ends, plan_flow};
use linerate_model::plan::parts::{DeviceKind, MachineParts, from_machine};
use linerate_model::plan::wording::{ids, in_words, listed};
use linerate_model::plan::{Origin, ResourceKind};
use serde::Serialize;

/// Crossings of the memory bus by a byte that O_DIRECT brings, that the socket copies and that the NIC takes.
const MEMORY_TOUCHES: f64 = 4.0;

/// Whether a server carries a wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fits {
    Yes,
    No,
    /// Nothing known is too slow, and not all is known.
    Unknown,
}

/// What a server has for a wall.
#[derive(Clone, Debug, Serialize)]
pub struct ServerVerdict {
    pub need: WallNeed,
    pub fits: Fits,
    /// Why, in a sentence.
    pub sentence: String,
    /// Frames a second that would fit, where a limit is known.
    pub frames_per_second_that_fit: Option<f64>,
    /// The most that the known limits allow, UDP payload, bytes per second.
    pub predicted_bytes_per_second: Option<f64>,
    /// Which disk reads what; empty where no movie was named.
    pub disks: Vec<DiskShare>,
    /// Which NIC carries what.
    pub nics: Vec<Dealt>,
    /// Memory bandwidth that is taken, bytes per second.
    pub memory_bytes_per_second: f64,
    /// Everything on the way, in bytes of pixels; `utilisation` is the share that the wall takes, above 1
    /// where it is too much.
    pub plan: FlowPlan,
}

impl WallNeed {
    /// Holds the need against a machine: by what a run has `measured` of it, and for the rest by its data
    /// sheets. `disks` says where the tiles lie ([`super::places_of`]; empty: anywhere); `nics` are the NICs
    /// that may be used (empty: all that have a link). Fails where there is no NIC, or not the one that is
    /// named.
    pub fn judge(
        &self,
        machine: &Machine,
        disks: &[DiskShare],
        nics: &[String],
        measured: &WallFigures,
    ) -> Result<ServerVerdict, FlowEndError> {
        self.judge_parts(from_machine(machine), &[], disks, nics, measured)
    }

    /// The same of a machine's parts, which a file may describe. `from`: where the tiles are read, in words like
    /// `volume:xfs` or `memory` (empty: from the disks that `disks` has, or all).
    pub fn judge_parts(
        &self,
        mut parts: MachineParts,
        from: &[String],
        disks: &[DiskShare],
        nics: &[String],
        measured: &WallFigures,
    ) -> Result<ServerVerdict, FlowEndError> {
        let need = self.costing(&parts, measured);
        parts.cpu_seconds_per_gb = Fact::Known(need.cpu_seconds_per_gb);
        let applied = measured.apply(&mut parts, need.mtu);
        for device in &mut parts.devices {
            if let DeviceKind::Nic { mtu, .. } = &mut device.what {
                *mtu = Fact::Known(need.mtu);
            }
        }
        let (protocol, method) = (Protocol::Udp, Method::Direct);
        let named = match from {
            [] => Flow {
                from: disk_ends(&parts, disks),
                to: Vec::new(),
                volumes: parts.usual_volumes(),
                protocol,
                method,
            },
            from => Flow::between(&parts, [from, &[]], protocol, method)?,
        };
        let flow = Flow { to: nic_ends(&parts, nics)?, ..named };
        let links = links(&parts, &flow.to, &applied);
        let mut plan = plan_flow(&parts, &flow);
        let dealt = deal(&need, &links);
        let ceiling = plan.ceiling.bytes_per_second.known().copied();
        need.load(&mut plan, &dealt, disks, ceiling);
        applied.label(&mut plan, need.cpu_origin);
        Ok(need.verdict(plan, dealt, disks.to_vec(), ceiling, &applied))
    }

    /// Writes into each resource which share of it the wall takes.
    fn load(&self, plan: &mut FlowPlan, dealt: &[Dealt], disks: &[DiskShare], ceiling: Option<f64>) {
        let scale = ceiling.filter(|most| *most > 0.0).map(|most| self.pixel_bytes_per_second / most);
        for resource in &mut plan.resources {
            let name = resource.id.split_once(':').map_or("", |(_, name)| name);
            let taken = match resource.kind {
                ResourceKind::Nic => {
                    // By the size of this wall's datagrams, which are a little smaller than the MTU allows.
                    if let Some(rated) = resource.rated.filter(|_| resource.origin != Origin::Unknown) {
                        resource.capacity = rated * self.pixel_share();
                        resource.effective = Some(resource.capacity);
                    }
                    let own = dealt.iter().find(|dealt| dealt.nic == name);
                    own.map(|dealt| dealt.needed_bytes_per_second * self.pixel_share())
                }
                ResourceKind::Disk if !disks.is_empty() => {
                    let own = disks.iter().find(|share| share.disk == name);
                    own.map(|share| share.tiles_worth * self.tile_pixel_bytes_per_second())
                }
                _ => scale.map(|scale| resource.utilisation * resource.capacity * scale),
            };
            let known = resource.origin != Origin::Unknown && resource.capacity > 0.0;
            resource.utilisation = taken.filter(|_| known).map_or(0.0, |taken| taken / resource.capacity);
        }
    }

    fn verdict(
        &self,
        plan: FlowPlan,
        nics: Vec<Dealt>,
        disks: Vec<DiskShare>,
        ceiling: Option<f64>,
        applied: &Applied,
    ) -> ServerVerdict {
        let by_nics = nics
            .iter()
            .filter(|dealt| !dealt.tiles.is_empty())
            .filter_map(|dealt| Some(dealt.link_bytes_per_second.known()? / dealt.needed_bytes_per_second))
            .reduce(f64::min);
        let by_model = ceiling.map(|most| most / self.pixel_bytes_per_second);
        let share = [by_nics, by_model].into_iter().flatten().reduce(f64::min);
        let rate = self.frames_per_second.per_second();
        let unknown: Vec<&str> = plan
            .resources
            .iter()
            // A link that is a formality, and what has no rating because it is never the limit, are not gaps in
            // what is known; a controller that nobody rated is named beside the answer.
            .filter(|resource| resource.origin == Origin::Unknown)
            .filter(|resource| !matches!(resource.kind, ResourceKind::Pcie | ResourceKind::Controller))
            .map(|resource| resource.id.as_str())
            .collect();
        let fit = share.map(|share| rate * share);
        let weak = by_nics.is_some_and(|nics| nics < 1.0);
        let limits = plan.ceiling.cut.iter().cloned().chain(
            nics.iter()
                .filter(|dealt| weak && dealt.fits() == Some(false))
                .map(|dealt| format!("nic:{}", dealt.nic)),
        );
        let may_do_more: Vec<String> = limits.filter(|id| applied.may_do_more(id)).collect();
        let (fits, sentence) = match share {
            // What something else held when it was measured refuses nothing.
            Some(share) if share < 1.0 && !may_do_more.is_empty() => {
                let names: Vec<&str> = may_do_more.iter().map(String::as_str).collect();
                let so = "carried too little when it was measured, but something else held it then";
                (
                    Fits::Unknown,
                    format!(
                        "unknown: {} {so}; what is known allows {:.1} frames a second",
                        ids(&names),
                        rate * share
                    ),
                )
            }
            Some(share) if share < 1.0 => {
                (Fits::No, self.refusal(&plan, &nics, by_nics, by_model, rate * share))
            }
            Some(share) if unknown.is_empty() => {
                let most = format!("the most that its parts allow is {:.1} frames a second", rate * share);
                let limit =
                    limit_words(&plan, by_nics.is_some_and(|nics| by_model.is_none_or(|all| nics <= all)));
                let more = 100.0 * (share - 1.0);
                let unrated = unrated_controllers(&plan);
                (Fits::Yes, format!("this server carries it: {most}, {more:.0} % more, {limit}{unrated}"))
            }
            _ => (Fits::Unknown, doubt_sentence(&unknown, fit)),
        };
        ServerVerdict {
            need: self.clone(),
            fits,
            sentence,
            frames_per_second_that_fit: fit,
            predicted_bytes_per_second: share.map(|share| share * self.payload_bytes_per_second),
            disks,
            nics,
            memory_bytes_per_second: MEMORY_TOUCHES * self.pixel_bytes_per_second,
            plan,
        }
    }

    /// Why it cannot, and what would fit.
    fn refusal(
        &self,
        plan: &FlowPlan,
        nics: &[Dealt],
        by_nics: Option<f64>,
        by_model: Option<f64>,
        fit: f64,
    ) -> String {
        let sum: Option<f64> = nics.iter().map(|dealt| dealt.link_bytes_per_second.known().copied()).sum();
        let fitting = format!("{fit:.1} frames a second would fit");
        // The NICs are asked first, where they are as tight as the rest: their names say most to a person.
        if by_nics.is_some_and(|nics| by_model.is_none_or(|model| nics <= model * 1.01)) {
            return match sum {
                Some(sum) if sum < self.wire_bytes_per_second => format!(
                    "it cannot: NICs give {} of {}; {fitting}",
                    show_bits_rate(sum),
                    show_bits_rate(self.wire_bytes_per_second)
                ),
                _ => {
                    let over: Vec<&str> = nics
                        .iter()
                        .filter(|dealt| dealt.fits() == Some(false))
                        .map(|dealt| dealt.nic.as_str())
                        .collect();
                    format!(
                        "it cannot: a tile goes over one NIC, it takes {}, and {} cannot carry the tiles \
                         dealt to it; {fitting}",
                        show_bits_rate(self.tile_wire_bytes_per_second()),
                        listed(&over, 4)
                    )
                }
            };
        }
        let cut: Vec<&str> = plan.ceiling.cut.iter().map(String::as_str).collect();
        let have = by_model.unwrap_or(0.0) * self.pixel_bytes_per_second;
        format!(
            "it cannot: {} {} {} of {}; {fitting}",
            ids(&cut),
            if cut.len() == 1 { "gives" } else { "give" },
            show_bits_rate(have),
            show_bits_rate(self.pixel_bytes_per_second)
        )
    }
}

/// What limits a wall that fits.
fn limit_words(plan: &FlowPlan, by_nics: bool) -> String {
    if by_nics {
        return "where the ports are full".into();
    }
    let cut: Vec<&str> = plan.ceiling.cut.iter().map(String::as_str).collect();
    format!("limited by {}", in_words(&cut))
}

/// Controllers on the way whose own rate nobody knows.
fn unrated_controllers(plan: &FlowPlan) -> String {
    let unrated = plan
        .resources
        .iter()
        .filter(|resource| resource.kind == ResourceKind::Controller && resource.origin == Origin::Unknown);
    let ids: Vec<&str> = unrated.map(|resource| resource.id.as_str()).collect();
    match ids.as_slice() {
        [] => String::new(),
        [_] => format!("; the rate of {} is not known and not counted", in_words(&ids)),
        _ => format!("; the rates of {} are not known and not counted", in_words(&ids)),
    }
}

/// Nothing known is too slow.
fn doubt_sentence(unknown: &[&str], fit: Option<f64>) -> String {
    let limit = fit.map_or("no limit is known".to_string(), |fit| {
        format!("what is known allows {fit:.1} frames a second")
    });
    match unknown {
        [] => format!("unknown: {limit}"),
        some => {
            format!("unknown: {limit}, but the rate of {} is unknown; `linerate run` measures it", ids(some))
        }
    }
}

/// The disks that hold tiles; memory where the model knows none of them.
fn disk_ends(parts: &MachineParts, disks: &[DiskShare]) -> Vec<FlowEnd> {
    let named: Vec<FlowEnd> = disks
        .iter()
        .map(|share| FlowEnd::Device(format!("disk:{}", share.disk)))
        .filter(|end| end.device(parts).is_some())
        .collect();
    let all = || ends(parts, "disk").unwrap_or_default();
    let found = if disks.is_empty() { all() } else { named };
    if found.is_empty() { vec![FlowEnd::Memory] } else { found }
}

fn nic_ends(parts: &MachineParts, nics: &[String]) -> Result<Vec<FlowEnd>, FlowEndError> {
    if nics.is_empty() {
        return ends(parts, "nic");
    }
    let mut found = Vec::new();
    for nic in nics {
        for end in ends(parts, &format!("nic:{nic}"))? {
            if !found.contains(&end) {
                found.push(end);
            }
        }
    }
    Ok(found)
}

/// The NICs among the ends, with the rates of their links.
fn links(parts: &MachineParts, to: &[FlowEnd], applied: &Applied) -> Vec<(String, Fact<f64>, Origin)> {
    to.iter()
        .filter_map(|end| end.device(parts))
        .filter_map(|device| match &device.what {
            DeviceKind::Nic { rate, .. } => {
                Some((device.name.clone(), rate.clone(), applied.origin(&device.id())))
            }
            _ => None,
        })
        .collect()
}
