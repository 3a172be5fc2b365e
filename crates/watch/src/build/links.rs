//! PCIe links that changed since the watch began, or run below what they could.

use crate::model::PcieLink;
use crate::sources::LinkNow;
use linerate_machine::probe::PciLink;
use std::collections::BTreeMap;

/// How each link was at first, and when it changed last.
#[derive(Debug, Default)]
pub(crate) struct Links {
    seen: BTreeMap<String, LinkReading>,
}

#[derive(Clone, Copy, Debug)]
struct LinkReading {
    first: PciLink,
    now: PciLink,
    changed_at_ms: Option<i64>,
}

impl Links {
    /// The links to be shown.
    pub(crate) fn lines(&mut self, links: &[LinkNow], at_ms: i64) -> Vec<PcieLink> {
        links.iter().filter_map(|link| self.line(link, at_ms)).collect()
    }

    fn line(&mut self, link: &LinkNow, at_ms: i64) -> Option<PcieLink> {
        let new = LinkReading { first: link.runs, now: link.runs, changed_at_ms: None };
        let seen = self.seen.entry(link.address.clone()).or_insert(new);
        if seen.now != link.runs {
            (seen.now, seen.changed_at_ms) = (link.runs, Some(at_ms));
        }
        (link.below || seen.changed_at_ms.is_some()).then(|| PcieLink {
            address: link.address.clone(),
            device: (!link.devices.is_empty()).then(|| link.devices.join(", ")),
            gigatransfers_per_second: link.runs.gt_per_second,
            width: link.runs.width,
            best_gigatransfers_per_second: link.able.gt_per_second,
            best_width: link.able.width,
            was: seen.changed_at_ms.map(|_| seen.first.to_string()),
            changed_at_ms: seen.changed_at_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_loses_lanes_is_reported_of_from_then_on() {
        let full = PciLink { gt_per_second: 16.0, width: 8 };
        let half = PciLink { gt_per_second: 16.0, width: 4 };
        let link = |runs| LinkNow {
            address: "0000:17:00.0".into(),
            devices: vec!["eth0".into()],
            runs,
            able: full,
            below: false,
        };
        let mut links = Links::default();
        assert!(links.lines(&[link(full)], 1).is_empty());
        let lines = links.lines(&[link(half)], 2);
        assert_eq!(
            (lines[0].width, lines[0].was.as_deref(), lines[0].changed_at_ms),
            (4, Some("16 GT/s x8"), Some(2))
        );
        let back = links.lines(&[link(full)], 3);
        assert_eq!((back[0].width, back[0].changed_at_ms), (8, Some(3)), "it changed, and is whole again");
        let below = LinkNow { below: true, ..link(half) };
        assert_eq!(Links::default().lines(&[below], 1)[0].was, None);
    }
}
