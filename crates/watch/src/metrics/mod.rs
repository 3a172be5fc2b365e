//! A moment as metrics: OpenMetrics 1.0 (`application/openmetrics-text; version=1.0.0; charset=utf-8`), or
//! the older text that every Prometheus takes (`text/plain; version=0.0.4`). Names and labels follow
//! node_exporter's, with `linerate_` before them; counters are the kernel's own, so that a scrape more or
//! less loses nothing.

mod families;

use super::model::Moment;
use linerate_facts::metrics::{MetricsForm, MetricsPage};

/// The page for `Accept: application/openmetrics-text`.
pub fn openmetrics(moment: &Moment) -> String {
    show(moment, MetricsForm::OpenMetrics)
}

/// The page for everybody else.
pub fn prometheus_text(moment: &Moment) -> String {
    show(moment, MetricsForm::Text)
}

fn show(moment: &Moment, form: MetricsForm) -> String {
    let mut page = MetricsPage::new(form);
    families::about(&mut page, moment);
    families::nics(&mut page, moment);
    families::disks(&mut page, moment);
    families::cpus(&mut page, moment);
    families::memory(&mut page, moment);
    families::network(&mut page, moment);
    families::programs(&mut page, moment);
    families::links(&mut page, moment);
    families::power(&mut page, moment);
    page.end()
}
