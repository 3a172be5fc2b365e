//! What a thread does at one moment, from what `/proc/PID/task/TID` shows of it: its state, the system call that it is
//! in with its first arguments, and the function of the kernel in which it sleeps.

use serde::Serialize;
use std::collections::BTreeMap;
use strum::{EnumCount, VariantArray};

/// What a thread is at.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, EnumCount, VariantArray, strum::Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Activity {
    /// On a CPU.
    Running,
    /// It would run, and its CPU does something else.
    Runnable,
    /// Waits until a disk has read or written.
    Disk,
    /// Waits until a page of a mapped file is read.
    PageFault,
    /// Waits until a socket takes more.
    Send,
    /// Waits until a socket has something.
    Receive,
    /// Waits until another program writes into a pipe.
    PipeRead,
    /// Waits until another program reads from a pipe.
    PipeWrite,
    /// Waits for another thread or process of its own program.
    Lock,
    /// Waits for whatever comes first of many (epoll, poll, select, accept).
    Poll,
    /// Waits for a completion of io_uring or of Linux AIO.
    Ring,
    /// Sleeps by a timer.
    Timer,
    /// Waits until a child ends.
    Child,
    /// Anything else.
    Other,
}

/// Shares of the time, by activity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActivityShares([f64; Activity::COUNT]);

impl ActivityShares {
    /// Of this activity.
    pub fn of(&self, activity: Activity) -> f64 {
        self.0[activity as usize]
    }

    /// Of these together.
    pub fn of_all(&self, activities: &[Activity]) -> f64 {
        activities.iter().map(|activity| self.of(*activity)).sum()
    }

    pub(crate) fn set(&mut self, activity: Activity, share: f64) {
        self.0[activity as usize] = share;
    }

    /// The mean of several, each over its seconds.
    pub fn mean(all: &[(ActivityShares, f64)]) -> ActivityShares {
        let seconds = all.iter().map(|(_, seconds)| seconds).sum::<f64>().max(1e-9);
        let mean = |at| all.iter().map(|(shares, seconds)| shares.0[at] * seconds).sum::<f64>() / seconds;
        ActivityShares(std::array::from_fn(mean))
    }

    /// Those that are worth a word, the largest first.
    pub fn largest(&self) -> Vec<(Activity, f64)> {
        let all = Activity::VARIANTS.iter().map(|activity| (*activity, self.of(*activity)));
        let mut shown: Vec<_> = all.filter(|(_, share)| *share >= 0.005).collect();
        shown.sort_by(|a, b| b.1.total_cmp(&a.1));
        shown
    }
}

impl Serialize for ActivityShares {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let all: BTreeMap<Activity, f64> = self.largest().into_iter().collect();
        all.serialize(to)
    }
}

/// What a file descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DescriptorKind {
    File,
    Socket,
    Pipe,
    Other,
}

/// `/proc/PID/task/TID/syscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemCall {
    /// It runs: the kernel cannot say more.
    Running,
    /// It is in the kernel for another reason than a call: a page fault, or an interrupt.
    None,
    /// With its first three arguments.
    Call { name: &'static str, arguments: [u64; 3] },
    /// One that waits for nothing known.
    Unknown,
}

/// Reads that file: `running`, `-1 0x7ffd… 0x7f…`, or a number and six arguments.
pub(crate) fn parse_system_call(text: &str) -> Option<SystemCall> {
    let mut words = text.split_ascii_whitespace();
    let number: i64 = match words.next()? {
        "running" => return Some(SystemCall::Running),
        word => word.parse().ok()?,
    };
    if number < 0 {
        return Some(SystemCall::None);
    }
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let arguments = [argument()?, argument()?, argument()?];
    let name = linerate_system::system_calls::name(number);
    Some(name.map_or(SystemCall::Unknown, |name| SystemCall::Call { name, arguments }))
}

