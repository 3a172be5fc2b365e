//! Sections of a job file: each with its own lines and those of `[global]` before it; and what the lines
//! mean.

use super::values::{self, duration, named, size, switch};
use super::{FioJobError, has_no_effect, taken_from_a_file, wrong};
use crate::measure::access::{Access, AccessOrder, Engine, SyncMethod, WriteSync};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// fio's default.
const USUAL_TRANSFER: u64 = 4096;

/// Sections of one file.
const MOST_SECTIONS: usize = 1000;

/// One line: which key has which value; none for a key alone, which switches on.
#[derive(Clone, Debug)]
struct Line {
    number: usize,
    key: &'static str,
    value: Option<String>,
}

/// One job of the file.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) name: String,
    /// Of its head.
    pub(super) line: usize,
    lines: Vec<Line>,
}

/// What a file holds.
pub(super) struct JobFile {
    /// Those that are jobs, with what `[global]` said before them.
    pub(super) sections: Vec<Section>,
    /// Options that change nothing here, each once.
    pub(super) without_effect: Vec<String>,
    /// Lines that cannot be done.
    pub(super) reasons: Vec<FioJobError>,
}

/// Lines that are no job file's at all are the one error; of others all are told.
pub(super) fn sections(text: &str) -> Result<JobFile, FioJobError> {
    let (mut without_effect, mut reasons) = (Vec::<String>::new(), Vec::new());
    let mut global: Vec<Line> = Vec::new();
    let mut sections: Vec<Section> = Vec::new();
    let mut in_global = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let Some(name) = name else {
                return Err(wrong(number, format!("“{}” is not a section like [read]", brief(line))));
            };
            in_global = Some(name == "global");
            if name != "global" {
                sections.push(Section { name: brief(name), line: number, lines: global.clone() });
            }
            if sections.len() > MOST_SECTIONS {
                return Err(wrong(
                    number,
                    format!("more than {MOST_SECTIONS} sections: that is not a job file for one run"),
                ));
            }
            continue;
        }
        let line = match option(line, number) {
            Ok(Some(line)) => line,
            Ok(None) => {
                let name = brief(line.split('=').next().unwrap_or(line).trim());
                if !without_effect.contains(&name) {
                    without_effect.push(name);
                }
                continue;
            }
            Err(reason) => {
                reasons.push(reason);
                continue;
            }
        };
        match (in_global, sections.last_mut()) {
            (Some(true), _) => global.push(line),
            (Some(false), Some(section)) => section.lines.push(line),
            _ => {
                return Err(wrong(
                    number,
                    "an option before the first section; begin with a line like [read]",
                ));
            }
        }
    }
    Ok(JobFile { sections, without_effect, reasons })
}

/// None: it changes nothing here.
fn option(line: &str, number: usize) -> Result<Option<Line>, FioJobError> {
    let (key, value) = match line.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim())),
        None => (line, None),
    };
    if has_no_effect(key, value) {
        return Ok(None);
    }
    let key = taken_from_a_file(&brief(key)).map_err(|why| wrong(number, why))?;
    if value.is_some_and(|value| value.contains("${")) {
        return Err(wrong(
            number,
            format!("`{key}` asks for a variable of the environment; write its value here"),
        ));
    }
    Ok(Some(Line { number, key, value: value.map(String::from) }))
}

/// A word of the file within a sentence: it may be a megabyte of anything.
fn brief(text: &str) -> String {
    let short: String = text.chars().take(60).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().count() > 60 { format!("{short}…") } else { short }
}

impl Section {
    /// The last line with a key counts.
    fn line(&self, key: &str) -> Option<&Line> {
        self.lines.iter().rev().find(|line| line.key == key)
    }

    /// A line with its value; a key alone is an error where a value is wanted.
    fn value(&self, key: &str) -> Result<Option<(&str, usize)>, FioJobError> {
        let Some(line) = self.line(key) else { return Ok(None) };
        match line.value.as_deref().filter(|value| !value.is_empty()) {
            Some(value) => Ok(Some((value, line.number))),
            None => Err(wrong(line.number, format!("`{key}` wants a value: write {key}=…"))),
        }
    }

