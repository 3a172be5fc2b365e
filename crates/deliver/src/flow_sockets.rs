//! The connections of a transfer, by the interfaces of this host that they use, with the bytes that went by each.

use linerate_facts::sysroot::Sysroot;
use linerate_machine::flow_devices::{FlowDevices, InterfacePath, SocketInterfaces, interfaces_of};
use linerate_system::clock;
use linerate_system::lock;
use socket2::SockRef;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The kernel is asked again for two hosts after this: a route may have changed.
const FRESH: Duration = Duration::from_millis(250);
/// Pairs of hosts that are remembered.
const MOST_PAIRS: usize = 4096;
/// Clients whose route changed that are named.
const MOST_MOVED: usize = 16;
/// Interfaces that carried less than this share of a transfer do not limit it.
const LEAST_SHARE: f64 = 0.05;

/// Which interfaces connections used, and for how much.
#[derive(Debug)]
pub(crate) struct SocketRoute {
    interfaces: SocketInterfaces,
    bytes: AtomicU64,
}

impl SocketRoute {
    /// A connection moved so much by it.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn direction(&self, comes_in: bool) -> &InterfacePath {
        if comes_in { &self.interfaces.receives } else { &self.interfaces.sends }
    }
}

/// Of all connections of a transfer.
#[derive(Debug, Default)]
pub(crate) struct FlowSockets(Mutex<KnownRoutes>);

#[derive(Debug, Default)]
struct KnownRoutes {
    routes: Vec<Arc<SocketRoute>>,
    pairs: HashMap<(SocketAddr, SocketAddr), (Instant, Arc<SocketRoute>)>,
    /// What changed its interface in the middle.
    moved: Vec<String>,
}

impl FlowSockets {
    /// What a connection uses now.
    pub(crate) fn route_of(&self, socket: &TcpStream) -> Arc<SocketRoute> {
        self.route_by(socket, |local, peer, bound_to| interfaces_of(&Sysroot::live(), local, peer, bound_to))
    }

    /// A connection ends: notes whether it still used the same interfaces.
    pub(crate) fn ends(&self, socket: &TcpStream) {
        let known = host_pair(socket).is_some_and(|pair| lock(&self.0).pairs.contains_key(&pair));
        if known {
            self.route_of(socket);
        }
    }

    fn route_by(
        &self,
        socket: &TcpStream,
        resolve: impl FnOnce(SocketAddr, SocketAddr, u32) -> SocketInterfaces,
    ) -> Arc<SocketRoute> {
        let mut known = lock(&self.0);
        let Some(pair) = host_pair(socket) else {
            let why = InterfacePath::unknown("a connection broke before it was looked at".into());
            return known.route(SocketInterfaces { sends: why.clone(), receives: why });
        };
        if let Some((_, route)) = known.pairs.get(&pair).filter(|(looked, _)| clock::since(*looked) < FRESH) {
            return Arc::clone(route);
        }
        let bound_to = SockRef::from(socket).device_index_v4().ok().flatten().map_or(0, |index| index.get());
        // The kernel is asked without the lock: all that send wait for it.
        drop(known);
        let interfaces = resolve(pair.0, pair.1, bound_to);
        let mut known = lock(&self.0);
        let route = known.route(interfaces);
        if known.pairs.len() >= MOST_PAIRS {
            known.pairs.clear();
        }
        let before = known.pairs.insert(pair, (clock::now(), Arc::clone(&route)));
        if before.is_some_and(|(_, before)| !Arc::ptr_eq(&before, &route)) {
            let peer = pair.1.ip().to_canonical();
            let why = format!("the route to {peer} changed in the middle");
            if known.moved.len() < MOST_MOVED && !known.moved.contains(&why) {
                known.moved.push(why);
            }
        }
        route
    }

    /// By which interfaces most of it went, out or in.
    pub(crate) fn devices(&self, comes_in: bool) -> FlowDevices {
        let known = lock(&self.0);
        let bytes = |route: &SocketRoute| route.bytes.load(Ordering::Relaxed) as f64;
        let all: f64 = known.routes.iter().map(|route| bytes(route)).sum();
        let mut devices = FlowDevices::default();
        for route in
            known.routes.iter().filter(|route| bytes(route) > 0.0 && bytes(route) >= LEAST_SHARE * all)
        {
            devices.add(route.direction(comes_in));
        }
        devices.unknown.extend(known.moved.iter().cloned());
        devices
    }
}

impl KnownRoutes {
    fn route(&mut self, interfaces: SocketInterfaces) -> Arc<SocketRoute> {
        if let Some(route) = self.routes.iter().find(|route| route.interfaces == interfaces) {
            return Arc::clone(route);
        }
        let route = Arc::new(SocketRoute { interfaces, bytes: AtomicU64::new(0) });
        self.routes.push(Arc::clone(&route));
        route
    }
}

/// Local and other end; without ports, by which no route differs as the kernel is set by default.
fn host_pair(socket: &TcpStream) -> Option<(SocketAddr, SocketAddr)> {
    let (mut local, mut peer) = (socket.local_addr().ok()?, socket.peer_addr().ok()?);
    local.set_port(0);
    peer.set_port(0);
    Some((local, peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn connection() -> (TcpStream, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        (TcpStream::connect(address).expect("a connection"), listener)
    }

    fn by(name: &str) -> SocketInterfaces {
        let path = InterfacePath { interfaces: vec![name.into()], unknown: None };
        SocketInterfaces { sends: path.clone(), receives: path }
    }

    fn names(devices: &FlowDevices) -> Vec<&str> {
        devices.interfaces.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_connection_of_this_host_to_itself_uses_loopback_alone() {
        let (sockets, (socket, _listener)) = (FlowSockets::default(), connection());
        assert!(names(&sockets.devices(true)).is_empty(), "nothing was moved yet");
        sockets.route_of(&socket).add(1000);
        sockets.ends(&socket);
        for comes_in in [true, false] {
            let devices = sockets.devices(comes_in);
            assert_eq!((names(&devices), devices.unknown.len()), (vec!["lo"], 0));
        }
    }

    #[test]
    fn an_interface_that_carries_next_to_nothing_of_a_flow_is_none_of_it() {
        let (sockets, (socket, _listener)) = (FlowSockets::default(), connection());
        let mut known = lock(&sockets.0);
        known.route(by("eth0")).add(970);
        known.route(by("eth1")).add(30);
        known.route(by("eth0")).add(1000);
        drop(known);
        assert_eq!(names(&sockets.devices(false)), ["eth0"]);
        lock(&sockets.0).route(by("eth1")).add(1000);
        assert_eq!(names(&sockets.devices(false)), ["eth0", "eth1"]);
        drop(socket);
    }

    #[test]
    fn a_route_that_changes_makes_the_interfaces_unsure() {
        let (sockets, (socket, _listener)) = (FlowSockets::default(), connection());
        sockets.route_by(&socket, |_, _, _| by("eth0")).add(1000);
        let again = sockets.route_by(&socket, |_, _, _| panic!("it was looked at a moment ago"));
        assert_eq!(again.interfaces, by("eth0"));
        // As if the time had passed.
        let pair = host_pair(&socket).expect("its ends");
        lock(&sockets.0).pairs.entry(pair).and_modify(|(looked, _)| *looked -= FRESH);
        sockets.route_by(&socket, |_, _, _| by("eth1")).add(1000);
        let devices = sockets.devices(false);
        assert_eq!(names(&devices), ["eth0", "eth1"]);
        let why: Vec<&String> = devices.unknown.iter().collect();
        assert_eq!(why, ["the route to 127.0.0.1 changed in the middle"]);
    }
}
