//! Plans of measurements: the jobs, their order, and the state of the device that each one starts from.
