//! Requests of a client, and the check that the export supports them.

use super::{ExportInfo, RequestError};
use crate::wire::{CommandFlags, CommandType, TransmissionFlags};

/// A request of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The command.
    pub command: CommandType,
    /// The command flags.
    pub flags: CommandFlags,
    /// Offset of the first byte in the export.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

impl Request {
    fn new(command: CommandType, offset: u64, length: u64) -> Request {
        Request { command, flags: CommandFlags::NONE, offset, length }
    }
    /// Creates a read.
    pub fn read(offset: u64, length: u64) -> Request {
        Request::new(CommandType::Read, offset, length)
    }
    /// Creates a write. The caller has to send the data directly after the request.
    pub fn write(offset: u64, length: u64) -> Request {
        Request::new(CommandType::Write, offset, length)
    }
    /// Creates a flush, which makes all completed writes durable.
    pub fn flush() -> Request {
        Request::new(CommandType::Flush, 0, 0)
    }
    /// Creates a trim: the host no longer needs the contents of the range.
    pub fn trim(offset: u64, length: u64) -> Request {
        Request::new(CommandType::Trim, offset, length)
    }
    /// Creates a cache request: the host will read the range soon.
    pub fn cache(offset: u64, length: u64) -> Request {
        Request::new(CommandType::Cache, offset, length)
    }
    /// Creates a request that fills the range with zeroes.
    pub fn write_zeroes(offset: u64, length: u64) -> Request {
        Request::new(CommandType::WriteZeroes, offset, length)
    }
    /// Creates a block status request for all negotiated metadata contexts.
    pub fn block_status(offset: u64, length: u64) -> Request {
        Request::new(CommandType::BlockStatus, offset, length)
    }
    /// Returns the request with additional flags.
    #[must_use]
    pub fn with(self, flags: CommandFlags) -> Request {
        Request { flags: self.flags.with(flags), ..self }
    }

    /// Checks that the export supports the request: "The client MUST NOT use a feature documented as 'exposed' by a
    /// flag unless that flag was set."
    pub(super) fn check(&self, export: &ExportInfo, contexts: bool) -> Result<(), RequestError> {
        use CommandFlags as F;
        use TransmissionFlags as T;
        let Request { command, flags, offset, length } = *self;
        let has = |flag| export.flags.contains(flag);
        let (offered, may) = match command {
            CommandType::Read => (true, F::NONE.with_if(has(T::SEND_DF), F::DF)),
            CommandType::Write => (!has(T::READ_ONLY), F::NONE),
            CommandType::Flush => (has(T::SEND_FLUSH), F::NONE),
            CommandType::Trim => (has(T::SEND_TRIM) && !has(T::READ_ONLY), F::NONE),
            CommandType::Cache => (has(T::SEND_CACHE), F::NONE),
            CommandType::WriteZeroes => {
                let fast = F::NO_HOLE.with_if(has(T::SEND_FAST_ZERO), F::FAST_ZERO);
                (has(T::SEND_WRITE_ZEROES) && !has(T::READ_ONLY), fast)
            }
            CommandType::BlockStatus => (contexts, F::REQ_ONE),
            _ => (false, F::NONE),
        };
        if !offered {
            return Err(RequestError::NotOffered(command));
        }
        let may = may.with_if(has(T::SEND_FUA), F::FUA);
        if !flags.without(may).is_empty() {
            return Err(RequestError::Flags(flags.without(may)));
        }
        if command == CommandType::Flush {
            return if offset == 0 && length == 0 { Ok(()) } else { Err(RequestError::FlushWithRange) };
        }
        if length == 0 {
            return Err(RequestError::Empty);
        }
        if offset.checked_add(length).is_none_or(|end| end > export.size) {
            return Err(RequestError::Range);
        }
        if (offset | length) & u64::from(export.block_minimum() - 1) != 0 {
            return Err(RequestError::Blocks);
        }
        let payload = matches!(command, CommandType::Read | CommandType::Write);
        if payload && length > export.payload_max().into() { Err(RequestError::TooLong) } else { Ok(()) }
    }
}
