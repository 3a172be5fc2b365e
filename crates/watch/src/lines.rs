//! A moment as one line of text, for where there is no screen to fill: what moves, what is lost, what it
//! costs, what holds it.

use super::model::{DiskRates, Moment, NicRates, ProcessRates};
use linerate_facts::printable::printable;

/// The line, without the time zone's name: `12:34:56 UTC`.
pub fn line(moment: &Moment) -> String {
    let mut parts: Vec<String> = moment.nics.iter().filter_map(nic).collect();
    if parts.is_empty() {
        parts.push("no NIC moves anything".into());
    }
    parts.extend(moment.disks.iter().filter(|disk| !disk.is_virtual).filter_map(disk));
    parts.extend(moment.processes.busiest.first().and_then(process));
    if let Some(total) = moment.cpus.total {
        let busy = |core: &super::model::Core| core.eight.map(|eight| (eight.busy(), core.number));
        let most = moment.cpus.each.iter().filter_map(busy).max_by(|a, b| a.0.total_cmp(&b.0));
        let most =
            most.map(|(share, core)| format!(", core {core} {:.0} %", share * 100.0)).unwrap_or_default();
        let program = moment.processes.busiest_by_cpu().first().and_then(|one| computing(one));
        parts.push(format!("CPU {:.0} %{most}{}", total.busy() * 100.0, program.unwrap_or_default()));
    }
    let lost: f64 = moment.drops.iter().filter_map(|line| line.per_second).sum();
    if lost > 0.0 {
        parts.push(format!("drops and repeats {lost:.0}/s"));
    }
    if let Some(watts) = moment.energy.watts {
        let each =
            moment.energy.joules_per_gb.map(|joules| format!(", {joules:.1} J/GB")).unwrap_or_default();
        parts.push(format!("{watts:.0} W{each}"));
    }
    if !moment.slow.is_empty() {
        parts.push(format!("slow: {}", moment.slow.join(", ")));
    }
    format!("{}  {}", clock(moment.at_ms), parts.join(" | "))
}

/// Hours, minutes and seconds of the day, UTC.
fn clock(at_ms: i64) -> String {
    let seconds = at_ms.div_euclid(1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn nic(nic: &NicRates) -> Option<String> {
    let rates = |rates: &super::model::NicDirection| {
        let bits = rates.bits_per_second?;
        let share = rates.share_of_link.map(|share| format!(" ({:.0} %)", share * 100.0)).unwrap_or_default();
        Some(format!("{}{share}", bits_per_second(bits)))
    };
    let moves = nic.receive.bits_per_second.unwrap_or(0.0) + nic.send.bits_per_second.unwrap_or(0.0) >= 1e3;
    let (receive, send) = (rates(&nic.receive)?, rates(&nic.send)?);
    moves.then(|| format!("{} in {receive} out {send}", nic.name))
}

fn disk(disk: &DiskRates) -> Option<String> {
    let (read, write) = (disk.read.bytes_per_second?, disk.write.bytes_per_second?);
    let depth = disk.queue_depth.map(|depth| format!(" depth {depth:.1}")).unwrap_or_default();
    (read + write >= 1e3)
        .then(|| format!("{} read {:.1} write {:.1} MB/s{depth}", disk.name, read / 1e6, write / 1e6))
}

/// The busiest, with what it reads, writes, sends and receives.
fn process(process: &ProcessRates) -> Option<String> {
    let words = ["read", "write", "send", "receive"];
    let figure = |(word, rate): (&str, Option<f64>)| {
        Some(format!(" {word} {:.1}", rate.filter(|rate| *rate >= 1e3)? / 1e6))
    };
    let figures: String = words.into_iter().zip(process.rates()).filter_map(figure).collect();
    (!figures.is_empty()).then(|| format!("{}[{}]{figures} MB/s", printable(&process.name), process.pid))
}

/// `, rustc[1673] 77 %`, where that is worth a word.
fn computing(process: &ProcessRates) -> Option<String> {
    let share = process.cpus.filter(|cpus| *cpus >= 0.1)? * 100.0;
    Some(format!(", {}[{}] {share:.0} %", printable(&process.name), process.pid))
}

fn bits_per_second(bits: f64) -> String {
    match bits {
        bits if bits >= 1e9 => format!("{:.2} Gb/s", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.1} Mb/s", bits / 1e6),
        bits => format!("{:.1} kb/s", bits / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day() {
        assert_eq!((clock(0).as_str(), clock(-1000).as_str()), ("00:00:00", "23:59:59"));
        assert_eq!(clock(1_795_000_072_345), "11:07:52");
    }

    #[test]
    fn the_busiest_process_is_named_with_what_it_moves() {
        let fio = ProcessRates {
            pid: 71,
            name: "a\nb".into(),
            read_bytes_per_second: Some(812.3e6),
            written_bytes_per_second: Some(12.0),
            ..ProcessRates::default()
        };
        let text = process(&fio).expect("it moves");
        assert!(text.ends_with("[71] read 812.3 MB/s") && !text.contains('\n'), "{text}");
        assert_eq!(process(&ProcessRates::default()), None);
        let hog = ProcessRates { cpus: Some(0.77), ..fio };
        assert_eq!(computing(&hog).as_deref(), Some(", a b[71] 77 %"));
        assert_eq!(computing(&ProcessRates { cpus: Some(0.05), ..hog }), None);
    }

    #[test]
    fn nothing_moves() {
        assert_eq!(line(&Moment::default()), "00:00:00  no NIC moves anything");
    }
}
