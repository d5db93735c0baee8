//! The error numbers of replies (proto.md, "Error values").

use super::number::numbers;

numbers! {
    /// Why a request failed. Zero, which means success, is not one of them.
    ErrorNumber: u32 {
        /// Not permitted: writing to what is read-only.
        Permission = 1, "NBD_EPERM";
        /// The medium failed.
        Io = 5, "NBD_EIO";
        /// There is no memory.
        NoMemory = 12, "NBD_ENOMEM";
        /// The request makes no sense here.
        Invalid = 22, "NBD_EINVAL";
        /// There is no room, or writing beyond the end.
        NoSpace = 28, "NBD_ENOSPC";
        /// Too long to be done as asked.
        Overflow = 75, "NBD_EOVERFLOW";
        /// Not as fast as asked.
        NotSupported = 95, "NBD_ENOTSUP";
        /// The server is going away.
        Shutdown = 108, "NBD_ESHUTDOWN";
    }
}

impl ErrorNumber {
    /// The error as a client takes it: a number without a name counts as [`ErrorNumber::Invalid`] ("Error values").
    #[must_use]
    pub fn known(self) -> ErrorNumber {
        if let ErrorNumber::Other(_) = self { ErrorNumber::Invalid } else { self }
    }
}

impl core::error::Error for ErrorNumber {}
