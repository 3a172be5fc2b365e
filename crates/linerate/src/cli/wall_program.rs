//! `linerate wall`: the wall is a program of its own, `linerate-wall`, which takes the place of this process. It is
//! looked for beside linerate, where packages put both, then in PATH, and has to be of the same version.

use linerate_facts::failure::Failure;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAME: &str = "linerate-wall";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why the program of the wall does not start.
#[derive(Debug, thiserror::Error)]
enum WallProgramError {
    /// `beside`: linerate's own folder with the words that follow it, where that is known.
    #[error("there is no program {NAME} in {beside}a folder of PATH")]
    Absent { beside: String },
    #[error("{program} cannot be started, being for another CPU or not executable (chmod +x): {error}")]
    NotStarted { program: String, error: io::Error },
    #[error("{program} is version {version}, and linerate is version {VERSION}")]
    OtherVersion { program: String, version: String },
    #[error("{program} is another program: it does not answer --version as {NAME} does")]
    OtherProgram { program: String },
}

/// Does not return where the program starts, which gets the arguments, the environment, the open files and the number of
/// this process; otherwise why not.
pub(super) fn start() -> Failure {
    let why = replace_process();
    Failure::Lacks(format!("{why}; install {NAME} {VERSION} beside linerate, out of the same package"))
}

fn replace_process() -> WallProgramError {
    let folder = std::env::current_exe().ok().and_then(|own| own.parent().map(Path::to_path_buf));
    let Some(program) = find_program(folder.as_deref()) else {
        let beside = folder.map(|folder| format!("{} or ", folder.display())).unwrap_or_default();
        return WallProgramError::Absent { beside };
    };
    if let Err(why) = check(&program) {
        return why;
    }
    tracing::info!(program = %program.display(), "linerate-wall takes over");
    let error = Command::new(&program).args(args_of_wall(std::env::args_os().skip(1))).exec();
    WallProgramError::NotStarted { program: program.display().to_string(), error }
}

/// An empty or relative folder of PATH would be one of the working directory, which may be another user's.
fn find_program(own: Option<&Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let folders = own.map(Path::to_path_buf).into_iter().chain(of_path);
    folders.map(|folder| folder.join(NAME)).find(|program| program.is_file())
}

/// Whether it is the program of this version.
fn check(program: &Path) -> Result<(), WallProgramError> {
    let mut command = Command::new(program);
    let asked = command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let program = program.display().to_string();
    let reply = match asked {
        Ok(output) => output.stdout,
        Err(error) => return Err(WallProgramError::NotStarted { program, error }),
    };
    match String::from_utf8_lossy(&reply).trim_end().strip_prefix("linerate-wall ") {
        Some(VERSION) => Ok(()),
        Some(version) => Err(WallProgramError::OtherVersion { program, version: version.to_string() }),
        None => Err(WallProgramError::OtherProgram { program }),
    }
}

/// The arguments of this process without the command's name, which is the first of them or behind `--log FILE`.
fn args_of_wall(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let is_command = |at: &usize| args[*at] == "wall" && (*at == 0 || args[*at - 1] != "--log");
    if let Some(at) = (0..args.len()).find(is_command) {
        args.remove(at);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_command_goes_and_all_other_arguments_stay() {
        for (args, left) in [
            ("wall demo --tiles 3x2", "demo --tiles 3x2"),
            ("--log wall wall generate wall", "--log wall generate wall"),
            ("--log=wall wall plan", "--log=wall plan"),
        ] {
            let split = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(args_of_wall(split(args).into_iter()), split(left), "{args}");
        }
    }
}
