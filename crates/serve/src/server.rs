//! A server: accepts clients, runs one thread per connection, and shuts down in order.

use crate::connection::{Connection, End};
use crate::counters::{Count, Counters};
use crate::limits::Budget;
use crate::link::{Hangup, Link, wait_for};
use crate::pace::Pace;
use crate::realtime::set_realtime_priority;
use crate::{Clock, DeviceTime, Exports, Limits, Listener, Recorder, Speed, Stop, Tls};
use flashlab_nbd::server::Policy;
use flashlab_sim::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use tracing::{info, warn};

/// Stack size of a connection's thread in bytes. It is small so that a thread costs little address space.
const STACK: usize = 512 << 10;

/// A server of exports.
#[derive(Debug)]
pub struct Server {
    pub(crate) exports: Exports,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Counters>,
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) budget: Budget,
    pub(crate) clock: Clock,
    pub(crate) pace: Arc<Pace>,
    pub(crate) tls: Option<Tls>,
    /// True if threads that wait for a device use real-time priority.
    pub(crate) realtime: bool,
    /// True if latencies are measured.
    pub(crate) latencies: bool,
    pub(crate) stop: Stop,
    /// True while a client waits because [`Limits::connections`] are open.
    client_waiting: AtomicBool,
}

/// The open connections, so that the server can end them.
struct OpenConnections {
    hangups: Mutex<BTreeMap<u64, Hangup>>,
    changed: Condvar,
    /// Readable after a connection has ended.
    ended: OwnedFd,
}

impl Server {
    /// Creates a server of these exports that shuts down when `stop` is thrown.
    pub fn new(exports: Exports, limits: Limits, stop: Stop) -> Server {
        raise_descriptor_limit();
        let structured = limits.structured_replies;
        let clock = Clock::start();
        Server {
            policy: Policy { structured, extended: structured, ..Policy::default() },
            exports,
            limits,
            counters: Arc::default(),
            recorder: None,
            budget: Budget::new(limits.bytes_in_flight),
            clock,
            pace: Arc::new(Pace::new(clock, Speed::REAL)),
            tls: None,
            realtime: false,
            latencies: false,
            stop,
            client_waiting: AtomicBool::new(false),
        }
    }

    /// Records the requests.
    pub fn with_recorder(self, recorder: Arc<Recorder>) -> Server {
        Server { recorder: Some(recorder), ..self }
    }

    /// Sets the speed of the devices' time.
    pub fn with_speed(self, speed: Speed) -> Server {
        Server { pace: Arc::new(Pace::new(self.clock, speed)), ..self }
    }

    /// Offers or requires TLS.
    pub fn with_tls(self, tls: Tls) -> Server {
        let policy = Policy { tls: tls.policy(), ..self.policy };
        Server { policy, tls: Some(tls), ..self }
    }

    /// Measures the latency of each request, for [`Counters::expose`].
    pub fn with_latencies(self) -> Server {
        Server { latencies: true, ..self }
    }

