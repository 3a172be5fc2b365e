//! The bytes of a client's connection, in the clear or under TLS.

use super::TransferError;
use super::settings::ClientSettings;
use crate::http::url::HttpUrl;
#[cfg(test)]
use crate::tests::network;
use crate::tls::{ClientHandshake, ClientTls, TlsClientStream};
use linerate_facts::printable::foreign;
use linerate_system::clock;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::Stop;
use rustls::CertificateError;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);

pub(super) enum ClientWire {
    Plain(TcpStream),
    Tls(TlsClientStream),
}

impl ClientWire {
    /// With the handshake done: the server is the one that is meant.
    pub(super) fn secured(
        tls: &ClientTls,
        url: &HttpUrl,
        stream: TcpStream,
        settings: &ClientSettings<'_>,
    ) -> Result<Self, TransferError> {
        let mut handshake = ClientHandshake::new(tls, &url.host)?;
        let until = clock::now() + HANDSHAKE.min(settings.timeout);
        loop {
            match handshake.go_on(&stream) {
                Ok(()) => break,
                Err(error) if is_waiting(&error) && clock::now() < until => settings.check_stop()?,
                Err(error) => return Err(of_handshake(url, error)),
            }
        }
        let secured = handshake.finish(stream).map_err(|error| of_handshake(url, error))?;
        Ok(ClientWire::Tls(secured))
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            ClientWire::Plain(stream) => stream,
            ClientWire::Tls(stream) => stream.socket(),
        }
    }

    /// What comes next, waited for so long at most, or until `stop`; an error that only waits where nothing came.
    pub(super) fn read_within(&mut self, into: &mut [u8], time: Duration, stop: &Stop) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(read) = network::read(self.socket(), into, time) {
            return read;
        }
        let is_here = match self {
            ClientWire::Plain(_) => false,
            ClientWire::Tls(stream) => stream.holds_bytes(),
        };
        if !is_here && !stop.wait_readable(self.socket(), Some(time))? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match self {
            ClientWire::Plain(stream) => stream.read(into),
            ClientWire::Tls(stream) => stream.read(into),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(written) = network::write(self.socket(), bytes) {
            return written;
        }
        match self {
            ClientWire::Plain(stream) => stream.write(bytes),
            ClientWire::Tls(stream) => stream.write(bytes),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            ClientWire::Plain(_) => Ok(()),
            ClientWire::Tls(stream) => stream.flush(),
        }
    }
}

/// What is wrong with the server, in words that say what to do.
fn of_handshake(url: &HttpUrl, error: io::Error) -> TransferError {
    let authority = url.authority();
    let within = error.get_ref().and_then(|within| within.downcast_ref::<rustls::Error>());
    let why = match within {
        None => return TransferError::broken(url, error),
        Some(rustls::Error::InvalidCertificate(why)) => of_certificate(why),
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS there; is it http://, or another port?".into()
        }
        Some(other) => format!("TLS: {}", foreign(&other.to_string())),
    };
    TransferError::Certificate { authority, why }
}

fn of_certificate(why: &CertificateError) -> String {
    use CertificateError as C;
    match why {
        C::NotValidForName | C::NotValidForNameContext { .. } => {
            "its certificate is of another name; name the server as its certificate does, or give its fingerprint with \
             --fingerprint"
                .into()
        }
        C::UnknownIssuer => "no authority that is believed here signed its certificate; set SSL_CERT_FILE to the \
                             authority's file, or give the certificate's fingerprint with --fingerprint"
            .into(),
        C::Expired | C::ExpiredContext { .. } => {
            "its certificate has expired; the server needs a new one".into()
        }
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "its certificate is not valid yet; is the clock of this host right?".into()
        }
        C::ApplicationVerificationFailure => {
            "its certificate has another fingerprint than that of --fingerprint; was the server started again?".into()
        }
        other => format!("its certificate: {}", foreign(&other.to_string())),
    }
}
