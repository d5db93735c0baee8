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
    /// Runs `subject` until `stop` is thrown or the HTTP side has ended.
    pub(crate) fn run(self, subject: &mut dyn Subject, stop: &Stop) {
        let mut passed = clock::now();
        let mut due = passed + self.tick;
        while !stop.is_thrown() {
            let now = clock::now();
            subject.pass(now.duration_since(passed));
            passed = now;
            let mut is_working = subject.work();
            while is_working && clock::now() < due {
                // One call after each part of the work: clients that call in a loop only slow the work down.
                if let Ok(call) = self.calls.try_recv() {
                    answer(subject, call);
                }
                is_working = subject.work();
            }
            if !self.wait_until(due, subject) {
                return;
            }
            self.publish(subject);
            // A late tick delays the next ticks instead of shortening their intervals.
            due = clock::now().max(due) + self.tick;
        }
    }

    /// Answers calls until `due`, and at least one call if one waits. Publishes the state at once after a command, so
    /// that a page shows its effect. Returns false if the HTTP side has ended, so that no call can come any more.
    fn wait_until(&self, due: std::time::Instant, subject: &mut dyn Subject) -> bool {
        loop {
            let left = due.saturating_duration_since(clock::now());
            match self.calls.recv_timeout(left) {
                Ok(call) => {
                    if answer(subject, call) {
                        self.publish(subject);
                    }
                    // As long as calls wait, `recv_timeout` does not time out.
                    if clock::now() >= due {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A subject with endless work, whose clients ask for the state again as soon as they have it.
    struct Flooded {
        calls: Calls,
        parts: u32,
        ticks: u32,
        answers: u32,
        stop: Stop,
    }

    impl Flooded {
        fn ask(&self) {
            let _ = self.calls.calls.try_send(Call::State(oneshot::channel().0));
        }
    }

    impl Subject for Flooded {
        fn work(&mut self) -> bool {
            self.parts += 1;
            self.ask();
            // In odd ticks there is work until the end; in even ticks the owner only answers.
            self.ticks % 2 == 1
        }
        fn tick(&mut self) -> Option<String> {
            (self.ticks, self.answers) = (self.ticks + 1, 0);
            if self.ticks == 4 {
                self.stop.throw();
            }
            None
        }
        fn state(&mut self) -> String {
            self.answers += 1;
            assert!(self.answers < 1_000_000, "calls keep the owner from tick {}", self.ticks);
            self.ask();
            String::new()
        }
        fn execute(&mut self, _: &serde_json::Value) -> Result<(), Refused> {
            unreachable!("nobody sends commands")
        }
    }

    #[test]
    fn the_owner_ends_with_the_http_side() {
        let (calls, owner) = channels(Duration::from_millis(1));
        let stop = Stop::new();
        let (unused, _) = channels(Duration::ZERO);
        let mut subject = Flooded { calls: unused, parts: 0, ticks: 0, answers: 0, stop: Stop::new() };
        drop(calls);
        owner.run(&mut subject, &stop);
        assert!(!stop.is_thrown());
    }

    #[test]
    fn clients_that_call_in_a_loop_stop_neither_the_work_nor_the_ticks() {
        let (calls, owner) = channels(Duration::from_millis(1));
        let stop = Stop::new();
        let mut subject = Flooded { calls, parts: 0, ticks: 0, answers: 0, stop: stop.clone() };
        owner.run(&mut subject, &stop);
        assert!(subject.ticks == 4 && subject.parts >= 4, "{} ticks, {} parts", subject.ticks, subject.parts);
    }
}
