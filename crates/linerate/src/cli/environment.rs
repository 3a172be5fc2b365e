//! What the environment says in place of options: it is so of a host, whatever the command.

/// `LINERATE_IO_URING=0` forbids io_uring, where the kernel allows it: for a comparison, or where it is at fault.
pub(super) fn may_use_io_uring() -> bool {
    std::env::var_os("LINERATE_IO_URING").is_none_or(|value| value != "0")
}

/// Lines of `LINERATE_POWER_COMMAND`: each reads a power meter that linerate does not find by itself, and their sum counts.
pub(super) fn power_commands() -> Vec<String> {
    let lines = std::env::var("LINERATE_POWER_COMMAND").unwrap_or_default();
    lines.lines().filter(|line| !line.trim().is_empty()).map(String::from).collect()
}
