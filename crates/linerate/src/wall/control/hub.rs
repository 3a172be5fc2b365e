//! The server's end of the control channel: listens, lets in who has the key, and tells everybody what changes.
//!
//! All connections are tasks of one thread: what they do is small, and the conductor never waits.

use super::hall::Hall;
use super::{Conductor, News, tcp};
use crate::agent::Key;
use crate::failure::Failure;
use crate::wall::page::Page;
use crate::web::bind;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::Notify;

/// Where the channel and the page are.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// Addresses of the TCP control channel; port 0 takes any that is free.
    pub listen: Vec<SocketAddr>,
    /// Address of the control page; none: there is no page.
    pub page: Option<SocketAddr>,
    /// Who has it may do everything that a [`super::Request`] says.
    pub key: Key,
}

/// Serves the channel and the page on a thread of its own until it is dropped.
pub struct Hub {
    addresses: Vec<SocketAddr>,
    page_url: Option<String>,
    hall: Arc<Hall>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Listens; from now on requests reach the conductor.
    pub fn start(conductor: Arc<dyn Conductor>, settings: HubSettings) -> Result<Hub, Failure> {
        let lacks = |error: io::Error| Failure::Lacks(format!("the control channel cannot start: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(lacks)?;
        let hall = Arc::new(Hall::new(conductor, settings.key.clone()));
        let both = settings.listen.contains(&(Ipv4Addr::UNSPECIFIED, 0).into());
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        let _inside = runtime.enter();
        for address in &settings.listen {
            let dual = !both
                && !settings.listen.iter().any(|other| other.is_ipv4() && other.port() == address.port());
            let listener = bind(*address, dual, "--listen")?;
            addresses.push(listener.local_addr().map_err(lacks)?);
            listeners.push(listener);
        }
        let page = match settings.page {
            Some(address) => Some(Page::new(bind(address, true, "--page")?, hall.clone())?),
            None => None,
        };
        let page_url = page.as_ref().map(Page::url);
        drop(_inside);
        let stop = Arc::new(Notify::new());
        let (theirs, stopped) = (hall.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
            runtime.block_on(async {
                for listener in listeners {
                    tokio::spawn(tcp::listen(listener, theirs.clone()));
                }
                if let Some(page) = page {
                    tokio::spawn(page.serve());
                }
                tokio::select! {
                    () = keep(&theirs) => {}
                    () = stopped.notified() => {}
                }
            });
            // Tasks end where they are, and their connections with them.
            drop(runtime);
        });
        let thread = Some(thread.map_err(lacks)?);
        Ok(Hub { addresses, page_url, hall, stop, thread })
    }

    /// Where the TCP channel listens, with the ports that the kernel chose for port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The page, with the secret in its fragment: whoever has this line may do everything.
    pub fn page_url(&self) -> Option<String> {
        self.page_url.clone()
    }

    /// Tells the new timeline to all who joined or watch. Returns at once and asks the conductor later, on the hub's thread: it may be
    /// called with the conductor's locks held. After a request that came through the hub it is not needed.
    pub fn timeline_changed(&self) {
        self.hall.changed.notify_one();
    }

    /// Tells news from a thread of its own, which may outlive the hub.
    pub fn teller(&self) -> impl Fn(News) + Send + 'static {
        let hall = Arc::clone(&self.hall);
        move |news| match news {
            News::Timeline => hall.changed.notify_one(),
            News::Show(tick) => hall.show(tick),
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What nobody's request sets off: changes that the conductor tells of, and the barrier's patience.
async fn keep(hall: &Hall) {
    loop {
        let deadline = hall.barrier_deadline();
        let patience = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hall.changed.notified() => hall.tell(),
            () = hall.waited.notified() => {}
            () = patience => hall.pass_barrier(),
        }
    }
}
