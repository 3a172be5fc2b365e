//! The listener of a page or a control channel.

use linerate_facts::failure::Failure;
use linerate_transport::admission;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::TcpListener;

/// A listener for each address; `option` is the one that named them. Called within the runtime.
pub fn bind(addresses: &[SocketAddr], option: &str) -> Result<Vec<TcpListener>, Failure> {
    let in_use = format!(
        "does another linerate listen there? Stop it, or choose another port with {option} ADDRESS:PORT"
    );
    let listeners = admission::listen(addresses).map_err(|error| error.advise(option, &in_use))?;
    let listeners = listeners.into_iter().map(TcpListener::from_std).collect::<io::Result<_>>();
    listeners.map_err(|error| {
        Failure::Lacks(format!("cannot listen: {error}; choose another address with {option}"))
    })
}

/// What a person opens, without any secret. A page for every address is shown at this host's own.
pub fn page_url(address: SocketAddr) -> String {
    let host = match address.ip() {
        IpAddr::V4(every) if every.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(every) if every.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        one => one,
    };
    format!("http://{}/", SocketAddr::new(host, address.port()))
}
