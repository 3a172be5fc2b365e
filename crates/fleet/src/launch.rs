//! Starts the members by the site's own launcher, and ends what it started.
//!
//! The words of `--launch` are followed by the member's command. `{hosts}` becomes the list, `{host}` one host:
//! the launcher is then started once for each. The key goes by the environment, and by standard input to a
//! member whose launcher has not passed the environment on (ssh): never by arguments, which every user sees.

use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use linerate_system::process::{end_of, kill_group};
use linerate_system::stop::Stop;
use linerate_transport::agent::{KEY_VARIABLE, Key};
use linerate_transport::ssh::keep_last_lines;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How `--hosts` are reached where no launcher is named: nothing is asked, and a host that does not answer is
/// one that is missing.
pub const SSH_WORDS: &str = "ssh -o BatchMode=yes -o ConnectTimeout=5 {host}";
/// Open MPI passes on what this names (mpirun(1), `-x`).
const OPEN_MPI_ENVIRONMENT: &str = "OMPI_MCA_mca_base_env_list";
/// Of what a launcher complains about, the end is kept: whole lines up to these bytes.
const LONGEST_LINE_BYTES: u64 = 4096;
/// What the members were told to end has this long.
const END: Duration = Duration::from_millis(1500);

/// Why no member could be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("--launch names no program; write one such as 'mpirun -np 8' or 'pdsh -w {{hosts}}'")]
    Empty,
    #[error("--launch {0}: a quotation mark has no other end")]
    Quote(String),
    #[error("--launch {0} has {{host}} or {{hosts}}, and no hosts are given: add --hosts or --hostfile")]
    NoHosts(String),
    #[error(
        "--hosts are given, and --launch {0} does not say where they go: write {{hosts}}, or {{host}} to start it once for each"
    )]
    HostsUnused(String),
    #[error(
        "the path of this program, {0}, has a blank or a quotation mark: install it elsewhere, or name it with --program"
    )]
    Program(String),
    #[error("{program} cannot be started: {error}; is it installed, and in PATH?")]
    NotStarted { program: String, error: io::Error },
}

impl LaunchError {
    /// The words are wrong, and not what they name.
    pub fn is_usage(&self) -> bool {
        !matches!(self, LaunchError::NotStarted { .. } | LaunchError::Program(_))
    }
}

/// The launcher's words and the hosts that they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPlan {
    words: Vec<String>,
    hosts: Vec<String>,
    each: bool,
}

impl LaunchPlan {
    /// Checks the words against the hosts.
    pub fn new(text: &str, hosts: &[String]) -> Result<LaunchPlan, LaunchError> {
        let words = split(text)?;
        if words.is_empty() {
            return Err(LaunchError::Empty);
        }
        let has = |name: &str| words.iter().any(|word| word.contains(name));
        let (each, all) = (has("{host}"), has("{hosts}"));
        if (each || all) && hosts.is_empty() {
            return Err(LaunchError::NoHosts(text.into()));
        }
        if !each && !all && !hosts.is_empty() {
            return Err(LaunchError::HostsUnused(text.into()));
        }
        Ok(LaunchPlan { words, hosts: hosts.to_vec(), each })
    }

    /// Command lines, each with the host that it is for.
    fn commands(&self, member: &[String]) -> Vec<(Option<String>, Vec<String>)> {
        if !self.each {
            return vec![(None, [self.line(""), member.to_vec()].concat())];
        }
        let one = |host: &String| {
            let name = ["--name".to_string(), host.clone()];
            (Some(host.clone()), [&self.line(host)[..], member, &name].concat())
        };
        self.hosts.iter().map(one).collect()
    }

    /// The launcher's own words, for one host.
    fn line(&self, host: &str) -> Vec<String> {
        let list = self.hosts.join(",");
        self.words.iter().map(|word| word.replace("{hosts}", &list).replace("{host}", host)).collect()
    }

    /// It is started once for each host.
    pub fn is_for_each(&self) -> bool {
        self.each
    }

    /// Starts the members.
    pub(crate) fn start(&self, member: &[String], key: &Key) -> Result<LaunchedMembers, LaunchError> {
        check_program(member)?;
        let mut launched = LaunchedMembers { processes: Vec::new() };
        for (host, words) in self.commands(member) {
            // A launcher may wait for the end of its input.
            launched.processes.push(LaunchedProcess { stdin: None, ..spawn(host, &words, key)? });
        }
        Ok(launched)
    }

