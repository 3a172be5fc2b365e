//! Why a member is slow, as far as its machine and its CPUs during the windows show it: only what sets it apart from
//! the others.

use crate::fabric::mtu;
use crate::sentence::listed;
use linerate_facts::units::{bytes_per_second, show_bits_rate};
use linerate_facts::usage::CoreUse;
use linerate_measure::run::fleet::{FleetDirection, FleetHost, FleetMember, FleetResult, SlowMember};
use linerate_model::alike::median;
use linerate_model::verdict::thresholds::{CPU_FULL, MOSTLY_INTERRUPTS, QUOTA_THROTTLED, THREAD_FULL};
use std::collections::HashSet;

/// A full CPU means something where the others' are less busy than this.
const APART: f64 = 0.75;
/// CPU time that a hypervisor gives to others lowers what a host carries by about as much.
const STOLEN: f64 = 0.03;

/// What sets this member apart, the most telling first.
pub(crate) fn evidence(result: &FleetResult, slow: &SlowMember) -> Vec<String> {
    let Some(member) = result.members.iter().find(|member| member.name == slow.name) else {
        return Vec::new();
    };
    let mut found: Vec<String> = Vec::new();
    found.extend(quota(result, member, slow.direction));
    found.extend(stolen_here(result, member, slow.direction));
    found.extend(full_cpu(result, member, slow.direction));
    found.extend(slower_nic(result, member));
    found.extend(other_mtu(result, member));
    found
}

/// Its loads in the windows in which it had this role.
fn loads<'a>(result: &'a FleetResult, name: &'a str, way: FleetDirection) -> Vec<&'a FleetHost> {
    let windows: HashSet<usize> = match way {
        FleetDirection::Send => {
            result.cells.iter().filter(|cell| cell.from == name).map(|cell| cell.window).collect()
        }
        FleetDirection::Receive => {
            result.cells.iter().filter(|cell| cell.to == name).map(|cell| cell.window).collect()
        }
        FleetDirection::Read | FleetDirection::Write => {
            result.disks.iter().filter(|disk| disk.member == name).map(|disk| disk.window).collect()
        }
    };
    result.hosts.iter().filter(|host| host.member == name && windows.contains(&host.window)).collect()
}

/// The median of a property of a member's loads.
fn usual(
    result: &FleetResult,
    name: &str,
    way: FleetDirection,
    of: fn(&FleetHost) -> Option<f64>,
) -> Option<f64> {
    median(loads(result, name, way).into_iter().filter_map(of))
}

/// The same over the other members.
fn of_others(
    result: &FleetResult,
    name: &str,
    way: FleetDirection,
    of: fn(&FleetHost) -> Option<f64>,
) -> Option<f64> {
    let others = result.members.iter().filter(|other| other.name != name);
    median(others.filter_map(|other| usual(result, &other.name, way, of)))
}

fn quota(result: &FleetResult, member: &FleetMember, way: FleetDirection) -> Option<String> {
    let throttled = |host: &FleetHost| Some(host.load.throttled);
    let own = usual(result, &member.name, way, throttled).filter(|share| *share >= QUOTA_THROTTLED)?;
    if of_others(result, &member.name, way, throttled).unwrap_or(0.0) >= QUOTA_THROTTLED {
        return None;
    }
    let quota = member.machine.as_ref()?.cpu.quota_cores.known().filter(|quota| **quota > 0.0);
    let quota = quota.map_or("a CPU quota".to_string(), |quota| format!("its quota of {quota:.2} CPUs"));
    Some(format!("{quota} holds it back in {:.0} % of the periods", own * 100.0))
}

fn stolen_here(result: &FleetResult, member: &FleetMember, way: FleetDirection) -> Option<String> {
    let steal = |host: &FleetHost| Some(host.load.steal);
    let own = usual(result, &member.name, way, steal).filter(|share| *share > STOLEN)?;
    let apart = of_others(result, &member.name, way, steal).unwrap_or(0.0) < STOLEN;
    apart.then(|| format!("its hypervisor gives {:.0} % of its CPUs' time to others", own * 100.0))
}

