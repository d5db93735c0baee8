//! Recordings as iologs of fio.

use crate::{Action, Step};
use flashlab_fio::iolog::{self, IologWriter, Version};
use flashlab_sim::{Duration, Op};

/// Writes the requests of a recording as an iolog. Dependencies, marks and flags have no place in an iolog. A
/// write with force unit access becomes a write and a `datasync`. On a device without force unit access,
/// Linux does the same.
#[derive(Debug)]
pub struct Export {
    writer: IologWriter,
    version: Version,
    file: String,
    /// Latest instant written.
    at: Duration,
}

impl Export {
    /// Creates an iolog whose requests go to `file`.
    pub fn new(version: Version, file: &str) -> Export {
        let mut writer = IologWriter::new(version);
        writer.add(Duration::ZERO, file);
        writer.open(Duration::ZERO, file);
        Export { writer, version, file: file.to_owned(), at: Duration::ZERO }
    }

    /// Appends a step. Returns the text that the step adds.
    pub fn push(&mut self, step: &Step) -> String {
        if let Action::Request { op, offset, length, .. } = step.action {
            self.advance(step.at);
            let (action, is_durable) = match op {
                Op::Read => (iolog::Action::Read, false),
                Op::Write => (iolog::Action::Write, false),
                Op::WriteFua => (iolog::Action::Write, true),
                Op::Trim => (iolog::Action::Trim, false),
                Op::Flush => (iolog::Action::Sync, false),
                Op::FlushData => (iolog::Action::DataSync, false),
            };
            self.writer.request(self.at, &self.file, action, offset, length);
            if is_durable {
                self.writer.request(self.at, &self.file, iolog::Action::DataSync, offset, 0);
            }
        }
        self.writer.take()
    }

    /// Advances the time of the iolog to `at`. In version 2, waits are whole milliseconds.
    fn advance(&mut self, at: Duration) {
        let ms = |time: Duration| time.as_ns() / 1_000_000;
        if self.version == Version::Two && ms(at) > ms(self.at) {
            self.writer.wait(at, &self.file);
        }
        self.at = self.at.max(at);
    }

    /// Closes the file. Returns the rest of the text.
    pub fn finish(mut self) -> String {
        self.writer.close(self.at, &self.file);
        self.writer.finish()
    }
}
