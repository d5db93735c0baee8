//! The work at the end of a device.

/// A device that has work to do before the process ends.
pub trait Closing: Send + Sync {
    /// Makes the device ready for the end of the process, after its last request.
    ///
    /// # Errors
    /// Returns the reason, as a sentence for the user.
    fn close(&self) -> Result<(), String>;
}
