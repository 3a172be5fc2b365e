//! The one table of thresholds. A share is of 1; all of them count from the value on (`>=`).

/// A CPU that is busy for this share of the time has nothing left.
pub const CPU_FULL: f64 = 0.95;
/// A thread with this share of its CPU could not have done more: interrupts and the scheduler take the rest.
pub const THREAD_FULL: f64 = 0.90;
/// A program that uses this share of all CPUs that it may use is limited by them.
pub const OWN_CPU_FULL: f64 = 0.85;
/// A CPU that spends this share of the time with interrupts spends most of it so.
pub const MOSTLY_INTERRUPTS: f64 = 0.5;
/// A CPU below this share has time for more work.
pub const CPU_IDLE: f64 = 0.5;
/// Workers that use this share of a CPU would use more of it, were it not full.
pub const CPU_WANTED: f64 = 0.15;
/// Others, or a hypervisor, who have this share of a full CPU take it from the thread that is on it.
pub const CPU_OF_OTHERS: f64 = 0.15;
/// What others took of a CPU or a disk that a flow needs is said from this share on: it can explain as much of the rate.
pub const OTHERS_EXPLAIN: f64 = 0.05;
/// From this share on others limit a flow rather than the part that they took it of, though a little more taken of that
/// costs the flow as much.
pub const OTHERS_LIMIT: f64 = 0.25;
/// CPUs that are as busy as this, on the average, have moments in which nothing is left.
pub const CPU_NEARLY_FULL: f64 = 0.85;
/// Others who have more than this share of all CPUs before something is measured are said at once.
pub const OTHERS_BEFORE: f64 = 0.3;
/// A control group throttled in this share of its periods is limited by its quota.
pub const QUOTA_THROTTLED: f64 = 0.05;
/// … and one that uses this share of its quota, even where few periods show throttling.
pub const QUOTA_USED: f64 = 0.85;
/// The hypervisor gave this share of a CPU to others.
pub const STOLEN: f64 = 0.05;

/// A flow that moves this share of the rate limit that its user gave it has what it asked for.
pub const RATE_LIMIT_MET: f64 = 0.95;
/// A receiver that takes this share of its rate limit is limited by it.
pub const RATE_LIMIT_TAKEN: f64 = 0.8;

/// Workers that wait this share of their time for one side are limited by it.
pub const WAITING: f64 = 0.5;
/// … and this, where they send by a clock and have pauses.
pub const WAITING_PACED: f64 = 0.25;
/// … and this, where a queue is before a link and no disk is the reason: who fills a fast link has work to do.
pub const WAITING_BEFORE_QUEUE: f64 = 0.25;

/// TCP that was held by a window for this share of the time with data to send is limited by it.
pub const WINDOW_CLOSED: f64 = 0.5;
/// … and for this share, where what is on its way fills the receiver's buffer: TCP does not count the time in which
/// both ends are woken for each refill of a small one.
pub const FULL_WINDOW_CLOSED: f64 = 0.25;
/// A sender of datagrams whose waits for the network are waits for the receiver's buffer in this share …
pub const MOST_OF_WAIT: f64 = 0.5;
/// … is limited by that buffer where it waits so for this share of the time: it works while the buffer is emptied, the
/// smaller the buffer the more of the time, and no part of either host is full.
pub const DATAGRAM_WINDOW_CLOSED: f64 = 0.15;
/// A receiver's buffer lets at least this share of it through as a window (`tcp_win_from_space` of Linux); the rest
/// is the kernel's own.
pub const WINDOW_OF_BUFFER: f64 = 0.5;
/// What is under way by rate × round trip fills a window from this share of it on: both are means over the test.
pub const WINDOW_FULL: f64 = 0.8;
/// A request that takes this many times as long as the disk works on one waits somewhere before it, and one that takes
/// this many times as long as the shortest waits in the disk.
pub const HELD_BEFORE_TIMES: f64 = 2.0;
/// A disk that has this share of the requests that the program keeps in it, on the average, never pauses.
pub const DISK_KEPT: f64 = 0.75;
/// Where others have more than this share of the busy time of full CPUs, full CPUs alone say nothing of the flow; nor
/// does one full of the kernel's work where the flow makes less of it than this share of a CPU.
pub const CPU_OF_FLOW: f64 = 0.5;

