//! The server's end of the control channel: listens, lets in who has the key, and sends everybody what
//! changes. All connections are tasks of one thread: what they do is small, and the conductor never waits.
//!
//! Over TCP messages go in encrypted frames. Who does not know the key never gets a byte, but for one exception: a
//! linerate whose channel has another version is answered with this one's.

use super::connection::{ControlConnection, Disconnected, Wire, serve};
use super::outbox::Item;
use super::state::{ControlState, refusal};
use super::{Conductor, News, REQUEST_BYTES};
use crate::page::Page;
use linerate_facts::failure::Failure;
use linerate_transport::admission::{PendingEntry, TIME_TO_PROVE, prepare_control};
use linerate_transport::agent::{Channel, ChannelReceiver, Key, Magic, OPENING_BYTES, respond_to};
use linerate_web::bind;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

/// First bytes of a control connection of a wall; the digit is the version of the framing. Mixed into the
/// keys, so that an agent's channel under the same key cannot be taken for a wall's.
pub(crate) const MAGIC: Magic = *b"LRw1";
/// Messages of this protocol; grows with each that an older side would not understand.
pub(crate) const PROTOCOL: u32 = 1;
/// The first message of a client, which nobody vouches for yet: the handshake's first message may be a
/// replay.
const GREETING_BYTES: usize = 1024;
/// Read at once.
const CHUNK_BYTES: usize = 16 << 10;

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
                    tokio::spawn(listen(listener, task_state.clone()));
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

/// What both sides say first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// Version of the program.
    pub linerate: String,
    pub protocol: u32,
}

impl Greeting {
    /// Ours.
    pub(crate) fn ours() -> Greeting {
        Greeting { linerate: env!("CARGO_PKG_VERSION").into(), protocol: PROTOCOL }
    }

    /// As text.
    pub(crate) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Accepts connections, for ever.
pub(crate) async fn listen(listener: TcpListener, state: Arc<ControlState>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let (sender, ended) = oneshot::channel();
                let (entry, crowded_out) = state.pending.add(address.ip(), sender);
                drop(crowded_out);
                tokio::spawn(open(stream, address.ip(), state.clone(), (entry, ended)));
            }
            // No file descriptor to be had, or a connection that died in the queue (accept(2)): wait instead of
            // spinning.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Proves that it may stay, unless another takes its place before.
async fn open(
    mut stream: TcpStream,
    address: IpAddr,
    state: Arc<ControlState>,
    (entry, crowded_out): (PendingEntry<oneshot::Sender<()>>, oneshot::Receiver<()>),
) {
    let admitted = tokio::select! {
        admitted = tokio::time::timeout(TIME_TO_PROVE, admit(&mut stream, &state)) => admitted,
        _ = crowded_out => return,
    };
    let (Ok(Ok(channel)), Some(_)) = (admitted, entry.take()) else {
        tracing::info!(%address, "control connection refused: late, crowded out, or with another key");
        return;
    };
    let mut wire = TcpWire { stream, channel };
    let Ok(permit) = state.admitted.take(address) else {
        tracing::info!(%address, "control connection refused: too many of this origin or in all");
        let text = refusal("too many connections: close some that are not needed");
        let _ = tokio::time::timeout(TIME_TO_PROVE, wire.send(Item::Text(text))).await;
        return;
    };
    tracing::info!(%address, "control connection admitted");
    serve(&mut wire, ControlConnection::new(&state, permit, false)).await;
    tracing::info!(%address, "control connection ended");
}

/// Magic, handshake, greeting.
async fn admit(stream: &mut TcpStream, state: &ControlState) -> io::Result<Channel> {
    let foreign = || io::Error::from(io::ErrorKind::InvalidData);
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).await?;
    if magic != MAGIC {
        if magic[..3] == MAGIC[..3] {
            stream.write_all(&MAGIC).await?;
        }
        return Err(foreign());
    }
    let mut opening = [0; OPENING_BYTES];
    stream.read_exact(&mut opening).await?;
    let responded = respond_to(&MAGIC, &opening[..], &state.key);
    let (mut channel, answer) = responded.map_err(|_| foreign())?;
    stream.write_all(&answer).await?;
    prepare_control(&*stream)?;
    let greeting = receive(stream, &mut channel.receiver, GREETING_BYTES).await?;
    // Of another protocol: it is told ours, and judges for itself.
    let theirs: Greeting = serde_json::from_slice(&greeting).map_err(|_| foreign())?;
    let ours = channel.sender.encrypt(&Greeting::ours().text()).map_err(|_| foreign())?;
    stream.write_all(&ours).await?;
    if theirs.protocol == PROTOCOL { Ok(channel) } else { Err(foreign()) }
}

/// A message; what came of the next one stays in `receiver` where this is dropped.
async fn receive(
    stream: &mut TcpStream,
    receiver: &mut ChannelReceiver,
    limit: usize,
) -> io::Result<Vec<u8>> {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        if let Some(text) = receiver.pop(limit).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))? {
            return Ok(text);
        }
        match stream.read(&mut chunk).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => receiver.push(&chunk[..length]),
        }
    }
}

struct TcpWire {
    stream: TcpStream,
    channel: Channel,
}

impl Wire for TcpWire {
    async fn receive(&mut self) -> Result<Vec<u8>, Disconnected> {
        receive(&mut self.stream, &mut self.channel.receiver, REQUEST_BYTES).await.map_err(|_| Disconnected)
    }

    async fn send(&mut self, item: Item) -> Result<(), Disconnected> {
        // Previews are for the page.
        let Item::Text(text) = item else { return Ok(()) };
        let sealed = self.channel.sender.encrypt(text.as_bytes()).map_err(|_| Disconnected)?;
        self.stream.write_all(&sealed).await.map_err(|_| Disconnected)
    }

    /// To close with unread bytes would reset the connection (RFC 1122, 4.2.2.13), and the last words would
    /// be lost with it.
    async fn end(&mut self) {
        let _ = self.stream.shutdown().await;
        let mut rest = [0; CHUNK_BYTES];
        while matches!(self.stream.read(&mut rest).await, Ok(length) if length > 0) {}
    }
}
