//! Fuzzes the reader of recordings: accepted steps survive another round trip.
#![no_main]

use flashlab_recording::{Reader, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let steps: Vec<_> = reader.by_ref().map_while(Result::ok).collect();
    let mut writer = Writer::new(Vec::new(), reader.header(), reader.tasks()).expect("a header that was read is valid");
    for step in &steps {
        writer.push(step).expect("a step that was read is valid");
    }
    let (again, _) = writer.finish().expect("memory accepts every byte");
    let reread: Vec<_> = Reader::new(&again[..]).expect("written").collect::<Result<_, _>>().expect("written");
    assert_eq!(reread, steps);
});
