//! What of the processes this user may not see, and why.

use crate::model::Processes;

/// By source, as phrases. Nobody looked: nothing is missing.
pub(crate) fn unknown(processes: &Processes) -> impl Iterator<Item = (&'static str, String)> {
    let forbidden = processes.unreadable;
    let storage = processes.count.filter(|_| forbidden > 0).map(|count| {
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
    storage.into_iter().chain(others).chain(tcp)
}
