//! The error numbers of replies (proto.md, "Error values").

use super::number::numbers;

numbers! {
    /// Error number of a reply. Zero means success and is not an error number.
    ErrorNumber: u32 {
        /// Operation not permitted, such as a write to a read-only export.
        Permission = 1, "NBD_EPERM";
        /// Input/output error.
        Io = 5, "NBD_EIO";
        /// Out of memory.
        NoMemory = 12, "NBD_ENOMEM";
        /// Invalid argument.
        Invalid = 22, "NBD_EINVAL";
        /// No space left, or a write beyond the end of the export.
        NoSpace = 28, "NBD_ENOSPC";
        /// The request is too long.
        Overflow = 75, "NBD_EOVERFLOW";
        /// The operation is not supported, or not as fast as requested.
        NotSupported = 95, "NBD_ENOTSUP";
        /// The server is shutting down.
        Shutdown = 108, "NBD_ESHUTDOWN";
    }
}

impl ErrorNumber {
    /// Returns the error as a client interprets it: an unknown number counts as [`ErrorNumber::Invalid`] ("Error
    /// values").
    #[must_use]
    pub fn known(self) -> ErrorNumber {
        if let ErrorNumber::Other(_) = self { ErrorNumber::Invalid } else { self }
    }
}

impl core::error::Error for ErrorNumber {}
