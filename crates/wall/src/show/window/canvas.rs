//! How pixels reach the X server: through shared memory where it is local (MIT-SHM 1.2, by file descriptor),
//! else in requests.
//!
//! Two segments take turns: while the server copies one, the next frame is painted into the other. Through
//! requests one frame is sent after the other, each answered before the next, so that a slow connection drops
//! frames instead of filling up.

use super::display::{Display, DisplayLost};
use super::pixels::{Brush, Fit};
use linerate_system::mapping::{Mapping, memory_file};
use std::os::fd::OwnedFd;
use std::time::Instant;
use x11rb::connection::{Connection, RequestConnection};
use x11rb::errors::ReplyError;
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};

/// Beside the pixels of a request.
const HEADER_BYTES: usize = 64;
/// Of one request: some servers take 16 MiB, and hold up everybody else for that long.
const MOST_REQUEST_BYTES: usize = 1 << 20;

/// Where to put pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub window: u32,
    /// Its graphics context.
    pub context: u32,
}

/// The way of the pixels.
pub(crate) enum Canvas {
    Shared(Shared),
    Requests(Strip),
}

/// Two segments of shared memory.
#[derive(Default)]
pub(crate) struct Shared {
    segments: [Option<Segment>; 2],
    brush: Brush,
}

struct Segment {
    id: u32,
    mapping: Mapping,
    bytes: usize,
    /// The server copies it; inside, when its frame was given, where that is to be reported.
    busy: Option<Option<Instant>>,
}

/// Lines on their way into a request.
#[derive(Default)]
pub(crate) struct Strip {
    bytes: Vec<u8>,
    brush: Brush,
}

impl Canvas {
    /// The best way to this display.
    pub(crate) fn new(display: &Display) -> Result<Canvas, DisplayLost> {
        let mut shares = display.is_local && display.has(shm::X11_EXTENSION_NAME)?;
        if shares {
            let version = display.connection.shm_query_version()?.reply()?;
            shares = (version.major_version, version.minor_version) >= (1, 2);
        }
        Ok(if shares { Canvas::Shared(Shared::default()) } else { Canvas::Requests(Strip::default()) })
    }

    /// Pixels go through shared memory.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Canvas::Shared(_))
    }

    /// A frame can be put now.
    pub(crate) fn is_free(&self) -> bool {
        match self {
            Canvas::Shared(shared) => shared.segments.iter().any(|segment| !is_busy(segment)),
            Canvas::Requests(_) => true,
        }
    }

    /// Frames that the server has not taken yet.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Canvas::Shared(shared) => !shared.segments.iter().any(is_busy),
            Canvas::Requests(_) => true,
        }
    }

    /// Puts a frame into the window. True: the server has it already, and no word of that will come.
    pub(crate) fn put(
        &mut self,
        display: &Display,
        target: Target,
        fit: &Fit,
        frame: &[u8],
        given: Option<Instant>,
    ) -> Result<bool, DisplayLost> {
        if let Canvas::Shared(shared) = self {
            if shared.put(display, target, fit, frame, given)? {
                return Ok(false);
            }
            // The server may not have our memory (another namespace, a policy): then without.
            *self = Canvas::Requests(Strip::default());
        }
        if let Canvas::Requests(strip) = self {
            strip.put(display, target, fit, frame)?;
        }
        Ok(true)
    }

    /// The server has taken the frame of this segment; when it was given, where that is to be reported.
    pub(crate) fn taken(&mut self, id: u32) -> Option<Instant> {
        let Canvas::Shared(shared) = self else { return None };
        shared.segments.iter_mut().flatten().find(|segment| segment.id == id)?.busy.take()?
    }
}

fn is_busy(segment: &Option<Segment>) -> bool {
    segment.as_ref().is_some_and(|segment| segment.busy.is_some())
}

impl Shared {
    /// False: there is no shared memory.
    fn put(
        &mut self,
        display: &Display,
        Target { window, context }: Target,
        fit: &Fit,
        frame: &[u8],
        given: Option<Instant>,
    ) -> Result<bool, DisplayLost> {
        let Shared { segments, brush } = self;
        let Some(place) = segments.iter_mut().find(|segment| !is_busy(segment)) else { return Ok(true) };
        let bytes = fit.line_bytes() * fit.size.height as usize;
        if place.as_ref().is_none_or(|segment| segment.bytes < bytes) {
            if let Some(small) = place.take() {
                display.connection.shm_detach(small.id)?;
            }
            *place = attach(display, bytes)?;
        }
        let Some(segment) = place else { return Ok(false) };
        let mut at = 0;
        fit.paint(frame, display.order, brush, |line| {
            segment.mapping.copy_in(at, line)?;
            at += line.len() as u64;
            Ok(())
        })?;
        let (width, height) = (fit.size.width as u16, fit.size.height as u16);
        display.connection.shm_put_image(
            window,
            context,
            width,
            height,
            0,
            0,
            width,
            height,
            fit.left as i16,
            fit.top as i16,
            display.depth,
            ImageFormat::Z_PIXMAP.into(),
            true,
            segment.id,
            0,
        )?;
        segment.busy = Some(given);
        Ok(true)
    }
}

/// A new segment; none where the server does not take it.
fn attach(display: &Display, bytes: usize) -> Result<Option<Segment>, DisplayLost> {
    let Ok((file, mapping)) = memory_file(bytes as u64).and_then(|file| {
        let mapping = Mapping::new(&file, true)?;
        Ok((file, mapping))
    }) else {
        return Ok(None);
    };
    let id = display.connection.generate_id()?;
    match display.connection.shm_attach_fd(id, OwnedFd::from(file), true)?.check() {
        Ok(()) => Ok(Some(Segment { id, mapping, bytes, busy: None })),
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Strip {
    fn put(&mut self, display: &Display, target: Target, fit: &Fit, frame: &[u8]) -> Result<(), DisplayLost> {
        let Strip { bytes, brush } = self;
        let connection = &display.connection;
        let most = connection.maximum_request_bytes().min(MOST_REQUEST_BYTES) - HEADER_BYTES;
        let lines = (most / fit.line_bytes()).max(1);
        let (mut first, mut failed) = (0, None);
        let mut send = |bytes: &mut Vec<u8>, first: &mut usize| {
            let height = bytes.len() / fit.line_bytes();
            let sent = connection.put_image(
                ImageFormat::Z_PIXMAP,
                target.window,
                target.context,
                fit.size.width as u16,
                height as u16,
                fit.left as i16,
                (fit.top as usize + *first) as i16,
                0,
                display.depth,
                bytes,
            );
            failed = sent.map(drop).err().map(DisplayLost::from).or(failed.take());
            *first += height;
            bytes.clear();
        };
        bytes.clear();
        fit.paint(frame, display.order, brush, |line| {
            bytes.extend(line);
            if bytes.len() >= lines * fit.line_bytes() {
                send(bytes, &mut first);
            }
            Ok(())
        })?;
        if !bytes.is_empty() {
            send(bytes, &mut first);
        }
        failed.map_or(Ok(()), Err)?;
        // Its answer comes when all this is done.
        connection.get_input_focus()?.reply()?;
        Ok(())
    }
}
