//! Recorded requests, compared with a log as fio would have written it.

use crate::server::{TestServer, alone, memory};
use flashlab_fio::iolog::{Action, Iolog, Version};
use flashlab_nbd::client::Request;
use flashlab_nbd::wire::CommandFlags;
use flashlab_serve::{Limits, Recorder};
use std::path::Path;
use std::sync::Arc;

#[test]
fn recorded_requests_are_a_valid_iolog() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("arrivals-{}.log", std::process::id()));
    let recorder = Arc::new(Recorder::create(&path, ["a card".to_owned()]).expect("the folder is there"));
    let mut server = TestServer::with(alone(memory(1 << 20)), Limits::default(), Some(recorder.clone()));
    let mut client = server.client();
    client.write(8192, &[1; 4096]);
    client.read(0, 512);
    client.flush();
    for request in [
        Request::trim(0, 4096),
        Request::write_zeroes(4096, 4096),
        Request::write_zeroes(4096, 4096).with(CommandFlags::NO_HOLE),
    ] {
        client.execute(request, &[]).expect("the connection is open").expect("it can be done");
    }
    drop(client);
    server.shut_down();
    recorder.finish().expect("the disk has room");
    let text = std::fs::read_to_string(&path).expect("the file was written");
    let iolog = Iolog::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!((iolog.version, &iolog.files[..]), (Version::Three, &["a_card".to_owned()][..]));
    let recorded: Vec<_> =
        iolog.entries.iter().map(|entry| (entry.action, entry.offset, entry.length)).collect();
    let expected = [
        (Action::Write, 8192, 4096),
        (Action::Read, 0, 512),
        (Action::Sync, 0, 0),
        (Action::Trim, 0, 4096),
        (Action::Trim, 4096, 4096),
        (Action::Write, 4096, 4096),
    ];
    assert_eq!(recorded, expected, "{text}");
    let _ = std::fs::remove_file(path);
}
