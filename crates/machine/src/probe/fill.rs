//! Two readings of one machine made into one: where the first does not know, the second speaks.
//!
//! It works on the machine's JSON, so that most fields that are added to the product need no line here. What
//! counts as not known is a `Fact::Unknown`, an absent option, an empty text and an empty list. Lists of
//! things with a name are joined by that name: a new one needs a line in [`NAMED`]. An enum with a value that
//! means “nothing is known” needs one in [`is_gap`].

use super::{Machine, in_order};
use linerate_facts::sysroot::Sysroot;
use serde_json::Value;
use std::collections::HashMap;

/// Lists of the machine whose elements have a name of their own, and the field that holds it.
const NAMED: [(&str, &str); 9] = [
    ("pci", "address"),
    ("nics", "name"),
    ("disks", "name"),
    ("controllers", "name"),
    ("logical", "id"),
    ("nodes", "id"),
    ("file_systems", "mount_point"),
    ("interrupts", "number"),
    ("idle_states", "name"),
];

/// Where a captured tree reports what its files cannot: facts that the kernel was asked for by system calls.
pub(crate) const SYSCALL_FACTS_FILE: &str = "linerate/machine.json";

/// The machine of a captured tree with what lies beside its files; other trees have nothing there.
pub(super) fn with_asked(sysroot: &Sysroot, mut machine: Machine) -> Machine {
    let asked =
        sysroot.beside(SYSCALL_FACTS_FILE).and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let Some(asked) = asked else { return machine };
    // Files show the addresses of interfaces only in part; what the kernel said when it was asked is all.
    let known = by_name(asked.get("nics").and_then(Value::as_array).map_or(&[], Vec::as_slice), "name");
    for nic in
        machine.nics.iter_mut().filter(|nic| known.contains_key(&Value::from(nic.name.as_str()).to_string()))
    {
        nic.addresses.clear();
    }
    fill_by(machine, &asked, Reason::TakeSecond)
}

/// Fills what `machine` does not know from `more`, which may be a part of a machine's JSON. A `more` that is
/// no machine changes nothing.
pub(super) fn fill(machine: Machine, more: &Value) -> Machine {
    fill_by(machine, more, Reason::KeepFirst)
}

/// Whose reason stays where neither knows.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    KeepFirst,
    TakeSecond,
}

fn fill_by(machine: Machine, more: &Value, reason: Reason) -> Machine {
    let Ok(mut filled) = serde_json::to_value(&machine) else { return machine };
    fill_value("", &mut filled, more, reason);
    let Ok(mut filled) = Machine::of_json(&filled) else { return machine };
    filled.pci.sort_by(|a, b| (a.address.len(), &a.address).cmp(&(b.address.len(), &b.address)));
    filled.nics.sort_by(|a, b| in_order(&a.name, &b.name));
    filled.disks.sort_by(|a, b| in_order(&a.name, &b.name));
    filled.cpu.logical.sort_by_key(|cpu| cpu.id);
    filled.memory.nodes.sort_by_key(|node| node.id);
    filled
}

/// What `whole` knows and `part` does not, and its reasons where neither knows, in the form in which a
/// captured tree holds it ([`SYSCALL_FACTS_FILE`]); `None` where there is nothing. Things that `part` does not have are
/// left out with all that is known of them.
pub fn lacking(part: &Value, whole: &Value) -> Option<Value> {
    lacking_value("", part, whole)
}

fn fill_value(key: &str, value: &mut Value, more: &Value, reason: Reason) {
    if is_gap(key, value) {
        if !is_gap(key, more) || reason == Reason::TakeSecond && is_unknown(value) && is_unknown(more) {
            *value = more.clone();
        }
        return;
    }
    match (value, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (name, more) in more {
                match fields.get_mut(name) {
                    Some(value) => fill_value(name, value, more, reason),
                    None => drop(fields.insert(name.clone(), more.clone())),
                }
            }
        }
        (Value::Array(list), Value::Array(more)) => {
            let Some(name) = name_in(key) else { return };
            let mut known = by_name(list, name);
            for more in more {
                let Some(named) = more.get(name).map(Value::to_string) else { continue };
                match known.get(&named).copied().or_else(|| same_function(key, list, more)) {
                    Some(at) => fill_value("", &mut list[at], more, reason),
                    None => {
                        known.insert(named, list.len());
                        list.push(more.clone());
                    }
                }
            }
        }
        _ => {}
    }
}

fn lacking_value(key: &str, part: &Value, whole: &Value) -> Option<Value> {
    if is_gap(key, part) {
        let reason = is_unknown(part) && is_unknown(whole) && part != whole;
        return (reason || !is_gap(key, whole)).then(|| whole.clone());
    }
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            let lacking = whole.iter().filter_map(|(name, whole)| {
                Some((name.clone(), lacking_value(name, part.get(name).unwrap_or(&Value::Null), whole)?))
            });
            let lacking: serde_json::Map<String, Value> = lacking.collect();
            (!lacking.is_empty()).then_some(Value::Object(lacking))
        }
        (Value::Array(part), Value::Array(whole)) => {
            let name = name_in(key)?;
            let known = by_name(part, name);
            let lacking = whole.iter().filter_map(|whole| {
                let named = whole.get(name)?;
                let mut lacking = lacking_value("", &part[*known.get(&named.to_string())?], whole)?;
                lacking.as_object_mut()?.insert(name.to_string(), named.clone());
                Some(lacking)
            });
            let lacking: Vec<Value> = lacking.collect();
            (!lacking.is_empty()).then_some(Value::Array(lacking))
        }
        _ => None,
    }
}

