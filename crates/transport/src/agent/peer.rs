//! `--peer`: how a user names an agent.

use super::ssh::{SshAgent, start_agent};
use super::{DEFAULT_PORT, Key};
use crate::address::resolve_named;
use crate::ssh::SshHost;
use linerate_facts::failure::Failure;
use linerate_system::stop::Stop;
use std::net::SocketAddr;
use std::path::Path;

/// An agent to connect to. One that was started over ssh ends when this is dropped.
pub struct Peer {
    pub address: SocketAddr,
    pub key: Key,
    _launched: Option<SshAgent>,
}

/// The agents that were named with `--peer`: all names are read before anything is done, then agents are
/// started where `ssh://` asks for it. The key is asked for only where somebody else has started the agent.
/// `stop` (Ctrl-C) ends the waiting.
pub fn find_peers(peers: &[String], key_file: Option<&Path>, stop: &Stop) -> Result<Vec<Peer>, Failure> {
    enum Named {
        Address(SocketAddr),
        Ssh(SshHost),
    }
    let named: Vec<Named> = peers
        .iter()
        .map(|text| match SshHost::parse(text).map_err(|why| Failure::Usage(format!("--peer {why}")))? {
            Some(host) => Ok(Named::Ssh(host)),
            None => resolve_named("--peer", text, DEFAULT_PORT).map(Named::Address),
        })
        .collect::<Result<_, Failure>>()?;
    let shared = match named.iter().any(|name| matches!(name, Named::Address(_))) {
        true => Some(Key::find(key_file)?),
        false => None,
    };
    let ready = named.into_iter().filter_map(|name| match name {
        Named::Address(address) => shared.clone().map(|key| Ok(Peer { address, key, _launched: None })),
        Named::Ssh(host) => Some(start_agent(&host, stop).map(|(address, key, agent)| Peer {
            address,
            key,
            _launched: Some(agent),
        })),
    });
    ready.collect()
}
