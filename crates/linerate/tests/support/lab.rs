//! Whether this machine can have a lab of measured speeds (LINERATE_LAB as in `lab_script.rs`).

use std::process::{Command, Stdio};

/// Why there can be no lab here.
pub fn lacking() -> Option<String> {
    if std::env::var("LINERATE_LAB").is_ok_and(|wanted| wanted == "0") {
        return Some("LINERATE_LAB=0".into());
    }
    let user = Command::new("id").arg("-u").output().ok()?;
    if String::from_utf8_lossy(&user.stdout).trim() != "0" {
        return Some("a lab needs root".into());
    }
    let tools = ["mkfs.xfs", "losetup", "nsenter", "flock", "ip", "tc"];
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--help").output().is_err());
    if let Some(tool) = missing {
        return Some(format!("a lab needs {tool}"));
    }
    let may = Command::new("unshare").args(["--mount", "--net", "true"]).stderr(Stdio::null()).status();
    (!may.is_ok_and(|status| status.success())).then(|| "this root may not make namespaces".into())
}
