//! The table of resources in a plan: what each could do, how much of it the flow uses.

use crate::alike::grouped;
use crate::document::{Block, Table, TableRow, dim};
use crate::figure::percent;
use crate::grid::{Column, name, notes, number};
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_model::plan::flow::FlowPlan;
use linerate_model::plan::wording::{self, ranged};
use linerate_model::plan::{Origin, Resource, ResourceKind};

/// Rows of the table; what is idle and does not bind is left out first.
const MOST_ROWS: usize = 16;
/// Resources whose use differs by less are alike.
const LIKE: f64 = 0.02;

const COLUMNS: [Column; 5] =
    [name("resource"), number("rated", 0), number("capacity", 0), number("used", 0), notes("notes")];

/// The table, and how many rows it lacks.
pub(super) fn blocks(plan: &FlowPlan) -> Vec<Block<'static>> {
    let mut rows = rows(plan);
    let more = rows.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        rows.sort_by_key(|row| !row.cut && row.used.unwrap_or(0.0) == 0.0);
        rows.truncate(MOST_ROWS);
    }
    let row = |row: &ResourceRow| TableRow::of(row.cells()).marked(row.cut);
    let table = Block::Table(Table::new(COLUMNS, rows.iter().map(row)));
    let left = (more > 0).then(|| Block::Text(dim(format!("and {more} more, with --json"))));
    std::iter::once(table).chain(left).collect()
}

/// One resource, or several that are alike.
struct ResourceRow {
    name: String,
    kind: ResourceKind,
    rated: Option<f64>,
    capacity: Option<f64>,
    used: Option<f64>,
    note: String,
    cut: bool,
}

impl ResourceRow {
    fn cells(&self) -> Vec<String> {
        let rate = |rate: Option<f64>| rate.map_or("unknown".to_string(), |rate| self.show(rate));
        let used = self.used.filter(|_| self.capacity.is_some()).map_or("–".to_string(), percent);
        vec![self.name.clone(), rate(self.rated), rate(self.capacity), used, self.note.clone()]
    }

    fn show(&self, rate: f64) -> String {
        match self.kind {
            ResourceKind::Nic | ResourceKind::Pcie | ResourceKind::SocketLink => show_bits_rate(rate),
            _ => show_bytes_rate(rate),
        }
    }
}

/// Resources in the order of the bytes; neighbours that are alike are one row.
fn rows(plan: &FlowPlan) -> Vec<ResourceRow> {
    let is_cut = |resource: &Resource| plan.likely.cut.contains(&resource.id);
    let alike = |a: &Resource, b: &Resource| {
        a.kind == b.kind
            && a.capacity == b.capacity
            && a.rated == b.rated
            && is_cut(a) == is_cut(b)
            && a.why == b.why
            && (a.utilisation - b.utilisation).abs() < LIKE
    };
    let groups = grouped(&plan.resources, |one, other| alike(one, other));
    let row = |group: &Vec<&Resource>| {
        let first = group[0];
        let names: Vec<&str> = group.iter().map(|resource| wording::name(&resource.id)).collect();
        let word = first.id.split_once(':').map_or(first.id.as_str(), |(word, _)| word);
        let each = if group.len() > 1 { format!(" ({} alike)", group.len()) } else { String::new() };
        let named =
            if names == [word] { word.to_string() } else { format!("{word}:{}{each}", ranged(&names)) };
        let known = first.origin != Origin::Unknown;
        let cut = is_cut(first);
        let why = first.why.clone().unwrap_or_default();
        let note = if cut && why.is_empty() { "limits the flow".into() } else { why };
        ResourceRow {
            name: named,
            kind: first.kind,
            rated: first.rated,
            capacity: known.then_some(first.capacity),
            used: plan.missing.is_none().then_some(first.utilisation),
            note,
            cut,
        }
    };
    groups.iter().map(row).collect()
}