/// That hypervisors took time from members, in windows that were measured.
pub(crate) fn stolen(result: &FleetResult) -> Option<String> {
    let measured =
        result.hosts.iter().filter(|host| result.windows.get(host.window).is_some_and(|one| !one.alone));
    let over: Vec<&FleetHost> = measured.clone().filter(|host| host.load.steal > STOLEN).collect();
    let most = over.iter().map(|host| host.load.steal).reduce(f64::max)?;
    let distinct = |hosts: &mut dyn Iterator<Item = usize>| hosts.collect::<HashSet<usize>>().len();
    let mut names: Vec<String> = over.iter().map(|host| host.member.clone()).collect();
    names.sort_unstable();
    names.dedup();
    Some(format!(
        "hypervisors gave up to {:.0} % of the CPUs' time to others in {} of {} windows, at {}: their rates may be low",
        most * 100.0,
        distinct(&mut over.iter().map(|host| host.window)),
        distinct(&mut measured.map(|host| host.window)),
        listed(&names)
    ))
}

/// A CPU of one of these was full while the one sent to the other.
pub(crate) fn ends_were_full(result: &FleetResult, from: &str, to: &str) -> bool {
    let flows = result.measured_cells().filter(|cell| cell.from == from && cell.to == to);
    let windows: HashSet<usize> = flows.map(|cell| cell.window).collect();
    let of = |name: &str| {
        let own = result.hosts.iter().filter(|host| host.member == name && windows.contains(&host.window));
        median(own.filter_map(|host| host.load.busiest.as_ref().map(CoreUse::busy)))
    };
    [from, to].into_iter().filter_map(of).any(|busy| busy >= CPU_FULL)
}

fn full_cpu(result: &FleetResult, member: &FleetMember, way: FleetDirection) -> Option<String> {
    let busy = |host: &FleetHost| host.load.busiest.as_ref().map(CoreUse::busy);
    let softirq = usual(result, &member.name, way, |host| Some(host.load.busiest.as_ref()?.softirq));
    let softirq = softirq.filter(|share| *share >= MOSTLY_INTERRUPTS);
    // Interrupts come in bursts: their CPU is full before it is busy all the time.
    let least = if softirq.is_some() { THREAD_FULL } else { CPU_FULL };
    let own = usual(result, &member.name, way, busy).filter(|busy| *busy >= least)?;
    if of_others(result, &member.name, way, busy).is_some_and(|others| others > APART) {
        return None;
    }
    let busiest = loads(result, &member.name, way).into_iter().filter_map(|host| host.load.busiest.as_ref());
    let core = busiest.max_by(|one, other| one.busy().total_cmp(&other.busy()))?.core;
    let how = softirq.map_or(String::new(), |share| format!(", {:.0} % of its time softirq", share * 100.0));
    let full = format!("CPU {core} is {:.0} % busy{how}", own * 100.0);
    let queues = member.nic().and_then(|nic| nic.rx_queues.known().copied());
    Some(match queues {
        Some(1) if way == FleetDirection::Receive && softirq.is_some() => {
            format!("it has one RX queue, {full}")
        }
        _ => full,
    })
}

fn slower_nic(result: &FleetResult, member: &FleetMember) -> Option<String> {
    let speed = |member: &FleetMember| member.nic()?.speed_bits_per_second.known().copied();
    let own = speed(member)?;
    let others = result.members.iter().filter(|other| other.name != member.name).filter_map(speed);
    let usual = median(others.map(|speed| speed as f64))?;
    let show = |bits: u64| show_bits_rate(bytes_per_second(bits));
    ((own as f64) < usual).then(|| {
        let name = member.nic().map_or("its NIC", |nic| nic.name.as_str());
        format!("{name} runs at {}, the others' NICs at {}", show(own), show(usual as u64))
    })
}

