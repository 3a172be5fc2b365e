//! What of the processes this user does not see, and why.

use crate::model::Processes;

const UNCOUNTED: &str = "this kernel does not count what a process reads and writes: /proc/PID/io is not there; it takes \
                         one with CONFIG_TASK_IO_ACCOUNTING";

/// By source, as phrases. Nobody looked: nothing is missing.
pub(crate) fn unknown(processes: &Processes) -> impl Iterator<Item = (&'static str, String)> {
    let forbidden = processes.unreadable;
    let uncounted = processes.uncounted.then(|| ("storage by process", UNCOUNTED.to_string()));
    // What root may not read of a process nobody may: to say it would help nobody.
    let curable = forbidden > 0 && !processes.asked_by_root;
    let storage = processes.count.filter(|_| curable).map(|count| {
        let why = format!(
            "what {forbidden} of {count} processes read and write is for root alone (/proc/PID/io: permission \
             denied); run this as root, or with CAP_SYS_PTRACE"
        );
        ("storage by process", why)
    });
    let others = processes.others_are_hidden.then(|| {
        let why = "/proc lists the processes of this user only (hidepid, or ProtectProc of a service)";
        ("processes of others", why.to_string())
    });
    let looked = processes.count.is_some_and(|count| count > 0);
    let tcp = processes.connections.why().filter(|_| looked).map(|why| ("TCP by process", why.to_string()));
    uncounted.or(storage).into_iter().chain(others).chain(tcp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_counts_nothing_is_the_reason_and_not_the_user() {
        let processes = Processes { count: Some(9), unreadable: 3, ..Processes::default() };
        let reasons = |processes: &Processes| unknown(processes).collect::<Vec<_>>();
        assert!(
            reasons(&processes)[0].1.starts_with("what 3 of 9 processes read and write is for root alone")
        );
        let of_root = Processes { asked_by_root: true, ..processes.clone() };
        assert!(reasons(&of_root).iter().all(|(source, _)| *source != "storage by process"));
        let uncounted = reasons(&Processes { uncounted: true, ..processes });
        assert_eq!(uncounted[0], ("storage by process", UNCOUNTED.to_string()));
    }
}
