//! Creates a volume of two mirrored devices in memory, damages one copy, and reads the other.

use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Executor, Io};
use flashlab_volume::{NewMember, OpenOptions, Options, Volume};
use std::sync::Arc;

fn main() {
    let disks = [0, 1].map(|_| Disk::new(Image::new(64 << 20), 512));
    let devices: Vec<Arc<dyn BlockDevice>> =
        disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn BlockDevice>).collect();
    let mut executor = Executor::new(1);
    let cx = executor.context();
    let volume = executor.block_on(async move {
        let members: Vec<NewMember> = devices.iter().cloned().map(NewMember::new).collect();
        let options = Options { replicas: 2, ..Options::new([7; 16]) };
        Volume::format(&cx, &members, &options).await.expect("members of the right size");
        Volume::open(&cx, &devices, OpenOptions::default()).await.expect("a new volume")
    });
    let write = Io::Write { offset: 0, data: vec![42; 4096].into(), durable: true };
    execute(&volume, write).expect("members that work");
    let bytes = disks[0].image().to_vec();
    let at = bytes.windows(4096).position(|window| window == [42; 4096]).expect("the data is on the disk");
    disks[0].flip(at as u64, 1);
    assert!(read(&volume, 0, 4096) == [42; 4096]);
    println!("the damaged copy at byte {at} was replaced by the other one for the reader");
}