    /// `time_based`, `time_based=1`; a value that is not a switch counts as off here and is refused in
    /// `switch_of`.
    pub(super) fn is_on(&self, key: &str) -> bool {
        matches!(self.switch_of(key), Ok(Some(true)))
    }

    fn switch_of(&self, key: &str) -> Result<Option<bool>, FioJobError> {
        let Some(line) = self.line(key) else { return Ok(None) };
        let on = switch(line.value.as_deref());
        on.map(Some).ok_or_else(|| wrong(line.number, format!("`{key}` is 0 or 1")))
    }

    pub(super) fn number(
        &self,
        key: &str,
        usual: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, FioJobError> {
        let Some((value, line)) = self.value(key)? else { return Ok(usual) };
        let (least, most) = (range.start(), range.end());
        let number = value.parse::<u64>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            wrong(line, format!("{key}={}: a whole number from {least} to {most}", brief(value)))
        })
    }

    /// A size, or a rate, in fio's units.
    pub(super) fn size(&self, key: &str) -> Result<Option<u64>, FioJobError> {
        let Some((value, line)) = self.value(key)? else { return Ok(None) };
        match size(value) {
            Some(bytes) if bytes > 0 => Ok(Some(bytes)),
            _ => Err(wrong(
                line,
                format!(
                    "{key}={}: one size like 4k or 1g (fio's k is 1024); no range, no percentage",
                    brief(value)
                ),
            )),
        }
    }

    pub(super) fn transfer(&self) -> Result<u64, FioJobError> {
        let bytes = self.size("bs")?.unwrap_or(USUAL_TRANSFER);
        let line = self.line("bs").map_or(self.line, |line| line.number);
        if bytes > 1 << 30 {
            return Err(wrong(line, format!("bs={bytes}: a request has at most 1 GiB")));
        }
        Ok(bytes)
    }

    /// Where to read or write; true: one file, or several, by their names.
    pub(super) fn sources(&self) -> Result<(Vec<PathBuf>, bool), FioJobError> {
        let files = self.value("nrfiles")?;
        if let Some((value, line)) = files.filter(|(value, _)| *value != "1") {
            return Err(wrong(
                line,
                format!("nrfiles={}: linerate has one file for each worker; take the line out", brief(value)),
            ));
        }
        let directories: Vec<PathBuf> =
            self.value("directory")?.map(|(value, _)| named(value)).unwrap_or_default();
        let Some((value, line)) = self.value("filename")? else {
            let here = if directories.is_empty() { vec![PathBuf::from(".")] } else { directories };
            return Ok((here, false));
        };
        let files = named(value);
        if files.is_empty() {
            return Err(wrong(line, "filename names no file"));
        }
        match &directories[..] {
            [] => Ok((files, true)),
            [one] => Ok((files.iter().map(|file| one.join(file)).collect(), true)),
            _ => Err(wrong(line, "filename together with several directories; name the files in full")),
        }
    }

    pub(super) fn engine(&self) -> Result<(Engine, Option<String>), FioJobError> {
        let Some((value, line)) = self.value("ioengine")? else { return Ok((Engine::Psync, None)) };
        let note = match value {
            "libaio" => Some("ioengine=libaio: done with io_uring, which took its place".into()),
            "io_uring" | "psync" | "mmap" => None,
            _ => Some(format!("ioengine={}: done with pread and pwrite", brief(value))),
        };
        let engine = values::engine(value).ok_or_else(|| {
            wrong(
                line,
                format!(
                    "ioengine={}: linerate has io_uring (also for libaio), psync (also for sync) and mmap",
                    brief(value)
                ),
            )
        })?;
        Ok((engine, note))
    }

    pub(super) fn pattern(&self) -> Result<(AccessOrder, Access), FioJobError> {
        let (value, line) = self.value("rw")?.unwrap_or(("read", self.line));
        let mixed = self.mixed()?;
        values::pattern(value, mixed).ok_or_else(|| {
            wrong(
                line,
                format!("rw={}: linerate has read, write, rw, randread, randwrite and randrw", brief(value)),
            )
        })
    }

    fn mixed(&self) -> Result<Access, FioJobError> {
        let share = |key: &str| self.line(key).map(|_| self.number(key, 50, 0..=100)).transpose();
        Ok(values::mixed(share("rwmixread")?, share("rwmixwrite")?))
    }

    /// Buffered where nothing is told, as fio has it; the later line counts.
    pub(super) fn direct(&self) -> Result<bool, FioJobError> {
        let direct = self.switch_of("direct")?;
        let buffered = self.switch_of("buffered")?;
        for key in [
            "end_fsync",
            "fsync_on_close",
            "time_based",
            "group_reporting",
            "stonewall",
            "thread",
            "wait_for_previous",
        ] {
            self.switch_of(key)?;
        }
        let later = |key: &str| self.line(key).map_or(0, |line| line.number);
        Ok(match (direct, buffered) {
            (Some(direct), None) => direct,
            (None, Some(buffered)) => !buffered,
            (Some(direct), Some(_)) if later("direct") > later("buffered") => direct,
            (_, Some(buffered)) => !buffered,
            (None, None) => false,
        })
    }

    /// When a write is durable; none: nothing is asked of it, or nothing is written.
    pub(super) fn sync(
        &self,
        access: Access,
        engine: Engine,
        notes: &mut Vec<String>,
    ) -> Result<Option<WriteSync>, FioJobError> {
        let mut asked = Vec::new();
        for (key, method) in [("fdatasync", SyncMethod::Data), ("fsync", SyncMethod::Full)] {
            let every = self.number(key, 0, 0..=u64::from(u32::MAX))? as u32;
            asked.extend((every > 0).then_some((key, WriteSync { method, every })));
        }
        match self.value("sync")? {
            None | Some(("0" | "none", _)) => {}
            Some((value @ ("1" | "sync" | "dsync"), _)) => {
                if value != "dsync" {
                    notes.push(format!(
                        "sync={value} (O_SYNC): done with O_DSYNC, which leaves times and the like"
                    ));
                }
                asked.push(("sync", WriteSync { method: SyncMethod::Direct, every: 1 }));
            }
            Some((value, line)) => {
                return Err(wrong(line, format!("sync={}: 0, 1, none, sync or dsync", brief(value))));
            }
        }
        let refused = |why| Err(wrong(self.line, format!("[{}] has {why}", self.name)));
        match asked[..] {
            [(one, _), (other, _), ..] => refused(format!("both {one} and {other}; keep one of them")),
            [(key, _)] if matches!(access, Access::Read | Access::Mixed { read_share: 1.0 }) => {
                notes.push(format!("{key} has no effect on reads"));
                Ok(None)
            }
            [("sync", _)] if engine == Engine::Mmap => {
                refused("sync with ioengine=mmap; write fdatasync=1".into())
            }
            [(_, sync)] => Ok(Some(sync)),
            [] => Ok(None),
        }
    }

    /// How long; none: each worker does its part once.
    pub(super) fn seconds(&self, notes: &mut Vec<String>) -> Result<Option<f64>, FioJobError> {
        let time = |key: &str| -> Result<Option<f64>, FioJobError> {
            let Some((value, line)) = self.value(key)? else { return Ok(None) };
            match duration(value) {
                Some(seconds) if seconds <= 86_400.0 * 30.0 => Ok(Some(seconds)),
                _ => Err(wrong(line, format!("{key}={}: a time like 30, 30s, 5m or 500ms", brief(value)))),
            }
        };
        if time("ramp_time")?.is_some_and(|seconds| seconds > 0.0) {
            notes.push("ramp_time is not used: linerate warms up before each measurement by itself".into());
        }
        let runtime = time("runtime")?.filter(|seconds| *seconds > 0.0);
        match (runtime, self.is_on("time_based")) {
            (Some(seconds), true) => Ok(Some(seconds)),
            (Some(_), false) => {
                notes.push(
                    "runtime without time_based: each worker does its size once, however long that takes"
                        .into(),
                );
                Ok(None)
            }
            (None, true) => Err(wrong(
                self.line,
                format!("[{}] is time_based without a runtime; add runtime=30", self.name),
            )),
            (None, false) => Ok(None),
        }
    }
}
