//! Writes three blocks into a large device and prints which parts of the device are allocated.

use flashlab_block::{Answer, BlockDevice, Context, Io, Memory, Pages, Started};
use flashlab_sim::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Memory::new(1 << 40, Pages::Small)?;
    let context = Context::new(Instant::ZERO);
    for offset in [0, 1 << 30, 1 << 39] {
        let io = Io::Write { offset, data: vec![1; 4096].into(), durable: false };
        let Started::Done(outcome) = device.start(&context, io) else {
            unreachable!("memory answers at once")
        };
        outcome?;
    }
    let io = Io::Extents { offset: 0, length: 1 << 40 };
    if let Started::Done(Ok(Answer::Extents(extents))) = device.start(&context, io) {
        for extent in extents {
            println!("{:>16} {}", extent.length, if extent.hole { "hole" } else { "in use" });
        }
    }
    Ok(())
}