/// It holds nothing.
fn is_gap(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => {
            text.is_empty()
                // These values of enums mean that nothing was found out.
                || matches!((key, text.as_str()), ("channels_confidence", "none") | ("kind", "other"))
        }
        Value::Array(list) => list.is_empty(),
        _ => is_unknown(value),
    }
}

/// `Fact::Unknown`.
fn is_unknown(value: &Value) -> bool {
    let fields = value.as_object().filter(|fields| fields.len() == 1);
    fields.and_then(|fields| fields.get("unknown")).is_some_and(Value::is_string)
}

fn name_in(key: &str) -> Option<&'static str> {
    NAMED.iter().find(|(list, _)| *list == key).map(|(_, name)| *name)
}

/// Places of the elements by name; of two with one name the first.
fn by_name(list: &[Value], name: &str) -> HashMap<String, usize> {
    let named = list.iter().enumerate().filter_map(|(at, value)| Some((value.get(name)?.to_string(), at)));
    let mut places = HashMap::new();
    for (name, at) in named {
        places.entry(name).or_insert(at);
    }
    places
}

/// One port has two names where one reader knows the interface (`eth2`) and another the RDMA device
/// (`mlx5_0`).
fn same_function(key: &str, list: &[Value], more: &Value) -> Option<usize> {
    let function = more.get("pci").filter(|pci| pci.is_string())?;
    (key == "nics").then(|| list.iter().position(|nic| nic.get("pci") == Some(function)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Nic, PciDevice};
    use linerate_facts::fact::Fact;
    use proptest::prelude::*;

    fn value(machine: &Machine) -> Value {
        serde_json::to_value(machine).expect("JSON")
    }

    fn nic(name: &str, mtu: Option<u32>, speed: Option<u64>) -> Nic {
        Nic {
            name: name.into(),
            mtu: Fact::from_option(mtu, "no"),
            speed_bits_per_second: Fact::from_option(speed, "no"),
            pci: Some("0000:01:00.0".into()),
            ..Default::default()
        }
    }

    #[test]
    fn the_first_wins_and_the_second_fills() {
        let first = Machine {
            host: Fact::Known("a".into()),
            nics: vec![nic("eth0", Some(1500), None)],
            pci: vec![PciDevice { address: "0000:01:00.0".into(), ..Default::default() }],
            ..Default::default()
        };
        let bridge = PciDevice { address: "0000:00:01.0".into(), ..Default::default() };
        let card = PciDevice {
            address: "0000:01:00.0".into(),
            parent: Some("0000:00:01.0".into()),
            class: Fact::Known(0x020000),
            ..Default::default()
        };
        let second = Machine {
            host: Fact::Known("b".into()),
            nics: vec![nic("mlx5_0", Some(9000), Some(100)), nic("eth0", None, None)],
            pci: vec![card.clone(), bridge.clone()],
            ..Default::default()
        };
        let both = fill(first.clone(), &value(&second));
        assert_eq!(both.host, Fact::Known("a".into()));
        assert_eq!(both.nics, [nic("eth0", Some(1500), Some(100))], "one port with two names");
        assert_eq!(both.pci, [bridge, card]);
        assert_eq!(fill(first.clone(), &value(&first)), first);
        assert_eq!(fill(Machine::default(), &value(&second)).nics.len(), 2);
    }

    #[test]
    fn what_is_lacking_fills() {
        let whole = Machine { nics: vec![nic("eth0", Some(1500), Some(100))], ..Default::default() };
        let part = Machine { nics: vec![nic("eth0", Some(1500), None)], ..Default::default() };
        let lacking = lacking(&value(&part), &value(&whole)).expect("the speed");
        assert_eq!(lacking, serde_json::json!({"nics": [{"name": "eth0", "speed_bits_per_second": 100}]}));
        assert_eq!(fill(part, &lacking), whole);
        assert_eq!(super::lacking(&value(&whole), &value(&whole)), None);
    }

    #[test]
    fn what_is_no_machine_changes_nothing() {
        let machine = Machine { nics: vec![nic("eth0", None, None)], ..Default::default() };
        for text in ["[]", "{\"nics\":[{\"name\":\"eth0\",\"mtu\":\"x\"}]}", "{\"nics\":[{\"name\":7}]}", "3"]
        {
            assert_eq!(fill(machine.clone(), &serde_json::from_str(text).expect("JSON")), machine, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_order_knows_as_much(a in proptest::option::of(0u32..9), b in proptest::option::of(0u32..9)) {
            let of = |mtu| Machine { nics: vec![nic("eth0", mtu, None)], ..Default::default() };
            let both = fill(of(a), &value(&of(b)));
            prop_assert_eq!(both.nics[0].mtu.known().copied(), a.or(b));
        }
    }
}