    /// Starts what runs on one host, which gets the key by standard input and has it open for as long as this is
    /// kept: at its end the starter has gone, too.
    pub fn start_one(
        &self,
        host: &str,
        member: &[String],
        key: &Key,
    ) -> Result<LaunchedMembers, LaunchError> {
        check_program(member)?;
        let words = [self.line(host), member.to_vec()].concat();
        Ok(LaunchedMembers { processes: vec![spawn(Some(host.into()), &words, key)?] })
    }
}

/// Between here and there may be a shell, which ssh has and mpirun has not.
fn check_program(member: &[String]) -> Result<(), LaunchError> {
    match member.first().filter(|path| path.contains([' ', '\'', '"', '\t', '\n'])) {
        Some(program) => Err(LaunchError::Program(program.clone())),
        None => Ok(()),
    }
}

fn spawn(host: Option<String>, words: &[String], key: &Key) -> Result<LaunchedProcess, LaunchError> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: Ctrl-C at our terminal is for us, and all of it ends with one signal.
    command.env(KEY_VARIABLE, key.to_hex()).process_group(0);
    if !words.iter().any(|word| word == "-x" || word.contains(OPEN_MPI_ENVIRONMENT)) {
        command.env(OPEN_MPI_ENVIRONMENT, KEY_VARIABLE);
    }
    let child =
        command.spawn().map_err(|error| LaunchError::NotStarted { program: words[0].clone(), error })?;
    Ok(LaunchedProcess::watch(host, words[0].clone(), child, key))
}

/// Rank 0 of a job is a member as well: by a process of its own, so that the coordinator's CPU time is not in its
/// figures.
pub(crate) fn start_own(member: &[String], key: &Key) -> Result<LaunchedMembers, LaunchError> {
    let process = spawn(Some("rank 0".into()), member, key)?;
    Ok(LaunchedMembers { processes: vec![LaunchedProcess { stdin: None, ..process }] })
}

/// One launcher that runs.
struct LaunchedProcess {
    host: Option<String>,
    program: String,
    child: Child,
    stdin: Option<ChildStdin>,
    last_lines: Arc<Mutex<VecDeque<String>>>,
    /// Its end was reported.
    reported: bool,
}

impl LaunchedProcess {
    fn watch(host: Option<String>, program: String, mut child: Child, key: &Key) -> LaunchedProcess {
        let last_lines = Arc::new(Mutex::new(VecDeque::new()));
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            // Who has ended already says why on its standard error.
            let _ = writeln!(stdin, "{}", key.to_hex());
        }
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
            child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        ];
        for output in outputs.into_iter().flatten() {
            let kept = Arc::clone(&last_lines);
            // Without a thread nobody reads what it says: the pipe then fills, which a member survives.
            let _ = std::thread::Builder::new()
                .name("launcher".into())
                .spawn(move || keep_last_lines(output, LONGEST_LINE_BYTES, &kept));
        }
        LaunchedProcess { host, program, child, stdin, last_lines, reported: false }
    }
}

/// All launchers of a fleet; dropping this ends them and what they started here.
pub struct LaunchedMembers {
    processes: Vec<LaunchedProcess>,
}

/// A launcher that ended before its member came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchEnd {
    /// The host that it was for; none: all.
    pub host: Option<String>,
    pub why: String,
}

impl LaunchedMembers {
    /// Those that have ended since this was asked last.
    pub fn ended(&mut self) -> Vec<LaunchEnd> {
        let mut ends = Vec::new();
        for process in self.processes.iter_mut().filter(|process| !process.reported) {
            let Ok(Some(status)) = process.child.try_wait() else { continue };
            process.reported = true;
            if status.success() {
                // It may have put its members into the background.
                continue;
            }
            // What it said last may still be on its way through the pipe; too short a moment to be stopped.
            clock::sleep(POLL_INTERVAL);
            let lines: Vec<String> = lock(&process.last_lines).iter().cloned().collect();
            let said = if lines.is_empty() { "it said nothing".into() } else { lines.join("; ") };
            ends.push(LaunchEnd {
                host: process.host.clone(),
                why: format!("{} ended with {status}: {said}", process.program),
            });
        }
        ends
    }

    /// One of them runs.
    pub fn is_running(&mut self) -> bool {
        self.processes.iter_mut().any(|process| matches!(process.child.try_wait(), Ok(None)))
    }

    /// Says to those that have their input open that it is over.
    pub fn close_input(&mut self) {
        self.processes.iter_mut().for_each(|process| drop(process.stdin.take()));
    }

