//! A device served over NBD by threads of this process.

use crate::arguments;
use crate::error::{error, warn_of_rounding};
use crate::interrupt::lock;
use crate::library::LibraryHandle;
use flashlab_serve::{Address, Export, Exports, Limits, Listener, PrivateSocket, Server as Nbd, Speed, Stop};
use flashlab_served::Served;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::JoinHandle;

/// A device as a real block device over NBD, from ``__enter__`` to ``__exit__``.
///
/// ``with serve("sd/kingston") as uri`` listens on a private Unix socket. ``socket=`` gives the path of
/// another socket, and ``port=`` listens on localhost instead (0: a free port). ``speed`` is the speed of the
/// device's time relative to a clock: 2 is twice as fast, 1000 is the maximum, and 0 never waits. ``name``
/// may have layers, as in ``flashlab serve``.
#[pyclass(frozen, name = "serve", module = "flashlab")]
pub(crate) struct Server {
    name: String,
    address: Option<Address>,
    seed: u64,
    speed: Speed,
    read_only: bool,
    library: LibraryHandle,
    running: Mutex<Option<Running>>,
}

/// A running server.
struct Running {
    uri: String,
    stop: Stop,
    served: Served,
    thread: JoinHandle<std::io::Result<()>>,
    /// The folder of the socket, which is removed afterwards.
    _private: Option<PrivateSocket>,
}

impl Running {
    fn start(server: &Server) -> PyResult<Running> {
        let served = Served::open(&server.name, server.seed, server.read_only, server.library.get());
        let served = served.map_err(error)?;
        let export = Export {
            name: served.name.clone(),
            description: served.description.clone(),
            device: served.device.clone(),
            read_only: served.read_only,
        };
        let exports = Exports::new(vec![export]).map_err(error)?;
        let (address, private) = match &server.address {
            Some(address) => (address.clone(), None),
            None => {
                let private = PrivateSocket::new().map_err(error)?;
                (private.address(), Some(private))
            }
        };
        let listener = Listener::bind(&address).map_err(|fault| error(format_args!("{address}: {fault}")))?;
        let uri = listener.address().map_err(error)?.uri(&served.name).to_string();
        let stop = Stop::new().map_err(error)?;
        let nbd = Nbd::new(exports, Limits::default(), stop.clone()).with_speed(server.speed);
        let thread = std::thread::Builder::new().name("flashlab serve".to_owned());
        let thread = thread.spawn(move || nbd.serve(vec![listener])).map_err(error)?;
        Ok(Running { uri, stop, served, thread, _private: private })
    }

    /// Ends the server: completes the requests that it has received, and writes the state of the device.
    fn end(self) -> PyResult<()> {
        self.stop.throw();
        let served = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if let Some(writer) = &self.served.state_writer {
            writer.close().map_err(error)?;
        }
        served.map_err(error)
    }
}

impl Server {
    /// Ends the server if it is running.
    fn end(&self) -> PyResult<()> {
        lock(&self.running).take().map_or(Ok(()), Running::end)
    }
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (name, *, socket = None, port = None, seed = 1, speed = 1.0, read_only = false, library = None,
                        **numbers))]
    #[allow(clippy::too_many_arguments, reason = "keywords of a Python function")]
    fn new(
        name: &str,
        socket: Option<PathBuf>,
        port: Option<u16>,
        seed: u64,
        speed: f64,
        read_only: bool,
        library: Option<PathBuf>,
        numbers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Server> {
        let speed = match speed {
            0.0 => Speed::Unpaced,
            speed if (1e-6..=1e3).contains(&speed) => Speed::Millionths((speed * 1e6).round() as u64),
            speed => return Err(error(format_args!("speed={speed}: expected 0, or 0.000001 to 1000"))),
        };
        let address = match (socket, port) {
            (Some(_), Some(_)) => return Err(error("give a socket or a port, not both")),
            (Some(socket), None) => Some(Address::Unix(socket)),
            (None, Some(port)) => Some(Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))),
            (None, None) => None,
        };
        let (name, library) = (arguments::device(name, numbers)?, LibraryHandle::open(library)?);
        Ok(Server { name, address, seed, speed, read_only, library, running: Mutex::default() })
    }

    /// Start the server and return the URI of the device.
    fn __enter__(&self, py: Python<'_>) -> PyResult<String> {
        let uri = py.detach(|| {
            let mut running = lock(&self.running);
            if running.is_some() {
                return Err(error(format_args!("{} is being served already", self.name)));
            }
            let started = Running::start(self)?;
            let uri = started.uri.clone();
            *running = Some(started);
            Ok(uri)
        })?;
        // A program may turn warnings into exceptions, after which Python does not call `__exit__`.
        if let Err(warning) = warn_of_rounding(py) {
            py.detach(|| self.end())?;
            return Err(warning);
        }
        Ok(uri)
    }

    /// End the server, after the requests that it has received are complete.
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        py.detach(|| self.end())
    }

    /// URI of the device; ``None`` unless it is being served.
    #[getter]
    fn uri(&self) -> Option<String> {
        lock(&self.running).as_ref().map(|running| running.uri.clone())
    }

    fn __repr__(&self) -> String {
        format!("serve({:?})", self.name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // No caller is left to receive an error.
        let _ = self.end();
    }
}
