//! Ctrl-C while something long runs.

use crate::desk::Desk;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const SIGINT: i32 = 2;

#[test]
fn the_first_ctrl_c_ends_the_process_and_leaves_no_file() {
    let desk = Desk::new("interrupt");
    let job = "--name=a --rw=randread --bs=4k --direct=1 --size=16g --time_based --runtime=300d";
    for line in [
        format!("bench sd/kingston {job} --output=out --write_iops_log=log --log_avg_msec=1000"),
        format!("compare sd/k* {job} --output=out"),
    ] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let mut command = desk.command(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(300));
        let sent =
            Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
        assert!(sent.success());
        let status = child.wait().expect("it ends");
        // Before the program looks out for it, the system ends it; shells call that 130, too.
        assert!(status.code() == Some(130) || status.signal() == Some(SIGINT), "{line}: {status}");
        assert_eq!(desk.names(), [""; 0], "{line}");
    }
}
