//! The manifest of Kubernetes, and pods as its environment makes them.

use super::{SHORT, fleet};
use crate::support::process::Ends;
use crate::support::served::free_port;
use std::process::Stdio;

fn manifest() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fleet-job.yaml");
    std::fs::read_to_string(path).expect("the manifest")
}

/// Dotted names of all keys of a document with their values; items of lists have no name of their own. Enough YAML for
/// a manifest of maps, lists of maps, and lists in brackets.
fn keys(document: &str) -> Vec<(String, String)> {
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut found = Vec::new();
    for line in document.lines() {
        let text = line.split(" #").next().unwrap_or_default();
        let plain = text.trim_start().trim_start_matches("- ");
        let Some((name, value)) = plain.split_once(':').filter(|_| !plain.starts_with('#')) else { continue };
        let indent = text.len() - plain.len();
        open.retain(|(above, _)| *above < indent);
        open.push((indent, name.trim().to_string()));
        let path: Vec<&str> = open.iter().map(|(_, name)| name.as_str()).collect();
        found.push((path.join("."), value.trim().to_string()));
    }
    found
}

/// What the API server refuses a Job and a Service without, and what must agree in them.
#[test]
fn the_manifest_has_the_required_keys_and_its_parts_agree() {
    let manifest = manifest();
    let documents: Vec<Vec<(String, String)>> = manifest.split("\n---\n").map(keys).collect();
    let [service, job] = &documents[..] else { panic!("a Service and a Job: {}", documents.len()) };
    let value = |document: &[(String, String)], key: &str| -> String {
        let found = document.iter().find(|(name, _)| name == key);
        found.unwrap_or_else(|| panic!("{key} is missing")).1.clone()
    };
    assert_eq!((value(service, "apiVersion"), value(service, "kind")), ("v1".into(), "Service".into()));
    assert_eq!((value(job, "apiVersion"), value(job, "kind")), ("batch/v1".into(), "Job".into()));
    // Headless, and found before pod 0 is ready: else no member finds the coordinator.
    assert_eq!(value(service, "spec.clusterIP"), "None");
    assert_eq!(value(service, "spec.publishNotReadyAddresses"), "true");
    let template = "spec.template";
    assert_eq!(value(service, "metadata.name"), value(job, &format!("{template}.spec.subdomain")));
    let label = value(job, &format!("{template}.metadata.labels.app"));
    assert_eq!(value(service, "spec.selector.app"), label);
    // A Job takes only these two.
    let policy = value(job, &format!("{template}.spec.restartPolicy"));
    assert!(policy == "Never" || policy == "OnFailure", "{policy}");
    for key in ["name", "image", "command", "args"] {
        assert!(!value(job, &format!("{template}.spec.containers.{key}")).is_empty(), "{key}");
    }
    // Pods are called after the Job, and the coordinator is its first one in the subdomain.
    let first = format!("{}-0.{}:7412", value(job, "metadata.name"), value(service, "metadata.name"));
    assert!(value(job, &format!("{template}.spec.containers.args")).contains(&first), "{first}");
}

/// Three pods; none knows how many there are but by the words of the manifest.
#[test]
fn pods_of_an_indexed_job_are_one_fleet() {
    let coordinator = format!("127.0.0.1:{}", free_port());
    let words = [&["pairs", "--members", "3", "--coordinator", &coordinator, "--json"][..], &SHORT].concat();
    let key = "4d".repeat(32);
    let start = |index: u32| {
        let environment = [
            ("JOB_COMPLETION_INDEX", index.to_string()),
            ("HOSTNAME", format!("fleet-{index}")),
            ("LINERATE_KEY", key.clone()),
        ];
        let mut command = fleet(&words);
        command.envs(environment).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("a pod")
    };
    let mut pods: Vec<_> = [2, 1, 0].into_iter().map(start).collect();
    let result = pods.pop().expect("pod 0").ended().gives(0).json();
    assert_eq!(result["members"].as_array().map(Vec::len), Some(3));
    for pod in pods {
        let ended = pod.ended();
        ended.gives(0);
        assert!(ended.stdout.is_empty(), "pod 0 prints for all");
    }
}

/// The manifest's words are words of the program, and its numbers agree.
#[test]
fn the_manifest_of_kubernetes_starts_as_many_members_as_it_awaits() {
    use clap::Parser;
    let manifest = manifest();
    let value = |name: &str| {
        let line = manifest.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name}")).to_string()
    };
    let list = |name: &str| -> Vec<String> {
        let text = value(name);
        let items = text.trim_matches(['[', ']']).split(", ");
        items.map(|item| item.trim_matches('"').to_string()).collect()
    };
    let words = [list("command"), list("args")].concat();
    let parsed = linerate::cli::Arguments::try_parse_from(&words).unwrap_or_else(|error| panic!("{error}"));
    let linerate::cli::Command::Fleet(fleet) = parsed.command else { panic!("{words:?}") };
    assert_eq!(fleet.members.map(|members| members.to_string()), Some(value("completions")));
    assert_eq!(value("completions"), value("parallelism"));
    assert_eq!(value("completionMode"), "Indexed");
}
