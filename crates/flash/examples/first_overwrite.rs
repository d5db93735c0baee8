//! Shows why the first small write into sequentially written data is slow and the second is not: only the first one
//! reads and programs other data of its rewrite unit again.

use flashlab_flash::ftl::card::{Mapping, Overwrite, RewriteUnits};
use flashlab_sim::Duration;

const KIB: u64 = 1 << 10;

fn main() {
    let mapping = Mapping {
        program_unit: 8 * KIB,
        t_commit: Duration::ZERO,
        map_unit: 128 * KIB,
        rewrite_unit: 128 * KIB,
        overwrite: Overwrite::Convert,
        open_units: 8,
        map_cache: None,
        map_page: 4 * KIB,
    };
    let mut rewrite_units = RewriteUnits::new(1024 * KIB, 4 * KIB, &mapping);
    rewrite_units.write(0..1024 * KIB, 0);
    for (what, offset) in [("first", 132 * KIB), ("second", 160 * KIB), ("elsewhere", 260 * KIB)] {
        let copies = rewrite_units.write(offset..offset + 4 * KIB, 0);
        println!("{what:10} small write: {:3} KiB read and programmed again", copies.read_modify_write / KIB);
    }
}
