//! The door to the settings: read, write, find a device. The real one asks the kernel, on a thread with a
//! deadline; tests have one with faults.

use super::setting_place::{DevicePresence, Knob, NamedDevice, SettingPlace, Shape};
use linerate_facts::sysroot::{ReadOnlyTree, Sysroot, Unreadable, Writer};
use linerate_system::Errno;
use linerate_system::ethtool::Ethtool;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// A driver that resets its card for a change of rings needs a second or two; what takes longer than this
/// hangs.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why a setting could not be read or written; each holds a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    /// It is not there.
    #[error("{0}")]
    Absent(String),
    /// The kernel said no, and nothing changed by it.
    #[error("{0}")]
    Refused(String),
    /// No answer within the deadline: nothing more is tried.
    #[error("{0}")]
    Hung(String),
}

/// What apply and undo ask.
pub trait KernelAccess {
    /// The bytes of a setting; `None` for a drop-in that is absent.
    fn read(&self, place: &SettingPlace) -> Result<Option<Vec<u8>>, AccessRefusal>;
    /// Writes a setting; `None` takes a drop-in away.
    fn write(&self, place: &SettingPlace, shape: Shape, bytes: Option<&[u8]>) -> Result<(), AccessRefusal>;
    /// Looks for a device.
    fn find(&self, device: &NamedDevice, same_boot: bool) -> DevicePresence;
}

/// The live machine, or a tree in place of one.
#[derive(Clone, Debug)]
pub struct LiveKernel {
    sysroot: Sysroot,
    writer: Writer,
    deadline: Duration,
}

impl LiveKernel {
    /// The access to the settings of a tree.
    pub fn of(sysroot: &Sysroot) -> Result<LiveKernel, ReadOnlyTree> {
        Ok(LiveKernel { sysroot: sysroot.clone(), writer: sysroot.writer()?, deadline: DEADLINE })
    }

    fn within<T: Send + 'static>(
        &self,
        place: &SettingPlace,
        work: impl FnOnce() -> Result<T, AccessRefusal> + Send + 'static,
    ) -> Result<T, AccessRefusal> {
        within(self.deadline, work).unwrap_or_else(|| {
            let seconds = self.deadline.as_secs();
            Err(AccessRefusal::Hung(format!("{place} did not answer within {seconds} s: its driver hangs")))
        })
    }
}

impl KernelAccess for LiveKernel {
    fn read(&self, place: &SettingPlace) -> Result<Option<Vec<u8>>, AccessRefusal> {
        let (sysroot, asked) = (self.sysroot.clone(), place.clone());
        self.within(place, move || read(&sysroot, &asked))
    }

    fn write(&self, place: &SettingPlace, shape: Shape, bytes: Option<&[u8]>) -> Result<(), AccessRefusal> {
        let (kernel, asked, bytes) = (self.clone(), place.clone(), bytes.map(<[u8]>::to_vec));
        let value = bytes.as_deref().map(String::from_utf8_lossy).map(|text| text.into_owned());
        let written = self.within(place, move || {
            kernel.put(&asked, shape, bytes.as_deref()).map_err(|error| refusal(&asked, &error))
        });
        tracing::info!(%place, ?value, done = written.is_ok(), "setting written");
        written
    }

    fn find(&self, device: &NamedDevice, same_boot: bool) -> DevicePresence {
        device.find(&self.sysroot, same_boot)
    }
}

/// Only reads: for a recording in an archive.
#[derive(Clone, Debug)]
pub struct Reader(pub Sysroot);

impl KernelAccess for Reader {
    fn read(&self, place: &SettingPlace) -> Result<Option<Vec<u8>>, AccessRefusal> {
        read(&self.0, place)
    }

    fn write(&self, place: &SettingPlace, _: Shape, _: Option<&[u8]>) -> Result<(), AccessRefusal> {
        Err(AccessRefusal::Refused(format!("{place}: a recording in an archive cannot be changed")))
    }

    fn find(&self, device: &NamedDevice, same_boot: bool) -> DevicePresence {
        device.find(&self.0, same_boot)
    }
}