/// What a thread is at, where its state is `state`; `kind` looks at one of its descriptors.
pub(crate) fn activity(
    state: char,
    call: Option<SystemCall>,
    sleeps_in: Option<&str>,
    kind: impl Fn(u64) -> DescriptorKind,
) -> Activity {
    let by_function = || sleeps_in.and_then(of_function);
    match (state, call) {
        ('R', _) | (_, Some(SystemCall::Running)) => Activity::Running,
        ('D', Some(SystemCall::None)) => Activity::PageFault,
        ('D', Some(SystemCall::Call { name: "futex", .. })) => Activity::Lock,
        ('D', _) => Activity::Disk,
        (_, Some(SystemCall::Call { name, arguments })) => {
            // A file that is waited for so may be a named pipe.
            match of_call(name, arguments, kind) {
                Some(Activity::Disk) => by_function().unwrap_or(Activity::Disk),
                known => known.or_else(by_function).unwrap_or(Activity::Other),
            }
        }
        _ => by_function().unwrap_or(Activity::Other),
    }
}

/// Of a thread that sleeps in this call.
fn of_call(name: &str, arguments: [u64; 3], kind: impl Fn(u64) -> DescriptorKind) -> Option<Activity> {
    let of = |descriptor, file, socket, pipe| match kind(descriptor) {
        DescriptorKind::File => Some(file),
        DescriptorKind::Socket => Some(socket),
        DescriptorKind::Pipe => Some(pipe),
        DescriptorKind::Other => None,
    };
    use Activity as A;
    match name {
        "read" | "readv" | "pread64" | "preadv" | "preadv2" => {
            of(arguments[0], A::Disk, A::Receive, A::PipeRead)
        }
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendfile" => {
            of(arguments[0], A::Disk, A::Send, A::PipeWrite)
        }
        // From its first descriptor to its third; a pipe is on one side.
        "splice" => match (kind(arguments[0]), kind(arguments[2])) {
            (_, DescriptorKind::Socket) => Some(A::Send),
            (DescriptorKind::Socket, _) => Some(A::Receive),
            (DescriptorKind::File, _) | (_, DescriptorKind::File) => Some(A::Disk),
            _ => None,
        },
        "copy_file_range" | "fsync" | "fdatasync" | "sync_file_range" => Some(A::Disk),
        "io_getevents" | "io_uring_enter" => Some(A::Ring),
        "sendto" | "sendmsg" | "sendmmsg" => Some(A::Send),
        "recvfrom" | "recvmsg" | "recvmmsg" => Some(A::Receive),
        "futex" => Some(A::Lock),
        // Without descriptors it is a sleep.
        "poll" | "ppoll" if arguments[1] == 0 => Some(A::Timer),
        "select" | "pselect6" if arguments[0] == 0 => Some(A::Timer),
        "accept" | "accept4" | "connect" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll"
        | "ppoll" | "select" | "pselect6" => Some(A::Poll),
        "nanosleep" | "clock_nanosleep" => Some(A::Timer),
        "wait4" | "waitid" => Some(A::Child),
        _ => None,
    }
}

/// The function of the kernel in which a thread sleeps (`/proc/PID/wchan`), by how it begins: names change from version
/// to version, mostly at their end. None: it is none of these.
fn of_function(name: &str) -> Option<Activity> {
    use Activity as A;
    const BEGINNINGS: &[(&str, Activity)] = &[
        ("futex", A::Lock),
        ("ep_poll", A::Poll),
        ("do_epoll_wait", A::Poll),
        ("do_poll", A::Poll),
        ("do_sys_poll", A::Poll),
        ("do_select", A::Poll),
        ("poll_schedule_timeout", A::Poll),
        ("inet_csk_accept", A::Poll),
        ("inet_csk_wait_for_connect", A::Poll),
        ("anon_pipe_read", A::PipeRead),
        ("anon_pipe_write", A::PipeWrite),
        ("pipe_read", A::PipeRead),
        ("pipe_write", A::PipeWrite),
        ("pipe_wait_readable", A::PipeRead),
        ("pipe_wait_writable", A::PipeWrite),
        ("sk_stream_wait", A::Send),
        ("sock_alloc_send", A::Send),
        ("tcp_sendmsg", A::Send),
        ("sk_wait_data", A::Receive),
        ("tcp_recvmsg", A::Receive),
        ("unix_stream_read", A::Receive),
        ("unix_stream_data_wait", A::Receive),
        ("__skb_wait_for", A::Receive),
        ("io_cqring_wait", A::Ring),
        ("read_events", A::Ring),
        ("hrtimer_nanosleep", A::Timer),
        ("do_nanosleep", A::Timer),
        ("do_wait", A::Child),
        ("folio_wait", A::Disk),
        ("wait_on_page", A::Disk),
        ("io_schedule", A::Disk),
        ("submit_bio_wait", A::Disk),
        ("blkdev_", A::Disk),
        ("blk_", A::Disk),
        ("__iomap_dio", A::Disk),
        ("rq_qos_wait", A::Disk),
        ("jbd2_", A::Disk),
        ("balance_dirty_pages", A::Disk),
        ("nfs_", A::Disk),
        ("rpc_wait", A::Disk),
        ("request_wait_answer", A::Disk),
    ];
    BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, activity)| *activity)
}

