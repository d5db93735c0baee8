//! Measurements of real devices, files and directories, in real time.

use super::session::{self, Finish, Outcome, Session};
use super::simulated::jobs;
use super::{Options, size};
use crate::command::target::{Opened, cannot_create};
use crate::failure::{Failure, say};
use flashlab_fit::observation::{Mark, Target as Described};
use flashlab_fit::plan::{Area, Plan, PlannedStep, Scale};
use flashlab_fit::probe::Value;
use flashlab_lab::progress::Progress;
use flashlab_measure::directory::{BLOCK, NAME, OwnFile};
use flashlab_measure::in_use::{Identity, Kernel, filesystem_of, identity_of};
use flashlab_measure::{Engine, FirstError, ProbeError, Target, find_capacity};
use flashlab_sim::Op;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The engine of `flashlab-measure`.
const ENGINE: session::Engine = session::Engine { name: "flashlab threads", can_resume: true };

/// Measures a block device, a file or an export. Only reads from it, unless `--destroy` permits writes.
pub(super) fn opened(
    options: &Options,
    opened: Opened,
    to: &Path,
    progress: &Progress,
) -> Result<ExitCode, Failure> {
    let Opened { device, described, filesystem } = opened;
    let area = Area {
        capacity: device.capacity(),
        block: device.block(),
        is_writable: options.destroy,
        discards: device.discards(),
    };
    let plan = plan(options, &described, &area)?;
    let session = Session::open(options.host.clone(), &plan, to, described, ENGINE, progress)?;
    // The marks of the check would change the state in which an interrupted measurement continues.
    if options.destroy && session.resumed() == 0 {
        check_capacity(&*device, progress)
            .map_err(|why| Failure::failed(format!("{}: {why}", session.target().name)))?;
    }
    measure(session, &*device, filesystem, progress)?.code()
}

/// Checks that a device stores as much as it claims, because measurements of a counterfeit describe no real
/// card. The error is the reason not to measure the device.
fn check_capacity(device: &dyn Target, progress: &Progress) -> Result<(), String> {
    let claimed = device.capacity();
    let finding = match find_capacity(device, &|| progress.is_stopped()) {
        Ok(finding) => finding,
        // The user stopped the check, so the measurement ends in its first step.
        Err(ProbeError::Stopped) => return Ok(()),
        Err(error) => {
            return Err(format!(
                "{error}; nothing was measured, since a card that states a larger capacity than it has fails like this"
            ));
        }
    };
    match finding.value {
        Value::Bytes(stored) if stored < claimed => Err(format!(
            "it claims {} and stores {} ({}); nothing was measured, since data beyond that size is lost: the card is a \
             counterfeit, or broken",
            size(claimed),
            size(stored),
            finding.reason
        )),
        _ => Ok(()),
    }
}

fn plan(options: &Options, described: &Described, area: &Area) -> Result<Plan, Failure> {
    Plan::new(options.plan, area).map_err(|error| Failure::usage(format!("{}: {error}", described.name)))
}

