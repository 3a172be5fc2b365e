//! `linuxhw-dmi`: every text of dmidecode against `summary.csv`, column by column, and what share of the
//! machines tells its channels.

use super::captures;
use linerate::fact::Fact;
use linerate::probe::smbios::{Firmware, apply, from_dmidecode};
use linerate::probe::{Confidence, Machine, MemoryModule};
use linerate::topology::Topology;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The dumps unpacked; `None` (and a message) where this machine cannot.
fn unpack(captures: &Path) -> Option<tempfile::TempDir> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let archive = captures.join("linuxhw-dmi/linuxhw-DMI-Server-2049.tar.xz");
    let tar = Command::new("tar")
        .arg("--extract")
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(place.path())
        .status();
    if tar.is_ok_and(|status| status.success()) {
        return Some(place);
    }
    println!("skipped: tar cannot unpack linuxhw-dmi");
    None
}

/// Name and text of every dump, in order.
fn texts(place: &Path) -> Vec<(String, String)> {
    let root = place.join("Server");
    let mut pending = vec![root.clone()];
    let mut texts = Vec::new();
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).expect("a dump");
            texts.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    texts.sort();
    texts
}

/// `summary.csv` by dump, its header first.
fn summary(captures: &Path) -> (Vec<String>, BTreeMap<String, Vec<String>>) {
    let text = std::fs::read_to_string(captures.join("linuxhw-dmi/summary.csv")).expect("the summary");
    let mut rows = text.lines().map(fields);
    let header = rows.next().expect("a header");
    (header, rows.map(|row| (row[0].clone(), row)).collect())
}

/// Fields of a line of CSV; quoted ones double their quotes.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        let last = fields.last_mut().expect("a field");
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                last.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => last.push(c),
        }
    }
    fields
}

/// One column of the summary from our own reading. It calls a module what has a size, and leaves out the
/// chips of the firmware, as we do.
fn column(name: &str, firmware: &Firmware) -> String {
    let modules: Vec<&MemoryModule> = firmware.modules.iter().filter(|module| module.populated()).collect();
    let rated: Vec<u32> = modules.iter().filter_map(|m| m.rated_mt_per_second.known().copied()).collect();
    let configured = |m: &&MemoryModule| m.configured_mt_per_second.known().copied();
    let show = |speed: Option<u32>| speed.map_or(String::new(), |speed| speed.to_string());
    match name {
        "cpus_populated" => firmware.sockets.iter().filter(|socket| socket.populated).count().to_string(),
        "dimm_slots" => firmware.modules.len().to_string(),
        "dimms" => modules.len().to_string(),
        "type" => commonest(&modules),
        "rated_mt_s_min" => show(rated.iter().min().copied()),
        "rated_mt_s_max" => show(rated.iter().max().copied()),
        "configured_mt_s_min" => show(modules.iter().filter_map(configured).min()),
        "ratio_min" => modules
            .iter()
            .filter_map(|m| Some(f64::from(configured(m)?) / f64::from(*m.rated_mt_per_second.known()?)))
            .reduce(f64::min)
            .map_or(String::new(), |ratio| format!("{ratio:.3}")),
        other => panic!("a column that is not known: {other}"),
    }
}

