//! Observations of a device, and the file that stores them.
