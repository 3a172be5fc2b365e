//! Tries settings in turns with the state before, and keeps only what helped beyond noise. Every change goes
//! through the journal: whatever ends a trial in its middle, `tune undo` restores the earlier values.

mod tried;
mod turns;

pub(crate) use tried::Subject;
pub use tried::{Links, TrialMachine, TrialResult, Try, ValueChange};
pub use turns::{Effect, StateWindows, TwoStates, judge, turns};

use super::journal::{Host, Journal};
use super::kernel_access::KernelAccess;
use linerate_facts::failure::Failure;
use linerate_measure::event::{Event, Listener};
use linerate_measure::measure::Stage;
use linerate_measure::run::again::{
    FigureContext, FigureSpec, PreparedFigure, ProcessOptions, with_prepared,
};

/// On what, how often, by which rate.
#[derive(Clone, Debug)]
pub struct TrialSpec {
    pub figure_spec: FigureSpec,
    /// Windows of the wanted state; there is one more of the state before.
    pub rounds: usize,
    /// What pacing keeps to, bytes per second.
    pub rate: Option<f64>,
}

/// Whose settings, and where they are noted.
pub struct TrialTarget<'a> {
    pub access: &'a dyn KernelAccess,
    pub host: &'a Host,
    /// RFC 3339, for the journal.
    pub started: &'a str,
}

/// Tries all in their order, those of one figure on one prepared. What stops all of it (Ctrl-C, a setting that
/// cannot be restored) is the second value.
pub fn measure(
    target: &TrialTarget<'_>,
    journal: &mut Journal<'_>,
    context: FigureContext<'_>,
    spec: &TrialSpec,
    tries: Vec<Try>,
    listener: &mut dyn Listener,
) -> (Vec<TrialResult>, Option<Failure>) {
    let mut all = Vec::new();
    let mut left: Vec<Try> = tries;
    while let Some(first) = left.first() {
        let (figure, process) = (first.figure(), matches!(first, Try::Process(_)));
        let same = |item: &Try| item.figure() == figure && matches!(item, Try::Process(_)) == process;
        let (now, later) = left.into_iter().partition::<Vec<Try>, _>(|item| same(item));
        left = later;
        let (can, cannot): (Vec<Try>, Vec<Try>) =
            now.into_iter().partition(|item| item.untried(target.access, context, spec).is_none());
        for item in cannot {
            let why = item.untried(target.access, context, spec).unwrap_or_default();
            all.push(item.without_figure(target.access, why));
        }
        if can.is_empty() {
            continue;
        }
        let mut session =
            TrialSession { target, journal: &mut *journal, context, spec, listener: &mut *listener };
        let done = with_prepared(context, figure, &spec.figure_spec, |prepared| session.each(prepared, &can));
        let stopped = match done {
            Ok((tried, stopped)) => {
                all.extend(tried);
                stopped
            }
            Err(Failure::Interrupted) => Some(Failure::Interrupted),
            Err(failure) => {
                let why = failure.to_string();
                let failed = |item: &Try| TrialResult {
                    failed: true,
                    ..item.without_figure(target.access, why.clone())
                };
                all.extend(can.iter().map(failed));
                None
            }
        };
        if stopped.is_some() {
            return (all, stopped);
        }
    }
    (all, None)
}

/// Trials of one figure at work.
struct TrialSession<'a, 'j, 'l> {
    target: &'a TrialTarget<'a>,
    journal: &'l mut Journal<'j>,
    context: FigureContext<'a>,
    spec: &'a TrialSpec,
    listener: &'l mut dyn Listener,
}

impl TrialSession<'_, '_, '_> {
    fn each(
        &mut self,
        prepared: &mut dyn PreparedFigure,
        tries: &[Try],
    ) -> (Vec<TrialResult>, Option<Failure>) {
        let mut all = Vec::new();
        for (index, item) in tries.iter().enumerate() {
            let windows = 2 * self.spec.rounds + 2;
            let seconds = (tries.len() - index) as f64 * windows as f64 * self.spec.figure_spec.seconds * 1.4;
            self.listener.hear(&Event::Remaining { seconds });
            let (result, stopped) = self.run(prepared, item);
            all.push(result);
            if stopped.is_some() {
                return (all, stopped);
            }
        }
        (all, None)
    }

    fn run(&mut self, prepared: &mut dyn PreparedFigure, item: &Try) -> (TrialResult, Option<Failure>) {
        let begun = item.begun(self.target.access);
        let first = self.journal.state().steps.len();
        let stage = if item.figure().has_network() { Stage::Network } else { Stage::Disk };
        let seconds = self.spec.figure_spec.seconds;
        self.listener.hear(&Event::Started { stage, name: begun.name.clone(), seconds });
        let context = self.context;
        let links =
            |name: &str| context.sysroot.text(format!("/sys/class/net/{name}/carrier")).as_deref() == Ok("1");
        let subject = match item {
            Try::Process(own) => Subject::Process { own, held: None },
            Try::Machine(trial) => Subject::Machine {
                first,
                machine: TrialMachine {
                    access: self.target.access,
                    journal: &mut *self.journal,
                    host: self.target.host,
                    started: self.target.started,
                    changes: trial.changes.clone(),
                    links: &links,
                },
            },
        };
        let mut scene = SwitchedFigure {
            prepared,
            subject,
            wanted: false,
            rate: self.spec.rate,
            stage,
            listener: &mut *self.listener,
        };
        let measured = turns(&mut scene, self.spec.rounds);
        let mut subject = scene.subject;
        let (before, wanted) = match measured {
            Ok(windows) => windows,
            Err(failure) => {
                drop(subject);
                let open = self.journal.state().open().any(|(n, _)| n >= first);
                let why = match &failure {
                    Failure::Interrupted => "interrupted".to_string(),
                    failure => failure.to_string(),
                };
                let result = TrialResult { why: Some(why), failed: true, ..begun };
                let ends = open || matches!(failure, Failure::Interrupted);
                return (result, ends.then_some(failure));
            }
        };
        let (effect, share) = judge(&before, &wanted);
        let mut result = TrialResult {
            effect: Some(effect),
            change: Some(share),
            before: Some(before),
            wanted: Some(wanted),
            ..begun
        };
        if let (Effect::Helped, Subject::Machine { machine, .. }) = (effect, &mut subject) {
            match machine.apply_wanted() {
                Ok(_) => result.kept = true,
                Err(failure) => (result.why, result.failed) = (Some(failure.to_string()), true),
            }
        }
        (result, None)
    }
}

/// A prepared figure, whose machine is switched between the two states.
struct SwitchedFigure<'s, 'a, 'j> {
    prepared: &'s mut dyn PreparedFigure,
    subject: Subject<'a, 'j>,
    wanted: bool,
    rate: Option<f64>,
    stage: Stage,
    listener: &'s mut dyn Listener,
}

impl TwoStates for SwitchedFigure<'_, '_, '_> {
    fn window(&mut self) -> Result<f64, Failure> {
        let options: ProcessOptions = self.subject.options(self.wanted, self.rate);
        self.prepared.take(&options, self.wanted)
    }

    fn switch(&mut self, wanted: bool) -> Result<(), Failure> {
        self.subject.switch(wanted)?;
        self.wanted = wanted;
        Ok(())
    }

    fn tell(&mut self, _: bool, rate: f64, _: usize) {
        self.listener.hear(&Event::Progress { stage: self.stage, bytes_per_second: rate });
    }
}
