//! The commands that move files: `linerate serve`, `linerate get` and `linerate put`; `linerate copy`, which
//! has ssh start the other end.

use super::output::KeepingArgs;
use super::values::{host_name, rate, size, time};
use clap::Args;
use linerate_deliver::http::url::{HttpUrl, UrlError};
use linerate_deliver::s3::{S3Location, S3LocationError};
use linerate_deliver::serve::BearerToken;
use linerate_deliver::tls::{Fingerprint, TlsTrust};
use linerate_facts::failure::Failure;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// `linerate serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Folder or file to serve; repeat for several. Nothing beside it can be had, links that lead out
    /// included
    #[arg(value_name = "PATH", required = true)]
    pub path: Vec<PathBuf>,
    /// Address to listen on; repeat for several [default: every address, port 7415]
    #[arg(short = 'p', long, value_name = "[ADDRESS:]PORT")]
    pub listen: Vec<String>,
    /// Connections at once, of which one client gets half at most [default: 10000, or as many as the limit of open
    /// files has room for; with --tls, where each has a thread, 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub connections: Option<u32>,
    /// Never send more than this, such as 2G (bits) or 100MB/s, over all connections together [default: as fast
    /// as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1e4..=1.25e14))]
    pub rate_limit: Option<f64>,
    /// Add a line for each request to this file, in the combined format of Apache and nginx; - is standard output
    #[arg(long, value_name = "FILE|-")]
    pub access_log: Option<PathBuf>,
    /// File whose first line every client has to show: Authorization: Bearer TOKEN [default: none, anyone who can
    /// connect can read]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Name of this host beside its own, such as the one in DNS; repeat for several. Without --token-file only requests
    /// to these, to addresses and to localhost are answered, for another site could own any other name
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub name: Vec<String>,
    /// Take files, too (PUT), of those who show the token: each under a name of its own until it is whole, never over one
    /// that is there
    #[arg(long, requires = "token_file")]
    pub writable: bool,
    /// What stays free of the file systems that files are put on [default: a tenth of each, 16G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60), requires = "writable")]
    pub keep: Option<u64>,
    /// All files that are put while it runs together [default: what is free]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60), requires = "writable")]
    pub limit: Option<u64>,
    /// Speak TLS (https://), with --certificate, or with a certificate that is made now and whose fingerprint is printed
    #[arg(long)]
    pub tls: bool,
    /// Certificate in PEM, with those between it and its authority
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    pub certificate: Option<PathBuf>,
    /// Its key in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
    #[command(flatten)]
    pub keeping: KeepingArgs,
}

/// `linerate get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// What to fetch: http:// or https://HOST[:PORT]/PATH of any server, a folder only of `linerate serve`; or
    /// s3://BUCKET/KEY, also a prefix with all below it
    #[arg(value_name = "URL", required = true, value_parser = url)]
    pub url: Vec<TransferUrl>,
    /// Folder for the files; made where it is absent [default: the current one]
    #[arg(short, long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub output: PathBuf,
    /// Connections that fetch parts of the files at once; a server without ranges gets one for each file
    #[arg(short = 'P', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// NIC by which the connections leave, by its name or one of its addresses; repeat for several, and each has
    /// one stream at least [default: as the routes say]
    #[arg(long, value_name = "NAME|ADDRESS")]
    pub nic: Vec<String>,
    /// Replace files that are there; without it they are left as they are
    #[arg(long)]
    pub replace: bool,
    /// SHA-256 that the file must have, for one URL; else nothing of it is kept
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    pub sha256: Option<String>,
    #[command(flatten)]
    pub server: ServerTrustArgs,
    #[command(flatten)]
    pub transfer: TransferArgs,
}

/// `linerate put`.
#[derive(Debug, Args)]
pub struct PutArgs {
    /// File, or folder with all that is below it; repeat for several
    #[arg(value_name = "PATH", required = true)]
    pub path: Vec<PathBuf>,
    /// Where they go: http:// or https://HOST[:PORT]/FOLDER/, or without the slash at its end the name that the one file
    /// gets; s3://BUCKET/PREFIX/ or s3://BUCKET/KEY likewise
    #[arg(value_name = "URL", required = true, value_parser = url)]
    pub url: TransferUrl,
    /// Connections, each with a file of its own, or with a part of one that goes to s3://
    #[arg(short = 'P', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    #[command(flatten)]
    pub server: ServerTrustArgs,
    #[command(flatten)]
    pub transfer: TransferArgs,
}