impl LiveKernel {
    fn put(&self, place: &SettingPlace, shape: Shape, bytes: Option<&[u8]>) -> io::Result<()> {
        match (place, bytes) {
            (SettingPlace::DropIn(path), bytes) => self.writer.drop_in(path, bytes),
            (_, None) => Err(io::ErrorKind::InvalidInput.into()),
            (SettingPlace::Attribute(path), Some(bytes)) if self.sysroot.is_live() => {
                self.writer.set(path, bytes)
            }
            (SettingPlace::Attribute(path), Some(bytes)) => {
                let before = self.sysroot.bytes(path).map_err(io::Error::other)?;
                let shown = shape.rehearsed(&before, bytes)?;
                self.writer.set(path, &shown)
            }
            (SettingPlace::Driver { interface, knob }, Some(bytes)) if self.sysroot.is_live() => {
                let text = String::from_utf8_lossy(bytes);
                let value = text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
                set_knob(interface, knob, value)
            }
            (SettingPlace::Driver { .. }, Some(_)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Does something on a thread of its own; `None` where it takes longer. The thread is then left behind:
/// nothing ends a call that hangs in the kernel.
fn within<T: Send + 'static>(deadline: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, hear) = mpsc::channel();
    let started = std::thread::Builder::new().name("tune".into()).spawn(move || {
        // Nobody may be listening any more.
        let _ = tell.send(work());
    });
    started.ok()?;
    hear.recv_timeout(deadline).ok()
}

/// Reads a setting without a deadline.
fn read(sysroot: &Sysroot, place: &SettingPlace) -> Result<Option<Vec<u8>>, AccessRefusal> {
    match place {
        SettingPlace::DropIn(path) if !sysroot.exists(path) => Ok(None),
        SettingPlace::Attribute(path) if !sysroot.exists(path) => {
            Err(AccessRefusal::Absent(Unreadable::absent(path).to_string()))
        }
        SettingPlace::DropIn(path) | SettingPlace::Attribute(path) => {
            sysroot.bytes(path).map(Some).map_err(|why| AccessRefusal::Refused(why.to_string()))
        }
        SettingPlace::Driver { .. } if !sysroot.is_live() => {
            Err(AccessRefusal::Refused("a recorded tree does not hold what the driver reports".into()))
        }
        SettingPlace::Driver { interface, knob } => {
            let value = driver_value(interface, knob).map_err(|error| refusal(place, &error))?;
            Ok(Some(value.to_string().into_bytes()))
        }
    }
}

fn driver_value(interface: &str, knob: &Knob) -> io::Result<u32> {
    let ethtool = Ethtool::new()?;
    Ok(match knob {
        Knob::RxRing => ethtool.rings(interface)?.rx,
        Knob::TxRing => ethtool.rings(interface)?.tx,
        Knob::CombinedChannels => ethtool.channels(interface)?.combined,
        Knob::AdaptiveRx => u32::from(ethtool.coalescing(interface)?.adaptive_rx),
        Knob::RxPause => u32::from(ethtool.pause(interface)?.rx),
        Knob::TxPause => u32::from(ethtool.pause(interface)?.tx),
        Knob::Feature(name) => u32::from(ethtool.features(interface)?.contains(name)),
    })
}

fn set_knob(interface: &str, knob: &Knob, value: u32) -> io::Result<()> {
    let ethtool = Ethtool::new()?;
    match knob {
        Knob::RxRing => ethtool.set_rings(interface, value, ethtool.rings(interface)?.tx),
        Knob::TxRing => ethtool.set_rings(interface, ethtool.rings(interface)?.rx, value),
        Knob::CombinedChannels => ethtool.set_combined_channels(interface, value),
        Knob::AdaptiveRx => ethtool.set_adaptive_rx(interface, value != 0),
        Knob::RxPause => ethtool.set_pause(interface, value != 0, ethtool.pause(interface)?.tx),
        Knob::TxPause => ethtool.set_pause(interface, ethtool.pause(interface)?.rx, value != 0),
        Knob::Feature(name) => ethtool.set_feature(interface, name, value != 0),
    }
}

/// What an error means for a setting.
fn refusal(place: &SettingPlace, error: &io::Error) -> AccessRefusal {
    let why = match error.kind() {
        io::ErrorKind::NotFound if matches!(place, SettingPlace::Attribute(path) if is_named(path)) => {
            "this kernel has nothing of that name (a module that is not there?)"
        }
        io::ErrorKind::NotFound => return AccessRefusal::Absent(format!("{place}: not there")),
        _ if Errno::from_io_error(error) == Some(Errno::NODEV) => {
            return AccessRefusal::Absent(format!("{place}: the device is gone"));
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied: settings are root's to change, and not in every container"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "mounted read-only, as in most containers: change it on the host"
        }
        io::ErrorKind::InvalidInput => {
            "the kernel does not take this value: it is out of range, or no choice here"
        }
        io::ErrorKind::ResourceBusy => "busy: something else holds it at its value",
        io::ErrorKind::Unsupported => "the driver cannot do this",
        _ if Errno::from_io_error(error) == Some(Errno::IO) => {
            "the kernel manages it itself and lets nobody change it"
        }
        _ => return AccessRefusal::Refused(format!("{place}: {error}")),
    };
    AccessRefusal::Refused(format!("{place}: {why}"))
}

/// Settings whose value is a name of a module: ENOENT is about the value, not about the file.
fn is_named(path: &Path) -> bool {
    ["default_qdisc", "tcp_congestion_control"].iter().any(|name| path.ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_left_behind() {
        let (_keep, never) = mpsc::channel::<()>();
        let started = std::time::Instant::now();
        assert_eq!(within(Duration::from_millis(50), move || never.recv().is_ok()), None);
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
    }

    #[test]
    fn a_tree_of_files_behaves_as_the_kernel() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let queue = root.path().join("sys/block/vda/queue");
        std::fs::create_dir_all(&queue).expect("directories");
        std::fs::write(queue.join("scheduler"), "none [mq-deadline]\n").expect("a file");
        let kernel = LiveKernel::of(&Sysroot::recorded(root.path())).expect("a folder");
        let place = SettingPlace::Attribute("/sys/block/vda/queue/scheduler".into());
        kernel.write(&place, Shape::Choice, Some(b"none\n")).expect("a choice");
        assert_eq!(kernel.read(&place), Ok(Some(b"[none] mq-deadline\n".to_vec())));
        let refused = kernel.write(&place, Shape::Choice, Some(b"bfq\n")).expect_err("no choice");
        assert!(matches!(&refused, AccessRefusal::Refused(why) if why.contains("out of range")), "{refused}");
        let none = SettingPlace::Attribute("/sys/block/vda/queue/none".into());
        assert!(matches!(kernel.read(&none), Err(AccessRefusal::Absent(_))));
        assert_eq!(kernel.read(&SettingPlace::DropIn("/etc/sysctl.d/90-linerate.conf".into())), Ok(None));
    }
}
