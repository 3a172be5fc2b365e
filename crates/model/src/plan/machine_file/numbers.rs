//! Counts and figures of a machine file, held against what can be.

use super::tables::{self, File};
use super::values::{Link, Pcie, PlaceValue, Rate};
use super::{MOST_OF_ONE, Wrong};
use crate::plan::parts::{
    Catalogue, CatalogueController, CatalogueDisk, CatalogueNic, Joint, JointKind, PartPlace, show_link,
};
use linerate_facts::wording::counted;
use linerate_machine::rates::pcie as pcie_rates;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// The names of an entry's parts: the name alone, or numbered from 0.
pub(super) fn names(
    name: &str,
    count: &Option<Spanned<u32>>,
    on: &Option<Spanned<PlaceValue>>,
) -> Result<Vec<String>, Wrong> {
    let places = on.as_ref().map_or(1, |on| on.get_ref().0.len());
    let given = number(count, "count", 1..=MOST_OF_ONE)?;
    if let (Some(on), true) = (on, given.is_some_and(|count| places > count as usize)) {
        return Err((on.span(), format!("{places} places for fewer parts: drop some, or raise count")));
    }
    if let Some(on) = on.as_ref().filter(|_| places > MOST_OF_ONE as usize) {
        return Err((on.span(), format!("more than {MOST_OF_ONE} places")));
    }
    Ok(match given {
        None if places <= 1 => vec![name.to_string()],
        None => (0..places).map(|index| format!("{name}{index}")).collect(),
        Some(count) => (0..count).map(|index| format!("{name}{index}")).collect(),
    })
}

pub(super) fn card(
    kind: JointKind,
    pcie: &Option<&Spanned<Pcie>>,
    max_payload: &Option<Spanned<u32>>,
) -> Result<Joint, Wrong> {
    let mut joint = Joint::new("", kind, PartPlace::Unknown);
    joint.link = pcie.map(|pcie| pcie.get_ref().0);
    if let Some(given) = max_payload {
        let bytes = *given.get_ref();
        if !is_max_payload(bytes) {
            let message = format!("MaxPayload is 128, 256, 512, 1024, 2048 or 4096 bytes, not {bytes}");
            return Err((given.span(), message));
        }
        joint.max_payload_bytes = Some(bytes);
    }
    let rate = joint.link.and_then(|link| pcie_rates::raw_bytes_per_second(link.gt_per_second, link.width));
    if let (Some(link), None, Some(pcie)) = (joint.link, rate, pcie) {
        return Err((pcie.span(), format!("{} has no rate", show_link(link))));
    }
    Ok(joint)
}

/// The values that the specification allows.
pub(in crate::plan) fn is_max_payload(bytes: u32) -> bool {
    bytes.is_power_of_two() && (128..=4096).contains(&bytes)
}

pub(super) fn number(
    spanned: &Option<Spanned<u32>>,
    what: &str,
    range: RangeInclusive<u32>,
) -> Result<Option<u32>, Wrong> {
    let Some(spanned) = spanned else { return Ok(None) };
    let value = *spanned.get_ref();
    if range.contains(&value) {
        return Ok(Some(value));
    }
    Err((spanned.span(), format!("{value} {what} cannot be: {} to {}", range.start(), range.end())))
}

/// A link by its kind or by its rate, and what to call it.
pub(super) fn link_rate(
    link: &Option<Spanned<Link>>,
    rate: &Option<Spanned<Rate>>,
    span: Range<usize>,
) -> Result<(f64, String), Wrong> {
    match (link, rate) {
        (Some(link), None) => Ok((link.get_ref().bytes_per_second, link.get_ref().words.clone())),
        (None, Some(rate)) => Ok((rate.get_ref().0, "as the file says".into())),
        (Some(_), Some(rate)) => Err((rate.span(), "give link or rate, not both".into())),
        (None, None) => Err((span, "give link = \"qpi 6.4\" or a rate".into())),
    }
}

/// All channels of a node: 8 bytes a transfer, at the exact clock behind the nominal one (1333 is 1333⅓:
/// JEDEC's clocks are multiples of 33⅓ MHz).
pub(in crate::plan) fn memory_rate(mt_per_second: u32, channels: u32) -> f64 {
    let nominal = f64::from(mt_per_second);
    let exact = (nominal * 3.0 / 200.0).round() * 200.0 / 3.0;
    let clock = if (exact - nominal).abs() < 1.0 { exact } else { nominal };
    clock * 1e6 * 8.0 * f64::from(channels)
}

pub(super) fn processors(file: &File, sockets: u32, cores: Option<u32>) -> String {
    let model = file.processor.model.clone().unwrap_or_else(|| "processor".into());
    let mut words = format!("{sockets} × {model}");
    if let Some(cores) = cores {
        words.push_str(&format!(", {} each", counted(cores, "core")));
    }
    if let Some(clock) = &file.processor.clock {
        words.push_str(&format!(", {} GHz", clock.get_ref().0));
    }
    if let Some(kind) = &file.memory.kind {
        words.push_str(&format!("; {kind}"));
    }
    words
}

pub(super) fn catalogue(words: &tables::Catalogue) -> Result<Catalogue, Wrong> {
    let mut catalogue = Catalogue::default();
    if let Some(nic) = &words.nic {
        let ports = number(&nic.ports, "ports", 1..=64)?.unwrap_or(1);
        catalogue.nic = Some(CatalogueNic { rate: nic.rate.get_ref().0, ports, link: nic.pcie.get_ref().0 });
    }
    if let Some(controller) = &words.controller {
        let ports = Some(controller.disk_ports.clone());
        catalogue.controller = Some(CatalogueController {
            link: controller.pcie.get_ref().0,
            disk_ports: number(&ports, "disk_ports", 1..=1024)?.unwrap_or(1),
            rate: controller.rate.as_ref().map(|rate| rate.get_ref().0),
        });
    }
    if let Some(disk) = &words.disk {
        let read = disk.read.get_ref().0;
        catalogue.disk = Some(CatalogueDisk {
            read,
            write: disk.write.as_ref().map_or(read, |rate| rate.get_ref().0),
            in_practice: disk.in_practice.as_ref().map(|rate| rate.get_ref().0),
            link: disk.pcie.as_ref().map(|pcie| pcie.get_ref().0),
        });
    }
    Ok(catalogue)
}
