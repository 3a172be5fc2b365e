//! Resources in words: `the four disks (loop0–loop3, 50.0 MB/s each, measured)`.

pub use linerate_facts::wording::listed;

use super::product::{Origin, Resource};

/// Rates of like devices within this share of each other are shown as one.
const LIKE: f64 = 0.05;

/// `the four disks (loop0–loop3, 50.0 MB/s each, measured)`; one: `disk vda (3.83 GB/s, measured)`.
pub fn counted(one: &str, many: &str, parts: &[&Resource], show: fn(f64) -> String) -> String {
    let Some(first) = parts.first() else { return String::new() };
    let (name, rates) = numbered(one, many, parts, show);
    format!("{name} ({rates}, {})", origin(first))
}

/// Where a resource's figure is from.
pub fn origin(resource: &Resource) -> &'static str {
    match resource.origin {
        Origin::Measured => "measured",
        Origin::Effective => "by the data sheet less overhead",
        Origin::Rated => "by the data sheet",
        Origin::Unknown => "unknown",
    }
}

/// `the four disks` and `loop0–loop3, 50.0 MB/s each`; of one: `disk vda` and `3.83 GB/s`.
pub fn numbered(one: &str, many: &str, parts: &[&Resource], show: fn(f64) -> String) -> (String, String) {
    let names: Vec<&str> = parts.iter().map(|part| name(&part.id)).collect();
    if let [part] = parts {
        return (format!("{one} {}", names[0]), show(part.capacity));
    }
    let mut rates: Vec<f64> = parts.iter().map(|part| part.capacity).collect();
    rates.sort_by(f64::total_cmp);
    let Some(((least, most), median)) = rates.first().zip(rates.last()).zip(rates.get(rates.len() / 2))
    else {
        return Default::default();
    };
    let each = if *most <= least * (1.0 + LIKE) {
        format!("{}, {} each", ranged(&names), show(*median))
    } else if parts.len() <= 4 {
        let pairs: Vec<String> =
            parts.iter().map(|part| format!("{} {}", name(&part.id), show(part.capacity))).collect();
        listed(&pairs.iter().map(String::as_str).collect::<Vec<_>>(), 4)
    } else {
        format!("{}, {} to {}", ranged(&names), show(*least), show(*most))
    };
    let count = match parts.len() {
        count @ 2..=9 => ["two", "three", "four", "five", "six", "seven", "eight", "nine"][count - 2].into(),
        count => count.to_string(),
    };
    (format!("the {count} {many}"), each)
}

/// The part of an id after its kind.
pub fn name(id: &str) -> &str {
    id.split_once(':').map_or(id, |(_, name)| name)
}

/// `loop0–loop3` for consecutive names, else a list.
pub fn ranged(names: &[&str]) -> String {
    let split = |name: &str| {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        Some((name[..digits].to_string(), name[digits..].parse::<u64>().ok()?))
    };
    let parts: Option<Vec<(String, u64)>> = names.iter().map(|name| split(name)).collect();
    let consecutive = |parts: &[(String, u64)]| {
        parts.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1.checked_add(1) == Some(pair[1].1))
    };
    match parts {
        Some(parts) if names.len() > 2 && consecutive(&parts) => {
            format!("{}–{}", names[0], names[names.len() - 1])
        }
        _ => listed(names, 4),
    }
}

/// Ids with each kind named once: `disk:ssd0–ssd5 and pcie:eth1`.
pub fn ids(all: &[&str]) -> String {
    let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
    for id in all {
        let kind = id.split_once(':').map_or("", |(kind, _)| kind);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, names)) => names.push(name(id)),
            None => kinds.push((kind, vec![name(id)])),
        }
    }
    let words: Vec<String> = kinds
        .into_iter()
        .map(
            |(kind, names)| {
                if kind.is_empty() { ranged(&names) } else { format!("{kind}:{}", ranged(&names)) }
            },
        )
        .collect();
    listed(&words.iter().map(String::as_str).collect::<Vec<_>>(), 4)
}

/// An id without the direction: the two ways of a link are one link.
fn link(id: &str) -> &str {
    id.trim_end_matches("/out")
}

/// What limits after `cut`, as a sentence names it: of a link that is in the cut it is the other direction.
pub fn next_in_words(cut: &[&str], next: &[&str]) -> String {
    let is_other_way = |id: &&str| cut.iter().any(|one| one != id && link(one) == link(id));
    let other_way = !next.is_empty() && next.iter().all(is_other_way);
    format!("{}{}", if other_way { "the other direction of " } else { "" }, in_words(next))
}

/// Ids as a sentence names them: `disks ssd0–ssd5 and the CPU`.
pub fn in_words(all: &[&str]) -> String {
    let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
    for id in all {
        let kind = id.split_once(':').map_or(*id, |(kind, _)| kind);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, names)) if names.contains(&link(name(id))) => {}
            Some((_, names)) => names.push(link(name(id))),
            None => kinds.push((kind, vec![link(name(id))])),
        }
    }
    let words: Vec<String> = kinds
        .iter()
        .map(|(kind, names)| {
            let several = if names.len() > 1 { "s" } else { "" };
            let these = ranged(names);
            match *kind {
                "disk" => format!("disk{several} {these}"),
                "nic" => format!("NIC{several} {these}"),
                "pcie" => format!("the PCIe link{several} of {these}"),
                "socket-link" => format!("the socket link{several} {these}"),
                "controller" if these == "network" => "what the NICs share".into(),
                "controller" if these == "disks" => "what the disks share".into(),
                "controller" => format!("controller{several} {these}"),
                "receiver" => format!("the receiver{several} on {these}"),
                "receiver-cpus" => format!("the CPUs of the receiver{several} on {these}"),
                "cpu" => "the CPU".into(),
                "memory" => "the memory".into(),
                "window" => "the window".into(),
                "loss" => "the loss of packets".into(),
                _ => format!("{kind} {these}"),
            }
        })
        .collect();
    listed(&words.iter().map(String::as_str).collect::<Vec<_>>(), 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_each_kind_once() {
        assert_eq!(ids(&["disk:ssd0", "disk:ssd1", "disk:ssd2", "memory"]), "disk:ssd0–ssd2 and memory");
        assert_eq!(ids(&["nic:eth0", "pcie:eth1", "nic:eth2"]), "nic:eth0 and eth2 and pcie:eth1");
        assert_eq!(ids(&[]), "");
    }

    #[test]
    fn a_sentence_names_parts_as_a_person_does() {
        assert_eq!(
            in_words(&["disk:ssd0", "disk:ssd1", "disk:ssd2", "cpu:workers"]),
            "disks ssd0–ssd2 and the CPU"
        );
        assert_eq!(in_words(&["nic:eth0", "pcie:eth1/out"]), "NIC eth0 and the PCIe link of eth1");
        assert_eq!(in_words(&["memory", "receiver:peer"]), "the memory and the receiver on peer");
    }

    #[test]
    fn the_next_limit_of_a_link_is_not_the_same_link() {
        let next = |id| next_in_words(&["pcie:sw0", "nic:eth0"], &[id]);
        assert_eq!(next("pcie:sw0/out"), "the other direction of the PCIe link of sw0");
        assert_eq!(next("pcie:sw1/out"), "the PCIe link of sw1");
        assert_eq!(
            next_in_words(&["pcie:sw0/out"], &["pcie:sw0"]),
            "the other direction of the PCIe link of sw0"
        );
    }
}