/// Bytes that the call asks for at once, and of which descriptor; none where it does not say.
pub(crate) fn asked_bytes(call: SystemCall) -> Option<(u64, u64)> {
    let SystemCall::Call { name, arguments } = call else { return None };
    let has_length = matches!(name, "read" | "pread64" | "write" | "pwrite64" | "sendto" | "recvfrom");
    has_length.then_some((arguments[0], arguments[2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(state: char, name: &'static str, kind: DescriptorKind) -> Activity {
        let call = SystemCall::Call { name, arguments: [3, 1, 4096] };
        activity(state, Some(call), None, |_| kind)
    }

    #[test]
    fn a_call_is_what_its_descriptor_makes_of_it() {
        use DescriptorKind::{File, Other, Pipe, Socket};
        let of = |name, kind| at('S', name, kind);
        assert_eq!([of("read", Socket), of("read", Pipe)], [Activity::Receive, Activity::PipeRead]);
        assert_eq!([of("write", Socket), of("write", Pipe)], [Activity::Send, Activity::PipeWrite]);
        assert_eq!([of("sendfile", Socket), at('D', "sendfile", Socket)], [Activity::Send, Activity::Disk]);
        assert_eq!([of("futex", Other), of("clock_nanosleep", Other)], [Activity::Lock, Activity::Timer]);
        assert_eq!([at('D', "read", File), at('R', "read", File)], [Activity::Disk, Activity::Running]);
        assert_eq!(activity('D', Some(SystemCall::None), None, |_| Other), Activity::PageFault);
        let named = SystemCall::Call { name: "write", arguments: [1, 1, 1] };
        assert_eq!(activity('S', Some(named), Some("anon_pipe_write"), |_| File), Activity::PipeWrite);
        let nobody = SystemCall::Call { name: "poll", arguments: [0, 0, 100] };
        assert_eq!(activity('S', Some(nobody), None, |_| Other), Activity::Timer);
    }

    #[test]
    fn without_the_call_the_function_of_the_kernel_says_it() {
        let of = |name| activity('S', None, Some(name), |_| DescriptorKind::Other);
        let names = ["futex_wait_queue", "ep_poll", "sk_stream_wait_memory", "hrtimer_nanosleep", "0"];
        use Activity::{Lock, Other, Poll, Send, Timer};
        assert_eq!(names.map(of), [Lock, Poll, Send, Timer, Other]);
        assert_eq!(activity('D', None, Some("anything"), |_| DescriptorKind::Other), Activity::Disk);
    }

    #[test]
    fn what_the_kernel_writes_of_a_call_is_read() {
        assert_eq!(parse_system_call("running"), Some(SystemCall::Running));
        assert_eq!(parse_system_call("-1 0x7ffd 0x7f00"), Some(SystemCall::None));
        let read = parse_system_call("0 0x3 0x7f1 0x20000 0x0 0x0 0x0 0x7ffc 0x7f8");
        if cfg!(target_arch = "x86_64") {
            let expected = SystemCall::Call { name: "read", arguments: [3, 0x7f1, 0x2_0000] };
            assert_eq!(read, Some(expected));
            assert_eq!(read.and_then(asked_bytes), Some((3, 0x2_0000)));
        }
        assert_eq!(parse_system_call(""), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-fx \n-]{0,80}", function in "[a-z_0-9]{0,40}") {
            let call = parse_system_call(&text);
            let _ = call.and_then(asked_bytes);
            for state in ['R', 'S', 'D', 'T', 'Z'] {
                let _ = activity(state, call, Some(&function), |_| DescriptorKind::File);
            }
        }
    }
}