/// Measures the device that holds a directory, through a file of our own in the directory.
pub(super) fn directory(
    options: &Options,
    target: &str,
    to: &Path,
    progress: &Progress,
) -> Result<ExitCode, Failure> {
    let path = Path::new(target);
    let filesystem = filesystem_of(&Kernel::default(), path);
    let left_over = path.join(NAME);
    let is_resumed = to.exists() && left_over.exists();
    let bytes = match is_resumed {
        true => std::fs::metadata(&left_over).map_err(|error| Failure::io(&left_over, &error))?.len(),
        false => room(options, path)?,
    };
    let Identity { filesystem_id, model, serial } = identity_of(&Kernel::default(), path);
    let described = Described {
        name: target.to_owned(),
        capacity_bytes: Some(bytes),
        block_bytes: Some(BLOCK),
        model,
        serial,
        filesystem_id,
    };
    let area = Area { capacity: bytes, block: BLOCK, is_writable: true, discards: false };
    let plan = plan(options, &described, &area)?;
    let session = Session::open(options.host.clone(), &plan, to, described, ENGINE, progress)?;
    if session.resumed() > 0 && !is_resumed {
        return Err(Failure::usage(format!(
            "{}: it contains {} of the {} steps, but the file that they wrote, {}, is gone, so the \
             measurement cannot continue; remove the results to start anew, or name another file",
            to.display(),
            session.resumed(),
            plan.steps.len(),
            left_over.display()
        )));
    }
    let own = OwnFile::create(path, bytes, is_resumed).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{}: the file exists; an interrupted measurement with another --to may have left it: remove it",
            left_over.display()
        )),
        _ => cannot_create(target, &error),
    })?;
    let finish = measure(session, &own, filesystem, progress);
    let can_continue = match &finish {
        Ok(Finish::Complete { .. }) => false,
        Ok(Finish::Stopped | Finish::Fatal(_)) => true,
        // The file of an earlier run remains even if this run failed.
        Err(_) => is_resumed,
    };
    let removed = match can_continue {
        true => {
            say(format_args!("{} is kept, so that the measurement can continue", own.path().display()));
            Ok(())
        }
        false => own.remove().map_err(|error| Failure::io(&left_over, &error)),
    };
    let code = finish.and_then(Finish::code)?;
    removed.map(|()| code)
}

/// Returns the size of the file for a plan in a directory: the size that the plan needs, or less if there is
/// less room.
fn room(options: &Options, directory: &Path) -> Result<u64, Failure> {
    // The areas of a plan fit into this many bytes.
    let wanted: u64 = match options.plan {
        Scale::Quick => 512 << 20,
        Scale::Standard => 2 << 30,
    };
    match OwnFile::room(directory).map_err(|error| Failure::io(directory, &error))? {
        0 => Err(Failure::failed(format!(
            "{}: no file can be created there, since its filesystem has no free space",
            directory.display()
        ))),
        room => Ok(room.min(wanted) / (1 << 20) * (1 << 20)),
    }
}

/// Runs the plan of a session on an open target.
fn measure(
    session: Session<'_>,
    target: &dyn Target,
    filesystem: Option<String>,
    progress: &Progress,
) -> Result<Finish, Failure> {
    session.announce(target.capacity());
    let name = session.target().name.clone();
    let mut schedule = Schedule::new(session.steps_left(), progress);
    let mut engine = Engine::new(target);
    session.run(|planned| {
        rest(planned, progress);
        schedule.begin(planned);
        let jobs = jobs(planned)?;
        let statistics = engine
            .run(&jobs, &mut |share| {
                schedule.reach(share);
                !progress.is_stopped()
            })
            .map_err(|error| Failure::failed(format!("{name}: {error}")))?;
        schedule.end();
        let mut step = planned.result(&statistics.reports(&jobs));
        step.filesystem.clone_from(&filesystem);
        let mut fatal = None;
        if let Some(error) = engine.take_error() {
            let note = describe_error(&error);
            if error.is_gone() {
                fatal = Some(format!("{name}: the device disappeared during {}: {note}", planned.name));
            }
            step.notes = vec![note];
            let mark = if planned.only_prepares { Mark::Warned } else { Mark::Incomplete };
            if !step.is_marked(mark) {
                step.marks.push(mark);
            }
        }
        Ok(Outcome { step, fatal })
    })
}

fn describe_error(failed: &FirstError) -> String {
    let FirstError { op, offset, length, error } = failed;
    let hint = match (op, error.raw_os_error()) {
        // The codes are those of EIO and ENOSPC.
        (Op::Read | Op::Write, Some(5 | 28)) => {
            "; a card that states a larger capacity than it has fails like this"
        }
        _ => "",
    };
    let operation = match op {
        Op::Read => "a read",
        Op::Write => "a write",
        Op::WriteFua => "a write through the cache",
        Op::Trim => "a discard",
        Op::Flush | Op::FlushData => return format!("a flush failed: {error}"),
    };
    format!("{operation} of {length} bytes at byte {offset} failed: {error}{hint}")
}

