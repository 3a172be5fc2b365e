//! What to change in the words of the program itself: a table of data, each line with the version that has the option,
//! and where that is documented.

use serde::Deserialize;

const TABLE: &str = include_str!("remedies.toml");
/// For programs that have no line of their own.
const ANY: &str = "*";

/// Those for one program.
#[derive(Debug)]
pub(crate) struct Remedies(Vec<Remedy>);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RemedyTable {
    remedy: Vec<Remedy>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remedy {
    /// Names of programs as the kernel has them, without a version at the end; `torch`: a program that has PyTorch loaded.
    programs: Vec<String>,
    findings: Vec<String>,
    /// As it is written for that program; empty where it is general advice.
    #[serde(default)]
    option: String,
    does: String,
    /// The first version that has it.
    #[serde(default)]
    since: String,
    /// Where that is documented.
    #[serde(default)]
    source: String,
    /// The version that was asked whether it has the option, and how; for those who change the table.
    #[serde(default)]
    #[expect(dead_code, reason = "the table's own record, which no sentence has")]
    checked: String,
}

impl Remedies {
    /// For programs of these names.
    pub(crate) fn of_programs<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.map(plain).collect();
        let table = toml::from_str::<RemedyTable>(TABLE).map(|table| table.remedy).unwrap_or_default();
        let is_own = |remedy: &Remedy| remedy.programs.iter().any(|one| names.contains(&one.as_str()));
        let (own, others): (Vec<_>, Vec<_>) = table.into_iter().partition(is_own);
        let general = others.into_iter().filter(|remedy| remedy.programs.iter().any(|one| one == ANY));
        Remedies(own.into_iter().chain(general).collect())
    }

    /// What to do about a finding, in its own words or in general ones; empty where nothing is known.
    pub(crate) fn of(&self, finding: &str) -> String {
        let found = self.0.iter().find(|remedy| remedy.findings.iter().any(|one| one == finding));
        found.map(Remedy::sentence).unwrap_or_default()
    }
}

impl Remedy {
    fn sentence(&self) -> String {
        if self.option.is_empty() {
            return self.does.clone();
        }
        let since = if self.since.is_empty() { String::new() } else { format!("since {}, ", self.since) };
        format!("`{}` {} ({since}{})", self.option, self.does, self.source)
    }
}

/// `python3.12` is python, `nginx: worker` nginx.
fn plain(name: &str) -> &str {
    let name = name.split([':', ' ']).next().unwrap_or(name);
    name.trim_end_matches(|sign: char| {
        sign.is_ascii_digit() && !name.starts_with("aria") && !name.starts_with("iperf") || sign == '.'
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_line_has_a_program_a_finding_and_where_its_option_is_documented() {
        let table: RemedyTable = toml::from_str(TABLE).expect("the table");
        let findings = include_str!("findings.rs");
        let mut programs = BTreeSet::new();
        for remedy in &table.remedy {
            assert!(
                !remedy.programs.is_empty() && !remedy.findings.is_empty() && !remedy.does.is_empty(),
                "{remedy:?}"
            );
            let general = remedy.programs == [ANY];
            assert!(
                general || remedy.source.starts_with("https://") && !remedy.option.is_empty(),
                "{remedy:?}"
            );
            for finding in &remedy.findings {
                assert!(findings.contains(&format!("\"{finding}\"")), "{finding} is not a finding");
            }
            programs.extend(remedy.programs.clone());
        }
        let named = "nginx httpd haproxy rclone rsync ssh curl aria2c minio smbd nfsd fio iperf3 python torch \
                     xrootd globus-gridftp-server";
        for program in named.split(' ') {
            assert!(programs.contains(program), "{program} has no line");
        }
    }

    #[test]
    fn a_program_has_its_own_words_and_every_other_the_general_ones() {
        let of = |name: &str, finding| Remedies::of_programs([name].into_iter()).of(finding);
        assert!(of("nginx", "one-read-at-a-time").starts_with("`aio threads;`"));
        assert!(of("torch", "one-read-at-a-time").contains("num_workers"));
        assert!(of("python3.12", "small-blocks").contains("buffering"));
        assert!(!of("my-mover", "one-read-at-a-time").is_empty());
        assert_eq!(of("nginx", "none"), "");
        assert_eq!(
            [plain("python3.12"), plain("aria2c"), plain("iperf3"), plain("nginx: worker")],
            ["python", "aria2c", "iperf3", "nginx"]
        );
    }
}
