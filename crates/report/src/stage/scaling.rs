//! The cells of `linerate disk --scaling`: what all sources together reach of the baseline, over workers,
//! transfer size and layout.

use crate::alike::grouped;
use crate::figure::{Unit, percent, spread};
use crate::job_words;
use linerate_facts::printable::printable;
use linerate_facts::wording::counted;
use linerate_measure::measure::access::{AccessResult, ScalingCurve, title};
use linerate_measure::measure::{Measurement, Scaling};
use linerate_measure::run::Run;
use linerate_measure::run::disk::BestAlone;

/// One cell with all of its sources.
pub(super) struct ScalabilityRow {
    pub(super) workers: String,
    pub(super) transfer: String,
    pub(super) rate: String,
    pub(super) of_baseline: String,
    pub(super) of_best: String,
    pub(super) spread: String,
    /// `at 3 (99 %)`: with how many sources, and the share until then; a dash where each brings its share.
    pub(super) levels_off: String,
    /// What else of the job is not the same in all cells.
    pub(super) job: String,
}

/// All cells, and what is said once of them.
pub(super) struct Scalability {
    /// What all cells have in common: `8 sources, sequential read, depth 16`.
    pub(super) common: String,
    pub(super) rows: Vec<ScalabilityRow>,
    /// Where curves level off, and who is to blame: a sentence for each that is blamed.
    pub(super) limits: Vec<String>,
}

/// Of a run that measured more than one cell; one alone shows its curve.
pub(super) fn scalability(run: &Run) -> Option<Scalability> {
    let scaling = run.scaling.as_ref().filter(|scaling| !scaling.further.is_empty())?;
    let cells: Vec<(&ScalingCurve, &Measurement, &AccessResult)> = scaling
        .curves()
        .filter_map(|curve| {
            let whole = |m: &&Measurement| m.access.as_ref().is_some_and(|of| title(&of.job) == curve.cell);
            let measurement = with_all_sources(run).find(whole)?;
            Some((curve, measurement, measurement.access.as_deref()?))
        })
        .collect();
    let words: Vec<Vec<String>> = cells.iter().map(|(.., access)| job_details(access)).collect();
    let mut common = words.first()?.clone();
    common.retain(|word| words.iter().all(|of| of.contains(word)));
    let row = |((curve, measurement, access), words): (
        &(&ScalingCurve, &Measurement, &AccessResult),
        &Vec<String>,
    )| {
        let own: Vec<&str> = words.iter().filter(|word| !common.contains(word)).map(String::as_str).collect();
        ScalabilityRow {
            workers: access.job.workers.to_string(),
            transfer: job_words::transfer(&access.job),
            rate: Unit::Bytes.show(measurement.bytes_per_second),
            of_baseline: measurement.of_baseline().map(percent).unwrap_or_default(),
            of_best: of_best_alone(run, measurement).map(percent).unwrap_or_default(),
            spread: spread(measurement),
            levels_off: levels_off(curve),
            job: own.join(", "),
        }
    };
    let rows = cells.iter().zip(&words).map(row).collect();
    Some(Scalability { common: common.join(", "), rows, limits: limits(scaling) })
}

/// What several sources reach of as many times the best that one of them reached alone, by whatever workers and
/// transfer of this run, or of one before that was named: few workers cannot fill a source. None: no source was
/// measured alone in this way.
pub(crate) fn of_best_alone(run: &Run, measurement: &Measurement) -> Option<f64> {
    let access = measurement.access.as_ref()?;
    let own = || {
        let all = BestAlone::all(&run.measurements);
        all.iter().find(|best| best.is_like(&access.job)).map(BestAlone::rate)
    };
    let best = access.best_alone_bytes_per_second.or_else(own)?;
    let share = measurement.bytes_per_second / (best * access.job.sources.len() as f64);
    Some(share).filter(|share| share.is_finite())
}

fn levels_off(curve: &ScalingCurve) -> String {
    let Some(at) = curve.levels_off_at else { return "–".into() };
    let there = curve.steps.iter().find(|step| step.devices == at).map(|step| step.share);
    let share = there.filter(|share| share.is_finite() && *share > 0.0);
    share.map_or_else(|| format!("at {at}"), |share| format!("at {at} ({})", percent(share)))
}

/// The measurements in which every source of the run took part.
pub(crate) fn with_all_sources(run: &Run) -> impl Iterator<Item = &Measurement> {
    let count = |m: &Measurement| m.access.as_ref().map_or(0, |access| access.job.sources.len());
    let most = run.measurements.iter().map(count).max().unwrap_or(0);
    run.measurements.iter().filter(move |m| count(m) == most)
}

/// Everything of a job that has no column of its own.
fn job_details(access: &AccessResult) -> Vec<String> {
    let mut words = vec![counted(access.job.sources.len() as u64, "source"), job_words::pattern(&access.job)];
    words.extend(job_words::method(&access.job));
    words
}

/// `6 of 8 cells level off: the disk vda, which all of them lie on`.
fn limits(scaling: &Scaling) -> Vec<String> {
    let cells = scaling.curves().count();
    let level: Vec<&ScalingCurve> = scaling.curves().filter(|curve| curve.levels_off_at.is_some()).collect();
    if level.is_empty() {
        return vec!["no cell levels off: each source brings its share".into()];
    }
    let blamed = grouped(level.into_iter().map(who), |one, other| one == other);
    blamed.iter().map(|all| format!("{} of {cells} cells level off: {}", all.len(), all[0])).collect()
}

/// Who is blamed, without the rate that was reached.
fn who(curve: &ScalingCurve) -> String {
    let blame = printable(curve.held_by.as_deref().unwrap_or("what limits them is unknown"));
    blame.split_once(": ").map_or(blame.clone(), |(_, who)| who.to_string())
}

/// What came of all cells in one sentence.
pub(super) fn sentence(scaling: &Scaling) -> Option<String> {
    let all: Vec<_> = scaling.curves().filter_map(|curve| Some((curve, curve.steps.last()?))).collect();
    let (curve, best) = all.iter().max_by(|a, b| a.1.bytes_per_second.total_cmp(&b.1.bytes_per_second))?;
    let shares = || all.iter().map(|(_, step)| step.share).filter(|share| share.is_finite());
    let (least, most) = (shares().reduce(f64::min)?, shares().reduce(f64::max)?);
    let level = scaling.curves().filter(|curve| curve.levels_off_at.is_some()).count();
    let levels = match level {
        0 => "none levels off".into(),
        1 => "1 levels off".into(),
        several => format!("{several} level off"),
    };
    Some(format!(
        "{} sources reach {} to {} of the baseline in {} cells, of which {levels}. The most was {}: {}.",
        best.devices,
        percent(least),
        percent(most),
        all.len(),
        Unit::Bytes.show(best.bytes_per_second),
        printable(&curve.cell)
    ))
}