/// Lets the device rest before a step. Ctrl-C ends the wait.
fn rest(planned: &PlannedStep, progress: &Progress) {
    const PIECE: Duration = Duration::from_millis(100);
    let mut left = Duration::from_nanos(planned.rest.as_ns());
    while left > Duration::ZERO && !progress.is_stopped() {
        std::thread::sleep(left.min(PIECE));
        left = left.saturating_sub(PIECE);
    }
}

/// Progress through the steps of a plan, in milliseconds of their maximum time.
struct Schedule<'a> {
    progress: &'a Progress,
    done: u64,
    step: u64,
}

impl<'a> Schedule<'a> {
    /// Returns the schedule of the steps that are left.
    fn new(steps: &[PlannedStep], progress: &'a Progress) -> Self {
        progress.plan(steps.iter().map(milliseconds).sum());
        Schedule { progress, done: 0, step: 0 }
    }

    fn begin(&mut self, planned: &PlannedStep) {
        self.step = milliseconds(planned);
    }

    fn reach(&mut self, share: f64) {
        self.progress.reach(self.done + (self.step as f64 * share) as u64);
    }

    fn end(&mut self) {
        self.done += self.step;
        self.progress.reach(self.done);
    }
}

fn milliseconds(planned: &PlannedStep) -> u64 {
    (planned.time + planned.rest).as_ns() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_measure::Channel;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    /// A card that claims 4 GiB, and wraps at the size in the field.
    struct Wrapping(u64, Blocks);

    type Blocks = Arc<Mutex<BTreeMap<u64, Vec<u8>>>>;

    impl Channel for Wrapping {
        fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            buffer.fill(0);
            if let Some(block) = self.1.lock().expect("no panic").get(&(offset % self.0)) {
                buffer.copy_from_slice(block);
            }
            Ok(())
        }
        fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.1.lock().expect("no panic").insert(offset % self.0, data.to_vec());
            Ok(())
        }
        fn discard(&mut self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn flush(&mut self, _: bool) -> io::Result<()> {
            Ok(())
        }
    }

    impl Target for Wrapping {
        fn capacity(&self) -> u64 {
            4 << 30
        }
        fn block(&self) -> u32 {
            512
        }
        fn discards(&self) -> bool {
            true
        }
        fn channel(&self) -> io::Result<Box<dyn Channel>> {
            Ok(Box::new(Wrapping(self.0, self.1.clone())))
        }
    }

    #[test]
    fn a_card_that_claims_more_than_it_stores_is_refused_with_the_size_found() {
        let check = |stores| check_capacity(&Wrapping(stores, Blocks::default()), &Progress::default());
        assert_eq!(check(4 << 30), Ok(()));
        let refused = check(256 << 20).expect_err("it is a counterfeit");
        assert!(refused.starts_with("it claims 4.00 GiB and stores 256 MiB (of "), "{refused}");
        assert!(refused.contains("nothing was measured"), "{refused}");
    }

    #[test]
    fn a_failed_request_is_described_in_words() {
        let failed = |op, errno| {
            let error = std::io::Error::from_raw_os_error(errno);
            describe_error(&FirstError { op, offset: 8192, length: 4096, error })
        };
        let read = failed(Op::Read, 5);
        assert!(read.starts_with("a read of 4096 bytes at byte 8192 failed: Input/output error"), "{read}");
        assert!(read.ends_with("a card that states a larger capacity than it has fails like this"), "{read}");
        assert!(failed(Op::Trim, 95).starts_with("a discard of 4096 bytes at byte 8192 failed: "));
        assert!(failed(Op::Flush, 5).starts_with("a flush failed: Input/output error"));
    }
}
