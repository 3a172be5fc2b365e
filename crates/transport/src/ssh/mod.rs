//! Another host, logged in to over ssh.

mod host;

pub(crate) use host::SshHost;
