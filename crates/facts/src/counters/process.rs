//! `/proc/PID/io` and `/proc/PID/stat`: what a process has read and written, what it is called, when it began, and
//! the CPU time that it has used.

/// Bytes that a process had the storage move since it began, with its threads and the children that it has
/// waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessIo {
    /// Fetched from the storage: what the page cache had is not in it.
    pub read_bytes: u64,
    /// Made dirty in the page cache, or written directly.
    pub written_bytes: u64,
}

/// Reads `/proc/PID/io`; none where one of the two counters is missing.
pub fn parse_process_io(text: &str) -> Option<ProcessIo> {
    Some(ProcessIo { read_bytes: field(text, "read_bytes")?, written_bytes: field(text, "write_bytes")? })
}

/// What the system calls of a process have read and written since it began, whatever it was of: the page cache, pipes
/// and, with `read` and `write` alone, sockets. With those of the children that it has waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCalls {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// Reads the same file; none where one of the four counters is missing.
pub fn parse_process_calls(text: &str) -> Option<ProcessCalls> {
    Some(ProcessCalls {
        read_bytes: field(text, "rchar")?,
        written_bytes: field(text, "wchar")?,
        reads: field(text, "syscr")?,
        writes: field(text, "syscw")?,
    })
}

fn field(text: &str, name: &str) -> Option<u64> {
    let of = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse::<u64>().ok();
    text.lines().find_map(of)
}

/// Who a process is, or a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Name of its program as the kernel keeps it (15 bytes); any byte may be in it.
    pub name: String,
    /// When it began, ticks since boot: by this it differs from an earlier process of the same number.
    pub started_ticks: u64,
    /// The process that started it, or that took it over.
    pub parent: u32,
    /// A thread of the kernel itself.
    pub of_kernel: bool,
    /// CPU time of all its threads, ticks of 10 ms (USER_HZ): in programs, and in the kernel for them.
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// The same of its children that have ended, with theirs.
    pub children_user_ticks: u64,
    pub children_system_ticks: u64,
    /// What it does now: `R` runs or would, `D` waits for what no signal ends, `S` for anything else, `Z` has ended.
    pub state: char,
    /// Page faults that waited for the storage.
    pub major_faults: u64,
    /// The CPU that it was last on.
    pub last_cpu: Option<u32>,
}

/// PF_KTHREAD of the kernel's `sched.h`.
const OF_KERNEL: u64 = 0x0020_0000;

/// More than the kernel writes of a name: kernel threads have longer ones than programs.
const MOST_NAME_CHARS: usize = 64;

/// Reads `/proc/PID/stat`, whose second word is a name that may hold blanks and parentheses itself.
pub fn parse_process_stat(text: &str) -> Option<ProcessIdentity> {
    let (_, rest) = text.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(37).collect();
    // Numbered as in proc_pid_stat(5), where the state is the third.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(ProcessIdentity {
        name: name.chars().take(MOST_NAME_CHARS).collect(),
        started_ticks: number(22)?,
        parent: number(4).and_then(|parent| u32::try_from(parent).ok()).unwrap_or(0),
        of_kernel: number(9)? & OF_KERNEL != 0,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        // Signed in the kernel's text.
        children_user_ticks: number(16).unwrap_or(0),
        children_system_ticks: number(17).unwrap_or(0),
        state: fields.first()?.chars().next()?,
        major_faults: number(12).unwrap_or(0),
        last_cpu: number(39).and_then(|cpu| u32::try_from(cpu).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IO: &str = "rchar: 3980\nwchar: 12\nsyscr: 9\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: \
                      18446744073709551615\ncancelled_write_bytes: 0\n";

    #[test]
    fn the_storage_counters_are_read_and_no_others() {
        let expected = ProcessIo { read_bytes: 4096, written_bytes: u64::MAX };
        assert_eq!(parse_process_io(IO), Some(expected));
        assert_eq!(parse_process_io(""), None);
        assert_eq!(parse_process_io("read_bytes: 1\ncancelled_write_bytes: 2\n"), None);
        let calls = ProcessCalls { read_bytes: 3980, written_bytes: 12, reads: 9, writes: 1 };
        assert_eq!(parse_process_calls(IO), Some(calls));
        assert_eq!(parse_process_calls("rchar: 1\n"), None);
    }

    #[test]
    fn a_name_with_parentheses_and_blanks_ends_at_the_last_one() {
        let rest = "S 9 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        let of = |name: &str| parse_process_stat(&format!("42 ({name}) {rest}")).expect("a process");
        for name in ["fio", "a) S 1 (b", "", "two words", "kworker/u4:0-flush-254:0"] {
            let expected = ProcessIdentity {
                name: name.into(),
                started_ticks: 987_654,
                parent: 9,
                of_kernel: false,
                user_ticks: 5,
                system_ticks: 6,
                children_user_ticks: 7,
                children_system_ticks: 8,
                state: 'S',
                major_faults: 3,
                last_cpu: None,
            };
            assert_eq!(of(name), expected);
        }
        let thread = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 5 0 0 20 0 1 0 7 0";
        assert!(parse_process_stat(thread).expect("a thread").of_kernel);
        assert_eq!(parse_process_stat("42 (fio) S 1 2"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-z_:() \n-]{0,200}") {
            let _ = parse_process_io(&text);
            if let Some(found) = parse_process_stat(&text) {
                prop_assert!(found.name.chars().count() <= MOST_NAME_CHARS);
            }
        }

        #[test]
        fn any_counters_come_back(read_bytes: u64, written_bytes: u64) {
            let text = format!("rchar: 1\nread_bytes: {read_bytes}\nwrite_bytes: {written_bytes}\n");
            prop_assert_eq!(parse_process_io(&text), Some(ProcessIo { read_bytes, written_bytes }));
        }
    }
}
