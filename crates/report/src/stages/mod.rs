//! The measurements as rows for the eye: each with what its resource is rated for, and many alike devices as
//! one group.

mod table;

use super::figure::{Figure, Unit};
use super::verdict::{RunVerdict, device, resources};
use linerate_facts::printable::printable;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::{LimitedBy, Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::{Origin, Resource, ResourceKind};
pub(super) use table::{TableView, part};

/// One measurement beside what its resource should do.
#[derive(Clone, Debug)]
pub(super) struct DeviceRow<'a> {
    pub(super) measurement: &'a Measurement,
    pub(super) unit: Unit,
    pub(super) rated: Figure,
    pub(super) effective: Figure,
    pub(super) measured: Figure,
}

/// A row, or many devices that were measured alone in the same way.
#[derive(Clone, Debug)]
pub(super) enum Entry<'a> {
    One(DeviceRow<'a>),
    Many(Group<'a>),
}

/// Devices that were measured alone in the same way; never empty.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) rows: Vec<DeviceRow<'a>>,
}

impl DeviceRow<'_> {
    /// Name of the measurement, fit to be shown.
    pub(super) fn name(&self) -> String {
        printable(&self.measurement.name)
    }

    /// What held the stage, where its figure is only a lower bound.
    pub(super) fn limits(&self) -> Option<&'static str> {
        if !self.measurement.lower_bound && self.measurement.held_by.is_none() {
            return None;
        }
        Some(self.measurement.held_by.map_or("limited by something else", LimitedBy::words))
    }

    /// What is wrong or to be known, in one line: loss and flags.
    pub(super) fn remarks(&self) -> String {
        let mut remarks: Vec<String> = Vec::new();
        if self.measurement.loss > 0.0 {
            remarks.push(format!("{} lost", super::figure::percent(self.measurement.loss)));
        }
        remarks.extend(self.measurement.flags.iter().map(|flag| printable(flag)));
        remarks.join(", ")
    }
}

impl Group<'_> {
    /// `64 disks`, `16 NICs tcp + file`: each of them alone.
    pub(super) fn name(&self) -> String {
        let first = self.rows[0].measurement;
        let what = match first.stage {
            Stage::Network => "NICs",
            _ => "disks",
        };
        let protocol = first.protocol.map(|protocol| format!(" {protocol}")).unwrap_or_default();
        let file = if first.with_file { " + file" } else { "" };
        format!("{} {what}{protocol}{file}", self.rows.len())
    }

    /// One of them is what limits the flow.
    pub(super) fn is_cut(&self, verdict: &RunVerdict) -> bool {
        self.rows.iter().any(|row| verdict.cut.contains(&row.measurement.resource))
    }

    /// `812–1020 MB/s`, or unknown.
    pub(super) fn range(&self, figure: impl for<'r, 's> Fn(&'r DeviceRow<'s>) -> &'r Figure) -> String {
        let values: Vec<f64> = self.rows.iter().filter_map(|row| figure(row).value).collect();
        if values.len() < self.rows.len() {
            return "unknown".into();
        }
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let bound = if self.rows.iter().any(|row| figure(row).at_least) { "≥ " } else { "" };
        format!("{bound}{}", self.rows[0].unit.show_range(low, high))
    }

    /// The row with the least rate.
    pub(super) fn slowest(&self) -> &DeviceRow<'_> {
        let rate = |row: &DeviceRow| row.measured.value.unwrap_or(f64::MAX);
        self.rows.iter().min_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(&self.rows[0])
    }

    /// `slowest loop1: 20.0 MB/s`.
    pub(super) fn slowest_text(&self) -> String {
        let slowest = self.slowest();
        format!("slowest {}: {}", device(&slowest.measurement.resource), slowest.measured.show(slowest.unit))
    }

    /// How many rows carry a remark, and the first of them.
    pub(super) fn remarks(&self) -> String {
        let remarked: Vec<String> =
            self.rows.iter().map(DeviceRow::remarks).filter(|remarks| !remarks.is_empty()).collect();
        remarked.first().map_or_else(String::new, |first| format!("{} of them: {first}", remarked.len()))
    }

    /// The largest of a quantity over the rows.
    pub(super) fn largest(&self, quantity: impl Fn(&Measurement) -> f64) -> f64 {
        self.rows.iter().map(|row| quantity(row.measurement)).fold(0.0, f64::max)
    }
}

