//! Closed forms of collection and wear, met at the effective share of mapped units.
//!
//! rho is the share of units that are mapped, of all that data can lie in: without the free reserve and what is unwritten
//! in open blocks (`PageMap::effective_units`). Sources: Desnoyers, "Analytic modeling of SSD write performance"
//! (SYSTOR 2012); Xiang and Kurkoski, arXiv 1110.4245; Van Houdt, "A mean field model for a class of garbage collection
//! algorithms in flash-based solid state drives" (2013). Tolerances are those that simulations of the right kind meet:
//! 1 %, and 1.5 % for mixes of rates.

mod device;
mod forms;

mod buffers;
mod mixed;
mod uniform;
mod wear;