/// A window that lets less through than this makes the CPUs work for each wake-up: full CPUs are its effect, and what
/// it carries is known as well as what a wake-up costs.
pub const SMALL_WINDOW_BYTES: f64 = 262_144.0;

/// What a byte costs a CPU is not known better than this from stages apart: achieved ÷ predicted of a confirmed
/// limit that is a CPU, here or at the receiver, at least …
pub const CPU_AGREES_FROM: f64 = 0.75;
/// … and at most.
pub const CPU_AGREES_TO: f64 = 1.25;
/// Random loss makes TCP's rate wander: RFC 9438's response function holds over minutes. Achieved ÷ predicted of
/// a confirmed limit that is loss, at least …
pub const LOSS_AGREES_FROM: f64 = 0.7;
/// … and at most.
pub const LOSS_AGREES_TO: f64 = 1.4;
/// Achieved ÷ what the response function makes of the loss that was counted: from a few losses, which a window of
/// seconds holds on a long path, their share is known to a factor of two, at least …
pub const LOSS_EXPLAINS_FROM: f64 = 0.4;
/// … and at most.
pub const LOSS_EXPLAINS_TO: f64 = 2.5;
/// Achieved ÷ predicted of a verdict that may be stated flatly, at least …
pub const AGREES_FROM: f64 = 0.95;
/// … and at most.
pub const AGREES_TO: f64 = 1.05;
/// Two limits nearer than this are one to anybody who measures.
pub const SAME: f64 = 0.01;

/// A link this full carries no more: the rest is lost to how packets fall.
pub const LINK_FULL: f64 = 0.97;
/// A link that carries this share of what it can may lose packets because it is full.
pub const LINK_NEARLY_FULL: f64 = 0.9;
/// No receive buffer of TCP begins smaller: a window that is closed while less is under way is that of a program that
/// reads too slowly, bytes.
pub const LEAST_WINDOW_BYTES: f64 = 16_384.0;
/// A disk with a request in it for this share of the time has no pause.
pub const DISK_BUSY: f64 = 0.95;
/// The same by the mean number of requests in it, where the kernel does not report the time.
pub const DISK_BUSY_DEPTH: f64 = 1.0;
/// A disk that pauses for more than the rest could do more.
pub const DISK_IDLE: f64 = 0.85;
/// Of the reads for which a program waits this share is in the disk itself, where the wait is for its work.
pub const WAIT_OF_DISK: f64 = 0.5;
/// A disk that is used less than this is not what the flow is read from.
pub const DISK_UNUSED: f64 = 0.05;
/// Disks that move this share of the flow are those that it reads or writes.
pub const DISK_OF_FLOW: f64 = 0.5;
/// Where no flow is known: mean requests in a disk that is given all it can take …
pub const DISK_DEEP: f64 = 4.0;
/// … with this share of the best that was seen of it …
pub const DISK_NEAR_BEST: f64 = 0.9;
/// … which says something from this rate on, bytes per second.
pub const DISK_LEAST_BEST: f64 = 10e6;

/// Reads in flight that carry this share of as much more as they are more (twice as many: 1.6 times as much) are
/// too few to fill what they are read from.
pub const READS_CARRY: f64 = 0.6;
/// Reading again that is this many times as fast as a first reading was answered by a cache below the device.
pub const FASTER_AGAIN: f64 = 1.15;

/// All tasks wait for memory this share of the time.
pub const MEMORY_STALLED: f64 = 0.1;
/// Drops per second that are not an accident.
pub const DROPS_PER_SECOND: f64 = 10.0;
/// A way on which slow start, and the losses that end it, take longer than the shortest warm-up, seconds.
pub const FAR_SECONDS: f64 = 0.005;
/// A queue of this many bytes, two of the largest packets that a host hands down at once, …
pub const QUEUE_STANDS_BYTES: f64 = 131_072.0;
/// … that makes a round trip this many times the shortest, is before a full link.
pub const QUEUE_STANDS_TIMES: f64 = 1.5;
/// A queue of at most one such packet is none, …
pub const QUEUE_EMPTY_BYTES: f64 = 65_536.0;
/// … nor is one with which a round trip is at most this many times the shortest.
pub const QUEUE_EMPTY_TIMES: f64 = 1.25;
/// Share of segments that are retransmitted, or of datagrams that are lost, that is worth a word.
pub const LOST: f64 = 0.001;