/// The kind of most modules; the first one of those that are as many.
fn commonest(modules: &[&MemoryModule]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for module in modules {
        match counts.iter_mut().find(|(kind, _)| *kind == module.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((&module.kind, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max();
    counts.iter().find(|(_, count)| Some(*count) == most).map_or(String::new(), |(kind, _)| kind.to_string())
}

/// `Locator/Bank Locator` of the first three modules. What says nothing ("Not Specified", "NO DIMM",
/// "Unknown") is empty with us, and where a value is empty in the dump, the summary took the line below it:
/// there it has nothing to compare.
fn first_locators_agree(theirs: &str, firmware: &Firmware) -> bool {
    let modules: Vec<&MemoryModule> = firmware.modules.iter().filter(|m| m.populated()).take(3).collect();
    let theirs: Vec<&str> = if theirs.is_empty() { Vec::new() } else { theirs.split(" ; ").collect() };
    let one = |theirs: &str, module: &MemoryModule| {
        let (locator, bank) = (module.locator.as_str(), module.bank.as_str());
        theirs == format!("{locator}/{bank}")
            || (bank.is_empty() && theirs.starts_with(&format!("{locator}/")))
            || (locator.is_empty() && theirs.ends_with(&format!("/{bank}")))
    };
    theirs.len() == modules.len() && theirs.iter().zip(modules).all(|(theirs, module)| one(theirs, module))
}

#[test]
fn all_dumps() {
    let Some(captures) = captures() else { return };
    let Some(place) = unpack(&captures) else { return };
    let texts = texts(place.path());
    agree_with_the_summary(&captures, &texts);
    tell_channels(&texts);
}

fn agree_with_the_summary(captures: &Path, texts: &[(String, String)]) {
    let (header, rows) = summary(captures);
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, text) in texts {
        let row = rows.get(name).unwrap_or_else(|| panic!("{name}: not in the summary"));
        let firmware = match from_dmidecode(text) {
            Ok(firmware) => firmware,
            // The page about the collection lies among the dumps and has its row of zeros.
            Err(why) => {
                assert!(
                    name == "README.md" && why.to_string().starts_with("line 1: no output of dmidecode"),
                    "{name}: {why}"
                );
                continue;
            }
        };
        for (column_name, theirs) in header.iter().zip(row).skip(1) {
            let agrees = match column_name.as_str() {
                "first_locators" => first_locators_agree(theirs, &firmware),
                column_name => column(column_name, &firmware) == *theirs,
            };
            if !agrees {
                wrong.push(format!("{name}: {column_name}: {theirs:?}"));
            }
        }
        compared += 1;
    }
    println!("{compared} dumps agree with the summary in {} columns each", header.len() - 1);
    assert!(
        wrong.is_empty(),
        "{} of {compared} dumps:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert_eq!(compared, rows.len() - 1);
}

fn tell_channels(texts: &[(String, String)]) {
    let mut confidence: BTreeMap<Confidence, usize> = BTreeMap::new();
    let (mut rated, mut slower, mut both) = (0, 0, 0);
    let (mut free, mut free_linked) = (0, 0);
    for (name, text) in texts {
        let Ok(firmware) = from_dmidecode(text) else { continue };
        let mut machine = Machine::default();
        apply(Ok(firmware), &mut machine);
        sound(name, &machine);
        let slots = Topology::new(&machine).free_slots();
        free += slots.len();
        free_linked += slots.iter().filter(|slot| slot.link.is_some()).count();
        let memory = &machine.memory;
        *confidence.entry(memory.channels_confidence).or_default() += 1;
        rated += usize::from(memory.rated_bytes_per_second.known().is_some());
        let speeds = memory.modules.iter().filter(|module| module.populated()).filter_map(|module| {
            Some((*module.rated_mt_per_second.known()?, *module.configured_mt_per_second.known()?))
        });
        let speeds: Vec<(u32, u32)> = speeds.collect();
        both += usize::from(!speeds.is_empty());
        slower += usize::from(speeds.iter().any(|(rated, configured)| configured < rated));
    }
    println!(
        "channels told by confidence: {confidence:?}; rated bandwidth of {rated}; {slower} of {both} run \
         below their rating"
    );
    println!("{free} free slots for cards, {free_linked} with lanes and generation");
    assert!(free >= 4000 && free_linked >= 2500, "{free} {free_linked}");
    // What another rule of thumb would spoil.
    assert!(confidence[&Confidence::High] >= 800 && confidence[&Confidence::Medium] >= 900, "{confidence:?}");
    assert!(rated >= 1480, "{rated}");
}

/// What holds for every machine.
fn sound(name: &str, machine: &Machine) {
    let memory = &machine.memory;
    let channels = memory.channels.known();
    assert_eq!(channels.is_some(), memory.channels_confidence != Confidence::None, "{name}");
    let populated = memory.channel_states.iter().filter(|state| state.populated > 0).count();
    if let (Some(channels), 1..) = (channels, populated) {
        assert_eq!(usize::try_from(*channels).ok(), Some(populated), "{name}");
        let on_them: u32 = memory.channel_states.iter().map(|state| state.populated).sum();
        let modules = memory.modules.iter().filter(|module| module.populated()).count();
        assert_eq!(usize::try_from(on_them).ok(), Some(modules), "{name}: every module has its channel");
    }
    for state in &memory.channel_states {
        assert!(state.populated <= state.slots && state.slots <= 4, "{name}: {state:?}");
    }
    for socket in machine.cpu.sockets.iter().filter(|socket| socket.populated) {
        let Fact::Known(own) = socket.memory_channels else { continue };
        for number in 0..u32::try_from(machine.cpu.sockets.len()).expect("a few") {
            let of_it = memory.channel_states.iter().filter(|state| state.channel.socket == number).count();
            assert!(of_it <= usize::try_from(own).expect("a few"), "{name}: {of_it} channels of {own}");
        }
    }
    if let Fact::Known(rate) = memory.rated_bytes_per_second {
        assert!((1e9..5e12).contains(&rate), "{name}: {rate}");
    }
}