/// How a transfer is bounded and reported.
#[derive(Debug, Args)]
pub struct TransferArgs {
    /// Never move more than this, such as 2G (bits) or 100MB/s, over all streams together [default: as fast
    /// as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1e4..=1.25e14))]
    pub rate_limit: Option<f64>,
    /// A connection that moves next to nothing for this long is given up, and what it was at tried again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    pub timeout: Duration,
    /// Print a line this often, such as 1s, with the bytes that are there, the rate, the time left and the present
    /// bottleneck; on standard output, or with --json as a line of JSON on standard error
    #[arg(short, long, value_name = "TIME", value_parser = time(Duration::from_millis(500)..=Duration::from_secs(3600)))]
    pub interval: Option<Duration>,
    #[arg(from_global)]
    pub json: bool,
    #[command(flatten)]
    pub keeping: KeepingArgs,
}

/// What is shown to a server, and what it has to show.
#[derive(Clone, Debug, Default, Args)]
pub struct ServerTrustArgs {
    /// File whose first line is shown to the servers named: Authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// SHA-256 of the certificate that a server of https:// must have, as `linerate serve --tls` prints it; its names and
    /// its authority do not count then [default: what the authorities of this host signed, or those in SSL_CERT_FILE]
    #[arg(long, value_name = "HEX")]
    pub fingerprint: Option<Fingerprint>,
}

impl ServerTrustArgs {
    /// Whom it believes.
    pub fn trust(&self) -> TlsTrust {
        self.fingerprint.map_or(TlsTrust::Host, TlsTrust::Pinned)
    }

    /// What is shown.
    pub fn token(&self) -> Result<Option<BearerToken>, Failure> {
        self.token_file.as_deref().map(BearerToken::read).transpose()
    }

    /// No server is asked for anything.
    pub fn refuse(&self) -> Result<(), Failure> {
        let given =
            [("--token-file", self.token_file.is_some()), ("--fingerprint", self.fingerprint.is_some())];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((word, _)) => Err(Failure::usage(format!(
                "{word} is for a server, and no --source is one: name http:// or https://HOST/PATH, or leave it away"
            ))),
        }
    }
}

/// A URL of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferUrl {
    Http(HttpUrl),
    Store(S3Location),
}

impl TransferUrl {
    /// What of an object store it is.
    pub fn location(&self) -> Option<&S3Location> {
        match self {
            TransferUrl::Store(location) => Some(location),
            TransferUrl::Http(_) => None,
        }
    }
}

/// It cannot be fetched, or put to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum TransferUrlError {
    #[error(
        "linerate speaks HTTP and S3, not {0}: write http://HOST/PATH, https://HOST/PATH or s3://BUCKET/KEY"
    )]
    Scheme(String),
    #[error(transparent)]
    Http(UrlError),
    #[error(transparent)]
    Store(#[from] S3LocationError),
}

fn url(text: &str) -> Result<TransferUrl, TransferUrlError> {
    let is_store = text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("s3://"));
    if is_store {
        return Ok(TransferUrl::Store(text.parse()?));
    }
    text.parse().map(TransferUrl::Http).map_err(|error| match error {
        UrlError::Scheme(scheme) => TransferUrlError::Scheme(scheme),
        error => TransferUrlError::Http(error),
    })
}

/// It is no SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give the 64 hexadecimal digits that sha256sum prints")]
struct NoSha256;

fn sha256(text: &str) -> Result<String, NoSha256> {
    let digits = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| text.to_ascii_lowercase()).ok_or(NoSha256)
}

/// `linerate copy`.
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// File, or folder with all that is below it, here or at [USER@]HOST:PATH; with a slash at its end what is in the
    /// folder. Repeat it for several of one host. - is standard input, as one file
    #[arg(value_name = "SRC", required = true)]
    pub source: Vec<OsString>,
    /// Folder they go into, made where it is absent, or the name that one file gets: [USER@]HOST:PATH, or here where SRC
    /// is of another host; ssh://[USER@]HOST[:PORT]/PATH for another port of ssh
    #[arg(value_name = "DST", required = true)]
    pub destination: OsString,
    /// Connections that carry parts of the files at once [default: 4; 8 where a round trip takes 10 ms or more, 16 from
    /// 40 ms on]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: Option<u32>,
    /// Keep modes, times to the nanosecond, links, holes, hard links and extended attributes, as root owners, too, by
    /// their numbers
    #[arg(long)]
    pub archive: bool,
    /// Leave out what is called so, `*` being any part of a name; with a slash in it, what has this path below DST. Repeat
    /// it for several
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// Replace files that are there and differ; without it they are left as they are
    #[arg(long)]
    pub replace: bool,
    /// Say what would be copied, and copy nothing
    #[arg(long, conflicts_with = "json")]
    pub dry_run: bool,
    /// Take this program to the other host for the time of the copy, where it is not installed or is another version; it
    /// gets no name there, and nothing of it stays
    #[arg(long)]
    pub bring: bool,
    /// Send the files in the clear, where the network between the hosts is trusted [default: TLS 1.3, whose keys go over
    /// ssh]
    #[arg(long)]
    pub no_encryption: bool,
    #[command(flatten)]
    pub transfer: TransferArgs,
}
