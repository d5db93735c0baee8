//! Tests of garbage collection and wear against closed forms, evaluated at the effective share of mapped
//! units.
//!
//! rho is the number of mapped units over the number of units that data can occupy, without the free reserve and the
//! unwritten part of open blocks (`PageMap::effective_units`). Sources: Desnoyers, "Analytic modeling of SSD write
//! performance" (SYSTOR 2012); Xiang and Kurkoski, arXiv 1110.4245; Van Houdt, "A mean field model for a class of
//! garbage collection algorithms in flash-based solid state drives" (2013). The tolerance for write
//! amplification is 1 %, and 1.5 % for mixes of rates; a correct simulation meets both. Labels:
//! docs/closed-forms.md.

mod device;

mod buffers;
mod mixed;
mod uniform;
mod wear;
