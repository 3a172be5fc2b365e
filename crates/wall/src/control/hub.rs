//! The server's end of the control channel: listens, lets in who has the key, and sends everybody what
//! changes.
//!
//! All connections are tasks of one thread: what they do is small, and the conductor never waits.

use super::state::ControlState;
use super::{Conductor, News, tcp};
use crate::page::Page;
use linerate_facts::failure::Failure;
use linerate_transport::agent::Key;
use linerate_web::bind;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
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
    state: Arc<ControlState>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Listens; from now on requests reach the conductor.
    pub fn start(conductor: Arc<dyn Conductor>, settings: HubSettings) -> Result<Hub, Failure> {
        let lacks = |error: io::Error| Failure::Lacks(format!("the control channel cannot start: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(lacks)?;
        let state = Arc::new(ControlState::new(conductor, settings.key.clone()));
        let inside = runtime.enter();
        let listeners = bind(&settings.listen, "--listen")?;
        let addresses =
            listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>().map_err(lacks)?;
        let page = match settings.page {
            Some(address) => bind(&[address], "--page")?.pop(),
            None => None,
        };
        let page = page.map(|listener| Page::new(listener, state.clone())).transpose()?;
        let page_url = page.as_ref().map(Page::url);
        drop(inside);
        let stop = Arc::new(Notify::new());
        let (task_state, stopped) = (state.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
            runtime.block_on(async {
                for listener in listeners {
                    tokio::spawn(tcp::listen(listener, task_state.clone()));
                }
                if let Some(page) = page {
                    tokio::spawn(page.serve());
                }
                tokio::select! {
                    () = run_timers(&task_state) => {}
                    () = stopped.notified() => {}
                }
            });
            // Tasks end where they are, and their connections with them.
            drop(runtime);
        });
        let thread = Some(thread.map_err(lacks)?);
        Ok(Hub { addresses, page_url, state, stop, thread })
    }

    /// Where the TCP channel listens, with the ports that the kernel chose for port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The page, with the secret in its fragment: anyone who has this line may do everything.
    pub fn page_url(&self) -> Option<String> {
        self.page_url.clone()
    }

    /// Sends news to all who joined or watch; the thread that calls it may outlive the hub. Returns at once and
    /// asks the conductor later, on the hub's thread: it may be called with the conductor's locks held. After a
    /// request that came through the hub it is not needed.
    pub fn notifier(&self) -> impl Fn(News) + Send + 'static {
        let state = Arc::clone(&self.state);
        move |news| match news {
            News::Timeline => state.changed.notify_one(),
            News::Show(tick) => state.show(tick),
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

/// Work that no request triggers: conductor changes and the barrier's timeout.
async fn run_timers(state: &ControlState) {
    loop {
        let deadline = state.barrier_deadline();
        let patience = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = state.changed.notified() => state.tell(),
            () = state.waited.notified() => {}
            () = patience => state.pass_barrier(),
        }
    }
}