fn other_mtu(result: &FleetResult, member: &FleetMember) -> Option<String> {
    let own = mtu(member)?;
    let others: Vec<u32> =
        result.members.iter().filter(|other| other.name != member.name).filter_map(mtu).collect();
    let first = *others.first()?;
    (others.iter().all(|other| *other == first) && first != own)
        .then(|| format!("its MTU is {own}, the others' {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::cell;
    use linerate_facts::fact::Fact;
    use linerate_machine::probe::{Machine, Nic};
    use linerate_measure::run::fleet::{FleetWindow, HostLoad};

    /// Four members, of which h3 receives while its load is this.
    fn result(load: HostLoad) -> FleetResult {
        let mut result = FleetResult::default();
        for number in 1..=4_u8 {
            let ip = std::net::IpAddr::from([10, 0, 0, number]);
            let nic = Nic {
                name: "eth0".into(),
                addresses: vec![(ip, 24)],
                rx_queues: Fact::Known(1),
                mtu: Fact::Known(9000),
                speed_bits_per_second: Fact::Known(10_000_000_000),
                ..Nic::default()
            };
            let mut machine = Machine { nics: vec![nic], ..Machine::default() };
            machine.cpu.quota_cores = Fact::Known(0.4);
            result.members.push(FleetMember {
                name: format!("h{number}"),
                address: format!("{ip}:7"),
                machine: Some(Box::new(machine)),
                ..FleetMember::default()
            });
            let window = usize::from(number);
            let name = format!("h{number}");
            result.cells.push(cell(window, "h9", &name, None));
            let load = if number == 3 { load.clone() } else { HostLoad { busy: 0.1, ..busiest(0.2, 0.1) } };
            result.hosts.push(FleetHost { member: name, window, load });
        }
        result
    }

    fn busiest(busy: f64, softirq: f64) -> HostLoad {
        let core =
            CoreUse { core: 3, softirq, system: busy - softirq, idle: 1.0 - busy, ..CoreUse::default() };
        HostLoad { cpus: 4, busiest: Some(core), ..HostLoad::default() }
    }

    fn of(result: &FleetResult) -> Vec<String> {
        let slow = SlowMember {
            name: "h3".into(),
            direction: FleetDirection::Receive,
            ratio: 0.3,
            pairs: 3,
            pairs_measured: 3,
            other_way: None,
            sources: Vec::new(),
            evidence: Vec::new(),
        };
        evidence(result, &slow)
    }

    #[test]
    fn a_full_cpu_and_a_quota_of_the_slow_member_alone_are_named() {
        let full = result(busiest(1.0, 0.98));
        assert_eq!(of(&full), ["it has one RX queue, CPU 3 is 100 % busy, 98 % of its time softirq"]);
        assert_eq!(of(&result(busiest(0.5, 0.1))), [""; 0]);
        let held = result(HostLoad { throttled: 0.8, ..busiest(0.4, 0.0) });
        assert_eq!(of(&held), ["its quota of 0.40 CPUs holds it back in 80 % of the periods"]);
        let mut all = result(busiest(1.0, 0.98));
        all.hosts.iter_mut().for_each(|host| host.load = busiest(1.0, 0.98));
        assert_eq!(of(&all), [""; 0], "the others are as busy");
    }

    #[test]
    fn a_hypervisor_that_takes_time_is_a_reason_of_one_host_and_a_doubt_of_all() {
        let mut result = result(HostLoad { steal: 0.12, ..busiest(0.3, 0.0) });
        assert_eq!(of(&result), ["its hypervisor gives 12 % of its CPUs' time to others"]);
        result.windows = vec![FleetWindow::default(); 5];
        assert_eq!(
            stolen(&result).as_deref(),
            Some(
                "hypervisors gave up to 12 % of the CPUs' time to others in 1 of 4 windows, at h3: their rates may be low"
            )
        );
        result.windows[3].alone = true;
        assert_eq!(stolen(&result), None, "nothing of it was measured for the pattern");
        result.windows[3].alone = false;
        result.hosts.iter_mut().for_each(|host| host.load.steal = 0.12);
        assert_eq!(of(&result), [""; 0], "it is no more than the others'");
    }

    #[test]
    fn a_slower_nic_and_another_mtu_are_named() {
        let mut slower = result(HostLoad::default());
        if let Some(machine) = &mut slower.members[2].machine {
            machine.nics[0].speed_bits_per_second = Fact::Known(1_000_000_000);
            machine.nics[0].mtu = Fact::Known(1500);
        }
        assert_eq!(
            of(&slower),
            ["eth0 runs at 1.00 Gb/s, the others' NICs at 10.0 Gb/s", "its MTU is 1500, the others' 9000"]
        );
    }
}
