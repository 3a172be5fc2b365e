//! The names of other programs, left out of what is for others to see: that they were busy stays.

use linerate_facts::counters::ProcessUse;
use linerate_measure::measure::OthersUse;
use linerate_measure::run::Run;
use serde_json::Value;

/// Leaves them out of a run.
pub(super) fn leave_out(run: &mut Value, of: &Run) {
    let others: Vec<&OthersUse> =
        of.measurements.iter().filter_map(|measurement| measurement.others.as_ref()).collect();
    let phrases: Vec<String> = others.iter().flat_map(|others| phrases(others)).collect();
    let names: Vec<String> = others
        .iter()
        .flat_map(|others| &others.processes)
        .map(|one| format!("{} (pid {})", one.name, one.pid))
        .collect();
    if names.is_empty() {
        return;
    }
    in_texts(run, &|text| {
        let text = phrases.iter().fold(text.to_string(), |text, phrase| text.replace(phrase, ""));
        names.iter().fold(text, |text, name| text.replace(name, "another program"))
    });
    for measurement in run.get_mut("measurements").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(others) = measurement.get_mut("others") {
            others["processes"] = Value::Array(Vec::new());
        }
    }
}

/// The parts of sentences that name them.
fn phrases(others: &OthersUse) -> impl Iterator<Item = String> {
    let takers: [fn(&ProcessUse) -> f64; 2] = [|one| one.cpus, ProcessUse::storage_bytes_per_second];
    let all =
        takers.into_iter().flat_map(|taken| [0.0, f64::INFINITY].map(|total| others.named(total, taken)));
    all.filter(|phrase| !phrase.is_empty()).collect::<Vec<_>>().into_iter()
}

fn in_texts(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(list) => list.iter_mut().for_each(|value| in_texts(value, change)),
        Value::Object(fields) => fields.values_mut().for_each(|value| in_texts(value, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_lose_their_names_and_stay_busy() {
        let program =
            |pid, name: &str, cpus| ProcessUse { pid, name: name.into(), cpus, ..ProcessUse::default() };
        let others = OthersUse {
            processes: vec![program(1673, "canaryd", 0.7), program(9, "canaryctl", 0.2)],
            ..OthersUse::default()
        };
        let (most, among) = (others.named(0.9, |one| one.cpus), others.named(9.0, |one| one.cpus));
        let measurement =
            linerate_measure::measure::Measurement { others: Some(others), ..Default::default() };
        let run =
            Run { measurements: vec![measurement], ..Run::begin(Default::default(), Default::default()) };
        let mut value = serde_json::to_value(&run).expect("JSON");
        value["diagnosis"] = serde_json::json!({
            "sentences": [format!("Other programs used 77 % of CPU 0{most}: 2 GB/s is what was left.")],
            "findings": [{ "text": format!("other programs used 9 % of both CPUs{among}; canaryd (pid 1673)") }],
        });
        leave_out(&mut value, &run);
        let text = value.to_string();
        assert!(!text.contains("canary") && !text.contains("1673"), "{text}");
        assert!(text.contains("Other programs used 77 % of CPU 0: 2 GB/s is what was left."), "{text}");
        assert!(text.contains("other programs used 9 % of both CPUs; another program"), "{text}");
    }
}