    /// Waits for those whose members have left, then kills the rest.
    pub(crate) fn end(&mut self) {
        self.close_input();
        let deadline = clock::now() + END;
        // Their members leave with the coordinator, also where it was stopped.
        let never = Stop::new();
        for process in &mut self.processes {
            if matches!(end_of(&mut process.child, &never, deadline), Ok(None)) {
                kill_group(process.child.id());
                let _ = process.child.wait();
            }
        }
    }
}

impl Drop for LaunchedMembers {
    fn drop(&mut self) {
        self.end();
    }
}

/// Words as a shell splits them: blanks, both quotation marks, a backslash before one character. Nothing is
/// expanded.
fn split(text: &str) -> Result<Vec<String>, LaunchError> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (_, '\\') => word.get_or_insert_default().extend(characters.next()),
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err(LaunchError::Quote(text.into()));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Instant;

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn the_words_of_a_launcher_become_command_lines() {
        let member = hosts(&["linerate", "fleet-member", "--join", "10.0.0.1:7412"]);
        let both = hosts(&["a1", "a2"]);
        let pdsh = LaunchPlan::new("pdsh -w {hosts}", &both).expect("a plan").commands(&member);
        assert_eq!(pdsh.len(), 1);
        assert_eq!(pdsh[0].1.join(" "), "pdsh -w a1,a2 linerate fleet-member --join 10.0.0.1:7412");
        let ssh = LaunchPlan::new("ssh root@{host}", &both).expect("a plan").commands(&member);
        assert_eq!(ssh[1].0.as_deref(), Some("a2"));
        assert_eq!(ssh[1].1.join(" "), "ssh root@a2 linerate fleet-member --join 10.0.0.1:7412 --name a2");
        let mpirun = LaunchPlan::new("mpirun -np 4", &[]).expect("a plan").commands(&member);
        assert_eq!((mpirun.len(), mpirun[0].1[2].as_str()), (1, "4"));
    }

    #[test]
    fn a_launcher_that_cannot_be_is_refused_in_a_sentence() {
        for (text, names, why) in [
            (" ", &[][..], "no program"),
            ("ssh 'a", &["a", "b"], "quotation mark"),
            ("ssh {host}", &[], "--hosts or --hostfile"),
            ("mpirun -np 2", &["a", "b"], "{hosts}"),
        ] {
            let sentence = LaunchPlan::new(text, &hosts(names)).expect_err(text).to_string();
            assert!(sentence.contains(why), "{text}: {sentence}");
        }
        let key = Key::from_hex(&"5a".repeat(32)).expect("a key");
        let absent = LaunchPlan::new("/no/such/launcher", &[]).expect("a plan");
        let error = absent.start(&hosts(&["linerate"]), &key).map(drop).expect_err("not there");
        assert!(error.to_string().contains("is it installed") && !error.is_usage(), "{error}");
    }

    #[test]
    fn the_end_of_a_launcher_is_reported_once_with_its_last_words_and_nothing_is_left() {
        let key = Key::from_hex(&"5a".repeat(32)).expect("a key");
        let script = "sh -c 'read key; echo \"no route to {host}\" >&2; exit 7' #";
        let plan = LaunchPlan::new(script, &hosts(&["a1", "a2"])).expect("a plan");
        let mut launched = plan.start(&hosts(&["linerate"]), &key).expect("sh");
        let mut ends = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while ends.len() < 2 && Instant::now() < deadline {
            ends.extend(launched.ended());
            std::thread::sleep(POLL_INTERVAL);
        }
        ends.sort_by_key(|end| end.host.clone());
        assert_eq!(ends.len(), 2, "{ends:?}");
        assert_eq!(ends[1].host.as_deref(), Some("a2"));
        assert!(ends[1].why.contains("7") && ends[1].why.contains("no route to a2"), "{ends:?}");
        let sleeps = LaunchPlan::new("sh -c 'sleep 600 & wait'", &[]).expect("a plan");
        let mut launched = sleeps.start(&hosts(&["x"]), &key).expect("sh");
        let group = launched.processes[0].child.id();
        launched.end();
        // What was killed ends when the kernel gets to it; a zombie of another parent has ended.
        let left = || {
            let words = ["-g", &group.to_string(), "--runstates", "R,S,D,T"];
            Command::new("pgrep").args(words).output().expect("pgrep").stdout
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while !left().is_empty() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        assert_eq!(String::from_utf8_lossy(&left()), "");
    }

    proptest! {
        #[test]
        fn quoted_words_come_back_and_no_text_makes_it_panic(
            words in prop::collection::vec("[^\\x00']{0,12}", 0..6), text in "\\PC{0,60}"
        ) {
            let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(split(&quoted.join(" ")).expect("quoted"), words);
            let _ = LaunchPlan::new(&text, &[]);
        }
    }
}
