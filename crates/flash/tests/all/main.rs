//! Tests of flash memory and the translation layers, one module per subject.

mod card_layer;
mod gc;
mod page_map;
mod power_cut;
mod queueing;
mod reference;
mod reliability;
mod scheduling;
mod wear_leveling;