    /// Keeps replies of timed devices from being late: gives real-time priority (SCHED_RR) to the threads
    /// that serve these devices, and keeps processors awake while a client of such a device is connected.
    /// Fails if the system denies real-time priority.
    pub fn with_realtime(self) -> io::Result<Server> {
        let permitted = thread::spawn(set_realtime_priority).join();
        permitted.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Server { realtime: true, ..self })
    }

    /// Returns the devices' time, for work that belongs to no connection.
    pub fn time(&self) -> DeviceTime {
        DeviceTime::new(self.pace.clone())
    }

    /// Returns the server's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Serves clients until `stop` is thrown. Then completes the received requests, and returns.
    pub fn serve(&self, listeners: Vec<Listener>) -> io::Result<()> {
        let open = OpenConnections {
            hangups: Mutex::default(),
            changed: Condvar::new(),
            ended: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        thread::scope(|scope| {
            let accepted = self.accept_all(scope, &listeners, &open);
            drop(listeners);
            self.end(&open);
            accepted
        })
    }

    /// Serves one client over an inherited input and output.
    pub fn serve_pair(&self, input: OwnedFd, output: OwnedFd) {
        let link = Link::pair(input, output);
        let hangup = link.hangup();
        self.counters.count(Count::Accepted);
        let grace = std::time::Duration::from_nanos(self.limits.grace.as_ns());
        let (open, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            if let Some(hangup) = hangup {
                scope.spawn(move || {
                    self.stop.wait();
                    hangup.shut_down_receiving();
                    if ended.recv_timeout(grace) == Err(RecvTimeoutError::Timeout) {
                        warn!("closed: the client did not receive its replies in time");
                        hangup.close();
                    }
                });
            }
            Connection::new(self, link, 0, "standard input".to_owned()).run();
            drop(open);
            // The server ends with its only client.
            self.stop.throw();
        });
        self.counters.count(Count::Ended);
    }

    fn accept_all<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        listeners: &[Listener],
        open: &'env OpenConnections,
    ) -> io::Result<()>
    where
        'env: 'scope,
    {
        let mut number = 0;
        let mut next = 0;
        loop {
            let room = self.limits.connections.saturating_sub(open.hangups().len());
            let mut fds =
                vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&open.ended, PollFlags::IN)];
            if room > 0 || !self.client_waiting.load(Ordering::SeqCst) {
                fds.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
            }
            wait_for(&mut fds, None)?;
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                return Ok(());
            }
            if ready[1] {
                // The event only wakes the thread; the loop counts the open connections itself.
                let _ = rustix::io::read(&open.ended, &mut [0; 8]);
            }
            // A waiting client is accepted when a connection ends, and an idle connection is closed for it.
            self.client_waiting
                .store(room == 0 && fds.len() > 2 && ready[2..].contains(&true), Ordering::SeqCst);
            let mut arrived: Vec<usize> =
                (0..listeners.len()).filter(|index| ready.get(2 + index) == Some(&true)).collect();
            // The search for clients begins after the listener of the last accepted client, so that all
            // listeners get a free place in turn.
            arrived.sort_by_key(|index| *index < next);
            for index in arrived.into_iter().take(room) {
                number += 1;
                self.accept(scope, &listeners[index], open, number);
                next = index + 1;
            }
        }
    }

    /// Returns an error if a connection that has been idle for this time has to be closed.
    pub(crate) fn check_idle(&self, idle: Duration) -> Result<(), End> {
        let over = |limit: Option<Duration>| limit.is_some_and(|limit| idle >= limit);
        if over(self.limits.idle) {
            return Err(End::Idle(idle, false));
        }
        // Each waiting client closes at most one idle connection.
        if over(self.limits.idle_when_full) && self.client_waiting.swap(false, Ordering::SeqCst) {
            return Err(End::Idle(idle, true));
        }
        Ok(())
    }

    fn accept<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        listener: &Listener,
        open: &'env OpenConnections,
        number: u64,
    ) where
        'env: 'scope,
    {
        let (link, from) = match listener.accept() {
            Ok(Some(accepted)) => accepted,
            Ok(None) => return,
            Err(error) => {
                Listener::pause(&error, &self.stop);
                return;
            }
        };
        if let Some(hangup) = link.hangup() {
            open.hangups().insert(number, hangup);
        }
        self.counters.count(Count::Accepted);
        let serve = move || {
            // The guard removes the connection from the list, however the connection ends.
            let _guard = ConnectionGuard { open, number, counters: &self.counters };
            Connection::new(self, link, number, from).run();
        };
        let spawned =
            thread::Builder::new().name(format!("nbd {number}")).stack_size(STACK).spawn_scoped(scope, serve);
        if let Err(error) = spawned {
            // The thread that would have removed the connection from the list was not started.
            warn!(connection = number, %error, "cannot start a thread for a client");
            open.remove(number, &self.counters);
        }
    }

    /// Ends the connections: completes the received requests, and cuts the remaining connections after the grace
    /// period.
    fn end(&self, open: &OpenConnections) {
        let count = open.hangups().len();
        if count > 0 {
            info!(connections = count, "ending");
        }
        open.hangups().values().for_each(Hangup::shut_down_receiving);
        let grace = std::time::Duration::from_nanos(self.limits.grace.as_ns());
        let waited = open.changed.wait_timeout_while(open.hangups(), grace, |left| !left.is_empty());
        let (left, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !left.is_empty() {
            warn!(connections = left.len(), "closed: the clients did not receive their replies in time");
        }
        left.values().for_each(Hangup::close);
    }
}

struct ConnectionGuard<'a> {
    open: &'a OpenConnections,
    number: u64,
    counters: &'a Counters,
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.open.remove(self.number, self.counters);
    }
}

impl OpenConnections {
    fn hangups(&self) -> MutexGuard<'_, BTreeMap<u64, Hangup>> {
        self.hangups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, number: u64, counters: &Counters) {
        self.hangups().remove(&number);
        counters.count(Count::Ended);
        self.changed.notify_all();
        // The write fails only if the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.ended, &1u64.to_ne_bytes());
    }
}

/// Raises the limit of open descriptors to the maximum, since each client needs one.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With a lower limit, the server can serve fewer clients at a time.
    let _ = setrlimit(Resource::Nofile, limit);
}
