//! Multicast and IPv6 between two network namespaces of their own; nothing leaves them.

use crate::support::namespaces::Namespaces;
use crate::support::process::{Ends, ProcessEnd};
use crate::support::program;
use crate::support::wall_players::{ScreenProcess, key, listening, movie};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The two hosts.
const ENDS: [&str; 2] = ["a", "b"];

/// Two namespaces with a cable between them: `a0` and `b0`.
struct Cable {
    hosts: Namespaces,
    folder: tempfile::TempDir,
    movie: PathBuf,
}

impl Cable {
    /// None where this machine lets none be made.
    fn lay(name: &str) -> Option<Cable> {
        let hosts = Namespaces::new(name, &ENDS)?;
        hosts.cable(("a", "a0"), ("b", "b0"));
        hosts.address("a", "a0", "10.91.0.1/24");
        hosts.address("b", "b0", "10.91.0.2/24");
        let folder = tempfile::tempdir().expect("a folder");
        let movie = movie(folder.path());
        Some(Cable { hosts, folder, movie })
    }

    fn command(&self, end: usize, words: &[&str]) -> Command {
        self.hosts.inside(ENDS[end], &[&[program().as_str()], words].concat())
    }

    /// Its link-local address, once it is known to be nobody else's.
    fn link_local(&self, end: usize) -> String {
        let nic = ["a0", "b0"][end];
        let since = Instant::now();
        loop {
            let told = self.hosts.printed(ENDS[end], &["ip", "-6", "-o", "address", "show", "dev", nic]);
            let address = told.split_whitespace().find(|word| word.starts_with("fe80::"));
            if let (Some(address), false) = (address, told.contains("tentative")) {
                return address.split('/').next().expect("an address").to_string();
            }
            assert!(since.elapsed() < Duration::from_secs(10), "{told}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn show(&self, end: usize, words: &[&str]) -> ScreenProcess {
        let always = ["wall", "show", "--verify", "--json", "--seconds", "30", "--until-silent", "1"];
        listening(self.command(end, &[&always[..], words].concat()), 1)
    }

    fn movie(&self) -> &str {
        self.movie.to_str().expect("a path")
    }

    /// A second of the movie, once.
    fn serve(&self, words: &[&str]) -> ProcessEnd {
        let always = ["wall", "serve", self.movie(), "--seconds", "1.5", "--json"];
        self.command(0, &[&always[..], words].concat()).ended()
    }
}

/// All that came is proven, and something came.
fn proves(screen: ScreenProcess) {
    let screen = screen.wait();
    assert!(screen.frames_proven > 10 && screen.frames_wrong == 0, "{screen:#?}");
    assert_eq!(
        (screen.datagrams_lost, screen.frames_torn, screen.datagrams_foreign),
        (0, 0, 0),
        "{screen:#?}"
    );
}

#[test]
fn one_multicast_stream_is_shown_by_two_screens_that_joined_it() {
    let Some(cable) = Cable::lay("group") else { return };
    let group = "239.91.0.7:5004";
    let listen = ["--listen", group, "--interface", "b0"];
    let screens = [cable.show(1, &listen), cable.show(1, &listen)];
    let joined = cable.hosts.printed("b", &["ip", "maddress", "show", "dev", "b0"]);
    assert!(joined.contains("239.91.0.7"), "{joined}");
    let sdp = cable.folder.path().join("sdp");
    let to = format!("r0c0={group}");
    let served = cable.serve(&["--screen", &to, "--nic", "a0", "--ttl", "3", "--sdp", path(&sdp)]);
    assert!(served.stdout.contains("\"frames_sent\""), "{served:?}");
    screens.into_iter().for_each(proves);
    let session = std::fs::read_to_string(sdp.join("r0c0.sdp")).expect("a session");
    assert!(session.contains("c=IN IP4 239.91.0.7/3\r\n"), "{session}");
    // Without a route to groups somebody has to say by which NIC.
    let says = |output: ProcessEnd, word: &str| {
        let stderr = &output.stderr;
        assert!(!output.status.success() && stderr.contains(word), "{stderr}");
    };
    says(cable.serve(&["--screen", &to]), "--nic");
    let show = |words: &[&str]| cable.command(1, &[&["wall", "show", "--verify"], words].concat()).ended();
    says(show(&["--listen", group]), "name it with --interface");
    says(show(&["--listen", group, "--interface", "none0"]), "no such interface");
    says(show(&["--listen", "5004", "--interface", "b0"]), "is for multicast groups");
}

#[test]
fn ipv6_screens_are_reached_by_loopback_link_local_address_and_group() {
    let Some(cable) = Cable::lay("v6") else { return };
    let screen = cable.show(0, &["--listen", "[::1]:5004"]);
    cable.serve(&["--screen", "r0c0=[::1]:5004"]);
    proves(screen);
    // Screens know their server by its link-local address, too.
    let (server, to) = (cable.link_local(0), cable.link_local(1));
    let key = key(cable.folder.path());
    let (control, listen) = (format!("[{server}%b0]:7412"), format!("[{to}%b0]:5004"));
    let words = ["--listen", &listen, "--server", &control, "--tile", "r0c1", "--key-file", path(&key)];
    let screen = cable.show(1, &words);
    let to = format!("r0c1=[{to}%a0]:5004");
    let mut serve = cable.command(0, &["wall", "serve", cable.movie(), "--seconds", "4", "--page", "none"]);
    let serve = serve.args(["--screen", &to, "--key-file", path(&key)]).ended();
    let screen = screen.wait();
    assert!(
        screen.frames_proven > 10 && screen.frames_wrong + screen.datagrams_foreign == 0,
        "{screen:#?} {serve:?}"
    );
    let screen = cable.show(1, &["--listen", "[ff12::91:7%b0]:5004"]);
    cable.serve(&["--screen", "r0c0=[ff12::91:7%a0]:5004"]);
    proves(screen);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}
