//! The end of a drive's life: the drive rejects new writes, and also fails every write that waits for the
//! write buffer.

use crate::common::{Driven, KIB, MIB, small};
use flashlab_flash::nand::Endurance;
use flashlab_sim::{Op, Status};

#[test]
fn waiting_writes_fail_when_the_drive_becomes_read_only() {
    let mut parameters = small();
    parameters.page_map.endurance = Some(Endurance::exactly(3));
    let capacity = parameters.page_map.capacity;
    let mut drive = Driven::new(parameters);
    let (mut rng, mut outstanding, mut refused) = (flashlab_sim::Rng::new(1), 0, 0);
    // The outstanding writes have more units than the write buffer, so that some writes always wait.
    while refused < 200 {
        while outstanding < 64 {
            drive.submit(Op::Write, rng.below(capacity / (32 * KIB)) * 32 * KIB, 32 * KIB);
            outstanding += 1;
        }
        refused += u32::from(drive.complete().status == Status::ReadOnly);
        outstanding -= 1;
    }
    assert!(drive.ssd.layer().is_read_only());
    (0..outstanding).for_each(|_| assert_eq!(drive.complete().status, Status::ReadOnly));
    assert_eq!(drive.one(Op::Read, 0, MIB).status, Status::Ok);
}
