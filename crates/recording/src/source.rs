//! A stored recording that is read from its beginning for every replay, so that memory does not depend on its length.

use crate::{Header, ReadError, ReadStep, Reader, Step, Summary};
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

/// Opens the bytes of a recording at their beginning.
type Open = dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync;

/// A stored recording whose bytes were checked once.
#[derive(Clone)]
pub struct Source {
    open: Arc<Open>,
    header: Header,
    tasks: Vec<String>,
    digest: String,
    summary: Summary,
}

impl Source {
    /// Reads the whole recording that `open` opens, and checks it. `open` returns a buffered reader.
    ///
    /// # Errors
    /// Returns the place of the first fault.
    pub fn new(
        open: impl Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync + 'static,
    ) -> Result<Source, ReadError> {
        let mut reader = Reader::new(opened(&open)?)?;
        let mut summary = Summary::default();
        let mut step = Step::EMPTY;
        while reader.read_step(&mut step)? {
            summary.add(&step);
        }
        let digest = reader.digest().expect("a recording that was read has a digest").to_owned();
        let (header, tasks) = (reader.header().clone(), reader.tasks().to_vec());
        Ok(Source { open: Arc::new(open), header, tasks, digest, summary })
    }

    /// Returns the recording in `bytes`, such as a recording that is built into the program.
    ///
    /// # Errors
    /// Returns the place of the first fault.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Source, ReadError> {
        let bytes: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(bytes);
        Source::new(move || Ok(Box::new(Shared { bytes: bytes.clone(), place: 0 })))
    }

    /// Returns true if `bytes` begin with the magic number of a recording.
    pub fn is_recording(bytes: &[u8]) -> bool {
        bytes.starts_with(crate::format::MAGIC)
    }

    /// Returns the facts about the run.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the names of tasks, by [`crate::TaskId`].
    pub fn tasks(&self) -> &[String] {
        &self.tasks
    }

    /// Returns the first 8 bytes of the digest in 16 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the counts over all steps.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Reads the steps from the first one on.
    ///
    /// # Errors
    /// Returns a fault of the header, which appears if the bytes have changed.
    pub fn steps(&self) -> Result<Steps, ReadError> {
        Ok(Steps { reader: Reader::new(opened(&*self.open)?)?, error: None })
    }
}

fn opened(open: &Open) -> Result<Box<dyn Read + Send>, ReadError> {
    open().map_err(|error| ReadError { offset: 0, problem: error.to_string() })
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        self.digest == other.digest
    }
}

/// The steps of a [`Source`]. They end early at a fault, which [`Steps::error`] returns.
pub struct Steps {
    reader: Reader<Box<dyn Read + Send>>,
    error: Option<ReadError>,
}

impl Steps {
    /// Returns the fault at which the steps ended. A checked recording has a fault only if its bytes have
    /// changed since the check.
    pub fn error(&self) -> Option<&ReadError> {
        self.error.as_ref()
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("error", &self.error).finish_non_exhaustive()
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        self.reader.next()?.map_err(|error| self.error = Some(error)).ok()
    }
}

impl ReadStep for Steps {
    #[inline]
    fn read_step(&mut self, step: &mut Step) -> bool {
        self.reader.read_step(step).unwrap_or_else(|error| {
            self.error = Some(error);
            false
        })
    }
}

/// A reader of bytes that several readers share.
struct Shared {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    place: usize,
}

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut rest = &(*self.bytes).as_ref()[self.place..];
        let count = rest.read(buffer)?;
        self.place += count;
        Ok(count)
    }
}
