//! Devices that move bytes, for `bench` and `recording replay`.

use crate::edge::sources;
use crate::failure::Failure;
use flashlab_catalogue::library::Library;
use flashlab_served::{Served, StoreModel};

/// Returns true if the device of `argument` moves bytes, always or because `--bytes` asks for it.
pub(super) fn moves_bytes(argument: &str, is_asked: bool) -> bool {
    is_asked || Served::always_stores_bytes(argument)
}

/// Opens a device that moves bytes.
pub(super) fn open(argument: &str, seed: u64, library: &Library) -> Result<StoreModel, Failure> {
    // Opening a device with a saved state would create the file for its bytes. Writes to a volume go to its members.
    if !argument.starts_with("volume:") && Served::has_state_file(argument)? {
        return Err(Failure::usage(format!(
            "{argument}: this command changes no saved state, so it cannot write bytes to one; leave state= out, or \
             serve the device"
        )));
    }
    let served = Served::open(argument, seed, false, sources(library).in_simulated_time())?;
    if served.device.geometry().capacity == 0 {
        return Err(Failure::usage(format!("{argument}: the device is empty; give it a size")));
    }
    let device = StoreModel::new(&served);
    if argument.starts_with("volume:") && argument.contains(",host=") && !device.has_timing() {
        return Err(Failure::usage(format!(
            "{argument}: host= has no effect, because no member has timing; each request takes 1 us"
        )));
    }
    Ok(device)
}

/// Returns the error of `--compressibility` for a device that moves no bytes.
pub(super) fn no_data_to_compress(argument: &str) -> Failure {
    Failure::usage(format!(
        "--compressibility: {argument} only simulates times, which do not depend on the data; add --bytes, or leave the option out"
    ))
}
