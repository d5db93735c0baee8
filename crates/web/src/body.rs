//! The bodies of responses: a text, or a stream of events.

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Interval of comments in a stream without events, which show that the connection is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Body of a response.
pub(crate) enum Body {
    Text(Bytes),
    Events(EventStream),
}

/// A stream of server-sent events. A client that reads slowly misses states: after at most two older states,
/// it receives the latest state.
pub(crate) struct EventStream {
    events: mpsc::Receiver<Bytes>,
    _slot: Slot,
}

/// One of a limited number of places. Dropping it frees the place.
pub(crate) struct Slot(Arc<AtomicUsize>);

impl Slot {
    /// Takes one of `most` places; `None` if all are taken.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Slot> {
        let more = |now| (now < most).then_some(now + 1);
        taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Slot(taken.clone()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl EventStream {
    /// Returns the stream of the values of `states`, beginning with the current one.
    pub(crate) fn new(mut states: watch::Receiver<Bytes>, slot: Slot) -> EventStream {
        let (sender, events) = mpsc::channel(1);
        states.mark_changed();
        tokio::spawn(async move {
            loop {
                let event = match timeout(HEARTBEAT, states.changed()).await {
                    Ok(Ok(())) => states.borrow_and_update().clone(),
                    Ok(Err(_)) => return,
                    Err(_) => Bytes::from_static(b":\n\n"),
                };
                if !event.is_empty() && sender.send(event).await.is_err() {
                    return;
                }
            }
        });
        EventStream { events, _slot: slot }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Text(text) if text.is_empty() => Poll::Ready(None),
            Body::Text(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Body::Events(stream) => {
                stream.events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Text(text) if text.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Text(text) => SizeHint::with_exact(text.len() as u64),
            Body::Events(_) => SizeHint::default(),
        }
    }
}
