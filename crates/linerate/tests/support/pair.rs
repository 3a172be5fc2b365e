//! Two network namespaces with a veth pair between them: `sender` (192.0.2.1) in one, `watched` (192.0.2.2)
//! in the other.

use std::process::Command;

/// They are there; gone with the value.
pub struct Pair(String);

impl Pair {
    /// None, with a message, where this user may not make them. `name` keeps two tests of one process apart,
    /// and is short: it begins the namespaces' names.
    pub fn up(name: &str) -> Option<Pair> {
        let pair = Pair(format!("{name}{}", std::process::id()));
        let (a, b) = (pair.name('a'), pair.name('b'));
        let ip = |words: &[&str]| {
            let output = Command::new("ip").args(words).output();
            output.is_ok_and(|output| output.status.success())
        };
        let made = ip(&["netns", "add", &a])
            && ip(&["netns", "add", &b])
            && ip(&[
                "link", "add", "sender", "netns", &a, "type", "veth", "peer", "name", "watched", "netns", &b,
            ])
            && ip(&["-n", &a, "addr", "add", "192.0.2.1/24", "dev", "sender"])
            && ip(&["-n", &b, "addr", "add", "192.0.2.2/24", "dev", "watched"])
            && ip(&["-n", &a, "link", "set", "sender", "up"])
            && ip(&["-n", &b, "link", "set", "watched", "up"]);
        if !made {
            println!("skipped: this user may not make network namespaces");
        }
        made.then_some(pair)
    }

    /// The namespace of `sender` ('a') or of `watched` ('b').
    pub fn name(&self, end: char) -> String {
        format!("{}{end}", self.0)
    }

    /// A program within one of them.
    pub fn inside(&self, end: char, program: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(end)]).args(program);
        command
    }

    #[allow(dead_code, reason = "each test takes the part that it needs")]
    /// What a program within one of them printed.
    pub fn printed(&self, end: char, program: &[&str]) -> String {
        let output = self.inside(end, program).env("LC_ALL", "C").output().expect("the program starts");
        assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for end in ['a', 'b'] {
            let _ = Command::new("ip").args(["netns", "del", &self.name(end)]).output();
        }
    }
}
