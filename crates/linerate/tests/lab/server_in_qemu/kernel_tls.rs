//! `linerate serve --tls` on a kernel that encrypts: Debian's has the module, that of the other lab has not.

use super::guest::QemuServer;
use super::thorough;
use crate::support::program;

/// A file of so many bytes, served to `linerate get` and to curl, who compare it; gives what the server said at its end.
/// An emulated CPU decrypts half a MiB a second.
fn served(guest: &QemuServer, folder: &str, bytes: u32) -> String {
    let program = program();
    guest.succeed(&format!(
        r"modprobe tls && cd $(mktemp -d) && mkdir out
head -c {bytes} /dev/urandom >{folder}/file && sync && echo 1 >/proc/sys/vm/drop_caches
{program} serve {folder} --tls --listen 127.0.0.1:7419 --no-save >said 2>&1 &
for ((i = 0; i < 300; i++)); do grep -q fingerprint said && break; sleep 0.1; done
pin=$(sed -n 's/.*--fingerprint: //p' said)
{program} get https://127.0.0.1:7419/file --fingerprint $pin --output out --no-save >got || exit
cmp out/file {folder}/file || exit
if command -v curl >/dev/null; then curl -sSk https://127.0.0.1:7419/file | cmp - {folder}/file || exit; fi
kill -INT %1 && wait %1
cat said /proc/net/tls_stat"
    ))
}

fn counted(said: &str, counter: &str) -> u64 {
    let line = said.lines().find_map(|line| line.strip_prefix(counter));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or_else(|| panic!("{counter}: {said}"))
}

/// In the page cache: the kernel encrypts what sendfile gives it, both ways, and nothing is encrypted in user space.
pub(super) fn cached_files_are_encrypted_by_the_kernel(guest: &QemuServer) {
    let said = served(guest, "/tmp", (256 << 10) + 7);
    assert!(said.contains("encrypted by the kernel"), "{said}");
    assert!(!said.contains("user space"), "{said}");
    assert!(counted(&said, "TlsTxSw") >= 1 && counted(&said, "TlsRxSw") >= 1, "{said}");
    assert_eq!(counted(&said, "TlsDecryptError"), 0, "{said}");
}

/// On a drive, and not in the page cache: read with O_DIRECT, and encrypted on the way.
#[test]
fn cold_files_are_encrypted_by_the_kernel() {
    if !thorough() {
        eprintln!("skipped: cold files under TLS on a server in QEMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("kernel-tls", &[]) else { return };
    let drive = "modprobe ext4 && mkfs.ext4 -q -F /dev/nvme0n1 && mkdir -p /mnt/drive && mount /dev/nvme0n1 /mnt/drive";
    guest.succeed(drive);
    let said = served(&guest, "/mnt/drive", (4 << 20) + 7);
    assert!(said.contains("encrypted by the kernel") && !said.contains("user space"), "{said}");
    assert!(said.contains("past it, by"), "{said}");
    assert!(counted(&said, "TlsTxSw") >= 1, "{said}");
    guest.down();
}
