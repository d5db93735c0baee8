//! The probe: micro-patterns that find the structure of a device, each chosen from the observations so far.
