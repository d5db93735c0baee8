//! Over-provisioning, from the write amplification of uniform random writes on a full device.

use super::{Bench, Name};

pub(super) async fn run(bench: &Bench) {
    bench.skip(Name::OverProvisioning, "needs --whole-device");
}
