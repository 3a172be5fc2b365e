//! A page of metrics, as Prometheus reads it: families with their type, unit and help, samples with their
//! labels.

use std::collections::BTreeSet;
use std::fmt::{Display, Write};

/// Which of the two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsForm {
    OpenMetrics,
    Text,
}

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Its samples end in `_total`, its name does not.
    Counter,
    Gauge,
}

/// A page that is being written.
#[derive(Debug)]
pub struct MetricsPage {
    form: MetricsForm,
    text: String,
}

/// One family that is being written; it is on the page from its first sample on.
pub struct MetricFamily<'a> {
    page: &'a mut MetricsPage,
    name: String,
    kind: MetricKind,
    help: &'static str,
    written: BTreeSet<String>,
}

/// Units that a name may end in; then it is written as the family's unit.
const UNITS: [&str; 5] = ["bytes", "seconds", "joules", "watts", "ratio"];

impl MetricsPage {
    pub fn new(form: MetricsForm) -> Self {
        MetricsPage { form, text: String::new() }
    }

    /// Begins a family: its name without `linerate_` and without `_total`.
    pub fn family(&mut self, kind: MetricKind, name: &str, help: &'static str) -> MetricFamily<'_> {
        MetricFamily { page: self, name: format!("linerate_{name}"), kind, help, written: BTreeSet::new() }
    }

    /// The whole page.
    pub fn end(mut self) -> String {
        if self.form == MetricsForm::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl MetricFamily<'_> {
    /// One sample; what is not known is none. A second one of the same labels is left out: a page with two is
    /// refused as a whole.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Option<f64>>) -> &mut Self {
        match value.into() {
            Some(value) if value.is_finite() => self.write(labels, &value),
            _ => {}
        }
        self
    }

    /// One sample of a counter of the kernel's, with all its digits.
    pub fn count(&mut self, labels: &[(&str, &str)], value: impl Into<Option<u64>>) -> &mut Self {
        if let Some(value) = value.into() {
            self.write(labels, &value);
        }
        self
    }

    fn write(&mut self, labels: &[(&str, &str)], value: &dyn Display) {
        let own: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let own = own.join(",");
        if self.written.is_empty() {
            self.head();
        }
        if self.written.insert(own.clone()) {
            let total = if self.kind == MetricKind::Counter { "_total" } else { "" };
            let braces = if own.is_empty() { String::new() } else { format!("{{{own}}}") };
            let _ = writeln!(self.page.text, "{}{total}{braces} {value}", self.name);
        }
    }

    fn head(&mut self) {
        let (kind, total) = match (self.kind, self.page.form) {
            (MetricKind::Gauge, _) => ("gauge", ""),
            (MetricKind::Counter, MetricsForm::OpenMetrics) => ("counter", ""),
            // The older form knows the name of the sample alone.
            (MetricKind::Counter, MetricsForm::Text) => ("counter", "_total"),
        };
        let name = &self.name;
        let _ = writeln!(self.page.text, "# HELP {name}{total} {}", self.help);
        let _ = writeln!(self.page.text, "# TYPE {name}{total} {kind}");
        let unit = UNITS.iter().find(|unit| name.ends_with(&format!("_{unit}")));
        if let (MetricsForm::OpenMetrics, Some(unit)) = (self.page.form, unit) {
            let _ = writeln!(self.page.text, "# UNIT {name} {unit}");
        }
    }
}

/// A label's value as it is written between quotation marks.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            letter if letter.is_control() => text.push('?'),
            letter => text.push(letter),
        }
    }
    text
}