/// All measurements as rows, in the order of the path: memory, disk, network, path.
pub(super) fn rows(run: &Run) -> Vec<DeviceRow<'_>> {
    let known = resources(run);
    let mut rows: Vec<DeviceRow> =
        run.measurements.iter().map(|measurement| row(run, &known, measurement)).collect();
    rows.sort_by_key(|row| row.measurement.stage);
    rows
}

fn row<'a>(run: &'a Run, known: &[&Resource], measurement: &'a Measurement) -> DeviceRow<'a> {
    let (rated, effective) = expected(run, known, measurement);
    let mut measured = Figure::of(Some(measurement.bytes_per_second), Origin::Measured);
    measured.at_least = measurement.lower_bound && measured.value.is_some();
    let unit = if measurement.stage == Stage::Network { Unit::Bits } else { Unit::Bytes };
    DeviceRow { measurement, unit, rated, effective, measured }
}

/// What the data sheets say of that which was measured: one resource, or the sum of all of its kind.
fn expected(run: &Run, known: &[&Resource], measurement: &Measurement) -> (Figure, Figure) {
    if let Some(resource) = known.iter().find(|resource| resource.id == measurement.resource) {
        return (Figure::rated(resource), Figure::effective(resource));
    }
    let kind = match measurement.stage {
        Stage::Memory => {
            let rated = Figure::of_fact(&run.machine.memory.rated_bytes_per_second, Origin::Rated);
            return (rated, Figure::unknown(None));
        }
        Stage::Disk | Stage::Load => ResourceKind::Disk,
        Stage::Get | Stage::Put | Stage::Explain => return (Figure::unknown(None), Figure::unknown(None)),
        Stage::Network | Stage::Fleet => ResourceKind::Nic,
        Stage::Path => {
            let ceiling = run
                .diagnosis
                .as_ref()
                .and_then(|d| d.ceiling.as_ref())
                .or(run.plan.as_ref().map(|p| &p.ceiling));
            let effective = ceiling.map(|bound| Figure::of_fact(&bound.bytes_per_second, Origin::Effective));
            return (Figure::unknown(None), effective.unwrap_or(Figure::unknown(None)));
        }
    };
    let alike = || known.iter().filter(|resource| resource.kind == kind);
    if !measurement.together {
        return (Figure::unknown(None), Figure::unknown(None));
    }
    (Figure::sum(alike().map(|r| Figure::rated(r))), Figure::sum(alike().map(|r| Figure::effective(r))))
}

/// The rows, with devices that were measured alone in the same way put together where they are more than
/// `limit`.
pub(super) fn grouped<'a>(rows: &[DeviceRow<'a>], limit: usize) -> Vec<Entry<'a>> {
    type Alike = (Stage, Option<Protocol>, bool);
    let key = |row: &DeviceRow| -> Option<Alike> {
        let m = row.measurement;
        let device = matches!(m.stage, Stage::Disk | Stage::Network) && !m.together;
        device.then_some((m.stage, m.protocol, m.with_file))
    };
    let mut entries: Vec<Entry> = Vec::new();
    let mut done: Vec<Alike> = Vec::new();
    for row in rows {
        let Some(alike) = key(row) else {
            entries.push(Entry::One(row.clone()));
            continue;
        };
        if done.contains(&alike) {
            continue;
        }
        let group: Vec<DeviceRow> = rows.iter().filter(|other| key(other) == Some(alike)).cloned().collect();
        if group.len() > limit.max(1) {
            entries.push(Entry::Many(Group { rows: group }));
            done.push(alike);
        } else {
            entries.push(Entry::One(row.clone()));
        }
    }
    entries
}
