//! The thread that owns the subject. It alternates between work, ticks, and the requests of the HTTP side.

use crate::{Refused, Stop, Subject, clock};
use bytes::Bytes;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Maximum number of requests that wait for the owner.
const WAITING_MAX: usize = 64;

/// A request of the HTTP side.
enum Call {
    State(oneshot::Sender<String>),
    Metrics(oneshot::Sender<Option<String>>),
    Execute(serde_json::Value, oneshot::Sender<Result<(), Refused>>),
}

/// Sends requests to the owner and receives states from it.
#[derive(Clone)]
pub(crate) struct Calls {
    calls: SyncSender<Call>,
    /// The last state, as an event.
    pub(crate) events: watch::Receiver<Bytes>,
}

/// The reason why the owner gives no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoAnswer {
    /// Too many requests wait.
    Busy,
    /// The server is shutting down.
    Ended,
}

impl Calls {
    pub(crate) async fn state(&self) -> Result<String, NoAnswer> {
        self.call(Call::State).await
    }

    pub(crate) async fn metrics(&self) -> Result<Option<String>, NoAnswer> {
        self.call(Call::Metrics).await
    }

    pub(crate) async fn execute(&self, command: serde_json::Value) -> Result<Result<(), Refused>, NoAnswer> {
        self.call(|reply| Call::Execute(command, reply)).await
    }

    async fn call<T>(&self, call: impl FnOnce(oneshot::Sender<T>) -> Call) -> Result<T, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        self.calls.try_send(call(reply)).map_err(|error| match error {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::Ended,
        })?;
        answer.await.map_err(|_| NoAnswer::Ended)
    }
}

/// The owner's side of the channels.
pub(crate) struct Owner {
    calls: Receiver<Call>,
    events: watch::Sender<Bytes>,
    tick: Duration,
}

/// Returns both sides of the channels.
pub(crate) fn channels(tick: Duration) -> (Calls, Owner) {
    let (sender, calls) = sync_channel(WAITING_MAX);
    let (events, receiver) = watch::channel(Bytes::new());
    (Calls { calls: sender, events: receiver }, Owner { calls, events, tick })
}

impl Owner {
    /// Runs `subject` until `stop` is thrown.
    pub(crate) fn run(self, subject: &mut dyn Subject, stop: &Stop) {
        let mut passed = clock::now();
        let mut due = passed + self.tick;
        while !stop.is_thrown() {
            let now = clock::now();
            subject.pass(now.duration_since(passed));
            passed = now;
            let mut is_working = subject.work();
            while is_working && clock::now() < due {
                while let Ok(call) = self.calls.try_recv() {
                    answer(subject, call);
                }
                is_working = subject.work();
            }
            self.wait_until(due, subject);
            self.publish(subject);
            // A late tick delays the next ones instead of shortening them.
            due = clock::now().max(due) + self.tick;
        }
    }

    /// Answers calls until `due`. Publishes the state at once after a command, so that a page shows its effect.
    fn wait_until(&self, due: std::time::Instant, subject: &mut dyn Subject) {
        loop {
            let left = due.saturating_duration_since(clock::now());
            match self.calls.recv_timeout(left) {
                Ok(call) => {
                    if answer(subject, call) {
                        self.publish(subject);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => return std::thread::sleep(left),
            }
        }
    }

    /// Sends the state to all pages, if it has changed.
    fn publish(&self, subject: &mut dyn Subject) {
        if let Some(state) = subject.tick() {
            let event = Bytes::from(format!("data: {state}\n\n"));
            self.events.send_if_modified(|last| std::mem::replace(last, event.clone()) != event);
        }
    }
}

/// Answers a call. Returns true if it was a command that succeeded. A client that has left needs no answer.
fn answer(subject: &mut dyn Subject, call: Call) -> bool {
    match call {
        Call::State(reply) => drop(reply.send(subject.state())),
        Call::Metrics(reply) => drop(reply.send(subject.metrics())),
        Call::Execute(command, reply) => {
            let result = subject.execute(&command);
            let is_done = result.is_ok();
            drop(reply.send(result));
            return is_done;
        }
    }
    false
}
