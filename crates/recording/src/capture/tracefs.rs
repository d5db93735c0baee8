//! Text of Linux's tracefs (`/sys/kernel/tracing/trace` and `trace_pipe`), with the columns of the option
//! `irq-info` (Documentation/trace/ftrace.rst). The formats of the events are those of block.h, sched.h,
//! timer.h and workqueue.h in include/trace/events, and of system calls, Linux 6.1 to 6.12.
//!
//! A time stamp with a fraction is in seconds, and one without a fraction is in nanoseconds. The latter comes
//! from the trace clock `x86-tsc`, which counts nanoseconds in a guest whose instructions are counted
//! (`-icount`).
//!
//! A line of an event that [`Content`] does not list is skipped. Lost events, an event of a second processor,
//! malformed columns and a malformed known event are errors with the number of the line.

use core::fmt;

/// Major and minor number of a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Operation of a request, from the letters that the kernel calls `rwbs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// `R`.
    Read,
    /// `W`.
    Write,
    /// `W` with force unit access.
    WriteFua,
    /// `D` or `DE`.
    Discard,
    /// `FF`.
    Flush,
}

/// Content of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// `block_rq_issue`: the driver receives a request.
    Issue {
        /// Device.
        device: Device,
        /// Operation.
        direction: Direction,
        /// Flags of the request.
        flags: crate::Flags,
        /// First sector of 512 bytes.
        sector: u64,
        /// Number of sectors of 512 bytes.
        sectors: u64,
    },
    /// `block_rq_complete`: the driver completes a request, or the first part of it.
    Complete {
        /// Device.
        device: Device,
        /// Operation.
        direction: Direction,
        /// First sector of 512 bytes.
        sector: u64,
        /// Number of sectors of 512 bytes; 0 at the end of a sequence with flushes.
        sectors: u64,
        /// Error number; 0 means success.
        error: i64,
    },
    /// `sched_switch`: the processor leaves one task and continues with another.
    Switch {
        /// First letter of the state in which the previous task remains: `R` for a preempted task.
        state: char,
        /// Process identifier of the next task.
        next: u32,
    },
    /// `sched_waking`: a sleeping task becomes runnable.
    Waking {
        /// Process identifier of the woken task.
        pid: u32,
    },
    /// `sched_wakeup_new`: the current task created a task.
    New {
        /// Process identifier of the new task.
        pid: u32,
    },
    /// Text that a task wrote to `trace_marker`.
    Marker(String),
    /// `block_getrq`: the current task obtains a request for a range that starts at the sector.
    Obtain {
        /// First sector of 512 bytes.
        sector: u64,
    },
    /// `block_rq_requeue`: the driver was busy and returns the request; another issue follows.
    Requeue {
        /// Device.
        device: Device,
        /// Operation.
        direction: Direction,
        /// First sector of 512 bytes.
        sector: u64,
    },
    /// `workqueue_queue_work`: the current task or interrupt queues a work item.
    QueueWork {
        /// Address of the work item.
        work: u64,
    },
    /// `workqueue_execute_start`: the current kernel worker begins a work item.
    BeginWork {
        /// Address of the work item.
        work: u64,
    },
    /// `timer_start`: the current task or interrupt arms a timer.
    ArmTimer {
        /// Address of the timer.
        timer: u64,
    },
    /// `timer_expire_entry`: the handler of a timer begins.
    BeginTimer {
        /// Address of the timer.
        timer: u64,
    },
    /// `timer_expire_exit` or `hrtimer_expire_exit`: the handler of a timer ends.
    EndTimer,
    /// `sched_process_exit`: the current task ends.
    Exit,
    /// The current task enters a system call that makes data durable, such as `fsync`.
    BeginSync,
    /// The current task returns from a system call that makes data durable.
    EndSync,
}

/// Kind of code that is running when an event occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// The current task, by itself or in a system call.
    Task,
    /// A soft interrupt, such as the handlers of coarse timers.
    SoftInterrupt,
    /// A hardware interrupt, such as a completion.
    HardInterrupt,
}

/// An event of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceEvent {
    /// Number of the line, from 1.
    pub line: usize,
    /// Name of the current task.
    pub task: String,
    /// Process identifier of the current task; 0 for the idle task.
    pub pid: u32,
    /// Kind of code that is running.
    pub context: Context,
    /// Time stamp in nanoseconds.
    pub at_ns: u64,
    /// Content.
    pub content: Content,
}

/// A fault of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Fault and remedy.
    pub fault: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the trace: {}", self.line, self.fault)
    }
}

impl std::error::Error for TraceError {}

/// Parses a trace. Returns the known events in the order of the text.
pub fn parse(text: &str) -> Result<Vec<TraceEvent>, TraceError> {
    let mut events = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let event = parse_line(line, index + 1).map_err(|fault| TraceError { line: index + 1, fault })?;
        events.extend(event);
    }
    Ok(events)
}

fn parse_line(line: &str, number: usize) -> Result<Option<TraceEvent>, String> {
    let lost = "the kernel lost events; record with a larger trace buffer";
    if let Some(counts) = line.strip_prefix("# entries-in-buffer/entries-written:") {
        let (held, written) = counts.trim().split_once('/').ok_or("expected `held/written`")?;
        let written = written.split_whitespace().next().unwrap_or_default();
        return if held == written { Ok(None) } else { Err(lost.into()) };
    }
    if line.starts_with('#') || line.trim().is_empty() {
        return Ok(None);
    }
    if line.starts_with("CPU:") && line.contains("LOST") {
        return Err(lost.into());
    }
    let (head, rest) =
        split_processor(line).ok_or("expected `task-pid [processor] flags time: event: ...`")?;
    let (task, pid) = head.trim().rsplit_once('-').ok_or("expected `task-pid` before the processor")?;
    let pid = number_of(pid, "process identifier")?;
    let (processor, rest) = rest.split_once(']').ok_or("expected `]` after the processor")?;
    if number_of::<u32>(processor, "processor")? != 0 {
        return Err("an event of a second processor; record a guest with one processor".into());
    }
    let (columns, rest) = rest.trim_start().split_once(' ').ok_or("expected a time after the flags")?;
    let context = match columns.chars().nth(2).ok_or("expected the flags of the option irq-info")? {
        'h' | 'H' | 'Z' | 'z' => Context::HardInterrupt,
        's' => Context::SoftInterrupt,
        _ => Context::Task,
    };
    let (time, rest) = rest.trim_start().split_once(": ").ok_or("expected a time and `: `")?;
    let content = match rest.strip_prefix("sys_") {
        Some(call) => system_call(call),
        None => {
            let (name, payload) = rest.split_once(':').ok_or("expected the name of an event and `:`")?;
            parse_content(name, payload.trim())?
        }
    };
    let Some(content) = content else { return Ok(None) };
    Ok(Some(TraceEvent { line: number, task: task.into(), pid, context, at_ns: nanoseconds(time)?, content }))
}

/// Splits a line at the bracket that opens the number of the processor. Names of tasks can contain ` [`.
fn split_processor(line: &str) -> Option<(&str, &str)> {
    line.match_indices(" [").map(|(at, bracket)| (&line[..at], &line[at + bracket.len()..])).find(
        |(_, rest)| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            digits >= 3 && rest[digits..].starts_with("] ")
        },
    )
}

fn parse_content(name: &str, payload: &str) -> Result<Option<Content>, String> {
    Ok(Some(match name {
        "block_rq_issue" => {
            let request = Request::parse(payload)?;
            let Request { device, direction, flags, sector, sectors } = request;
            Content::Issue { device, direction, flags, sector, sectors }
        }
        "block_rq_complete" => {
            let Request { device, direction, sector, sectors, .. } = Request::parse(payload)?;
            let error = payload.rsplit_once('[').and_then(|(_, tail)| tail.strip_suffix(']'));
            let error = number_of(error.ok_or("expected `[error]` at the end")?, "error")?;
            Content::Complete { device, direction, sector, sectors, error }
        }
        "sched_switch" => {
            let state = value(payload, "prev_state")?.chars().next().ok_or("`prev_state` is empty")?;
            let next = payload.rsplit_once(" ==> ").ok_or("expected ` ==> `")?.1;
            Content::Switch { state, next: number_of(value(next, "next_pid")?, "next_pid")? }
        }
        "sched_waking" => Content::Waking { pid: number_of(value(payload, "pid")?, "pid")? },
        "sched_wakeup_new" => Content::New { pid: number_of(value(payload, "pid")?, "pid")? },
        "tracing_mark_write" | "print" => Content::Marker(payload.into()),
        "block_getrq" => match obtained(payload)? {
            Some(sector) => Content::Obtain { sector },
            None => return Ok(None),
        },
        "block_rq_requeue" => {
            let Request { device, direction, sector, .. } = Request::parse(payload)?;
            Content::Requeue { device, direction, sector }
        }
        "workqueue_queue_work" => Content::QueueWork { work: address(payload, "work struct=")? },
        "workqueue_execute_start" => Content::BeginWork { work: address(payload, "work struct ")? },
        "timer_start" => Content::ArmTimer { timer: address(payload, "timer=")? },
        "timer_expire_entry" => Content::BeginTimer { timer: address(payload, "timer=")? },
        "timer_expire_exit" | "hrtimer_expire_exit" => Content::EndTimer,
        "sched_process_exit" => Content::Exit,
        _ => return Ok(None),
    }))
}

/// Decodes the text that follows `sys_` in `sys_enter_*` (`fsync(fd: 1)`) and `sys_exit_*` (`fsync -> 0x0`).
fn system_call(text: &str) -> Option<Content> {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
    let (name, rest) = text.split_at(end);
    match name {
        "fsync" | "fdatasync" | "sync" | "syncfs" | "msync" => match rest.starts_with('(') {
            true => Some(Content::BeginSync),
            false => Some(Content::EndSync),
        },
        _ => None,
    }
}

/// Returns the first sector of a text such as `8,0 WS 1000 + 8 [task]`, or `None` for a flush.
fn obtained(payload: &str) -> Result<Option<u64>, String> {
    let mut words = payload.split_whitespace().skip(2);
    let sector = number_of(words.next().unwrap_or_default(), "sector")?;
    let is_range = words.next() == Some("+") && words.next() != Some("0");
    Ok(is_range.then_some(sector))
}

/// Returns the address after `key`, up to the next character that is not a hexadecimal digit.
fn address(payload: &str, key: &str) -> Result<u64, String> {
    let start = payload.find(key).ok_or_else(|| format!("expected `{key}`"))? + key.len();
    let text = &payload[start..];
    let end = text.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(text.len());
    u64::from_str_radix(&text[..end], 16).map_err(|_| {
        format!("expected an address after `{key}`; start the kernel with the parameter no_hash_pointers")
    })
}

struct Request {
    device: Device,
    direction: Direction,
    flags: crate::Flags,
    sector: u64,
    sectors: u64,
}

impl Request {
    fn parse(payload: &str) -> Result<Self, String> {
        let (head, tail) =
            payload.split_once(" () ").ok_or("expected ` () `: a command that is no request")?;
        let mut head = head.split_whitespace();
        let device = head.next().and_then(|device| device.split_once(',')).ok_or("expected `major,minor`")?;
        let device = Device { major: number_of(device.0, "major")?, minor: number_of(device.1, "minor")? };
        let (direction, flags) = direction_of(head.next().ok_or("expected the letters of the operation")?)?;
        let mut tail = tail.split_whitespace();
        let sector = number_of(tail.next().unwrap_or_default(), "sector")?;
        if tail.next() != Some("+") {
            return Err("expected `sector + count`".into());
        }
        let sectors = number_of(tail.next().unwrap_or_default(), "count of sectors")?;
        Ok(Request { device, direction, flags, sector, sectors })
    }
}

/// Decodes the letters of `blk_fill_rwbs` (kernel/trace/blktrace.c): the operation, then `F` for force unit
/// access, `A`, `S` and `M`; `U` is ignored. A flush is `FF`. A flush before the data of the same request is
/// an error.
fn direction_of(letters: &str) -> Result<(Direction, crate::Flags), String> {
    let unknown = || format!("unknown operation `{letters}`");
    let (operation, rest) = match letters {
        _ if letters.starts_with("FF") => (Direction::Flush, &letters[2..]),
        _ if letters.starts_with("DE") => (Direction::Discard, &letters[2..]),
        _ if letters.starts_with("WF") => (Direction::WriteFua, &letters[2..]),
        _ if letters.starts_with('W') => (Direction::Write, &letters[1..]),
        _ if letters.starts_with('R') => (Direction::Read, &letters[1..]),
        _ if letters.starts_with('D') => (Direction::Discard, &letters[1..]),
        _ => return Err(unknown()),
    };
    let mut flags = crate::Flags::default();
    for letter in rest.chars() {
        match letter {
            'A' => flags.read_ahead = true,
            'S' => flags.sync = true,
            'M' => flags.meta = true,
            'F' | 'U' => {}
            _ => return Err(unknown()),
        }
    }
    Ok((operation, flags))
}

/// Returns the text of the last `key=` up to the next space. Names of tasks come first and can contain anything.
fn value<'a>(payload: &'a str, key: &str) -> Result<&'a str, String> {
    let wanted = format!(" {key}=");
    let start = match payload.rfind(&wanted) {
        Some(at) => at + wanted.len(),
        None if payload.starts_with(&wanted[1..]) => wanted.len() - 1,
        None => return Err(format!("expected `{key}=`")),
    };
    Ok(payload[start..].split(' ').next().unwrap_or_default())
}

fn number_of<T: core::str::FromStr>(text: &str, name: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected a number for the {name}, found `{text}`"))
}

/// Converts seconds with a fraction of one to nine digits, or nanoseconds.
fn nanoseconds(time: &str) -> Result<u64, String> {
    let fault = || format!("expected seconds with a fraction or nanoseconds, found `{time}`");
    let Some((seconds, fraction)) = time.split_once('.') else { return time.parse().map_err(|_| fault()) };
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(fault());
    }
    let seconds: u64 = seconds.parse().map_err(|_| fault())?;
    let fraction: u64 = format!("{fraction:0<9}").parse().map_err(|_| fault())?;
    seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(fraction)).ok_or_else(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUE: &str = "   jbd2/nullb0-8-166     [000] .....    51.811946: block_rq_issue: 254,0 WSM 4096 () 524288 + 8 \
                         be,0,3 [jbd2/nullb0-8]";

    #[test]
    fn an_issued_request_keeps_its_task_time_and_flags() {
        let events = parse(ISSUE).unwrap();
        let event = &events[0];
        assert_eq!((event.task.as_str(), event.pid, event.at_ns), ("jbd2/nullb0-8", 166, 51_811_946_000));
        let Content::Issue { direction, flags, sector, sectors, .. } = event.content else {
            panic!("{event:?}")
        };
        assert_eq!((direction, sector, sectors), (Direction::Write, 524_288, 8));
        assert!(flags.sync && flags.meta && !flags.read_ahead);
    }

    #[test]
    fn a_completion_of_a_flush_without_a_sector_is_accepted() {
        let line = "  <idle>-0  [000] d.h1.  5.5: block_rq_complete: 254,0 FF () 18446744073709551615 + 0 none,0,0 [0]";
        let event = parse(line).unwrap().remove(0);
        assert_eq!(event.context, Context::HardInterrupt);
        assert_eq!(event.at_ns, 5_500_000_000);
        assert!(matches!(event.content, Content::Complete { direction: Direction::Flush, error: 0, .. }));
    }

    #[test]
    fn names_of_tasks_may_contain_spaces_brackets_and_keys() {
        let line = " a [1] pid=7-9  [000] d..2.  1.000001: sched_switch: prev_comm=a pid=7 prev_pid=9 prev_prio=120 \
                    prev_state=D ==> next_comm=x next_pid=3 next_pid=4 next_prio=120";
        let event = parse(line).unwrap().remove(0);
        assert_eq!((event.pid, event.task.as_str()), (9, "a [1] pid=7"));
        assert_eq!(event.content, Content::Switch { state: 'D', next: 4 });
    }

    fn content(event: &str) -> Content {
        parse(&format!(" a-1 [000] d.s1. 9416473848: {event}")).unwrap().remove(0).content
    }

    #[test]
    fn work_items_and_timers_are_identified_by_their_addresses() {
        let queued =
            "workqueue_queue_work: work struct=ffff88800b411d88 function=wb_workfn workqueue=writeback";
        assert_eq!(content(queued), Content::QueueWork { work: 0xffff_8880_0b41_1d88 });
        let begun = "workqueue_execute_start: work struct ffff88800b411d88: function wb_workfn";
        assert_eq!(content(begun), Content::BeginWork { work: 0xffff_8880_0b41_1d88 });
        let armed =
            "timer_start: timer=ffffc90000367bf0 function=process_timeout expires=4294894441 [timeout=1]";
        assert_eq!(content(armed), Content::ArmTimer { timer: 0xffff_c900_0036_7bf0 });
        let hidden = parse(" a-1 [000] ..... 1: timer_start: timer=(____ptrval____) function=x").unwrap_err();
        assert_contains(&hidden.to_string(), "no_hash_pointers");
    }

    #[test]
    fn calls_that_make_data_durable_are_operations_and_other_calls_are_not() {
        assert_eq!(content("sys_fdatasync(fd: 1)"), Content::BeginSync);
        assert_eq!(content("sys_sync()"), Content::BeginSync);
        assert_eq!(content("sys_fdatasync -> 0x0"), Content::EndSync);
        assert_eq!(parse(" a-1 [000] ..... 1: sys_read(fd: 1)").unwrap(), []);
    }

    #[test]
    fn a_time_stamp_without_a_fraction_counts_nanoseconds() {
        let event = parse(" a-1 [000] ..s1. 9416473848: timer_expire_exit: timer=0").unwrap().remove(0);
        assert_eq!((event.at_ns, event.context), (9_416_473_848, Context::SoftInterrupt));
    }

    #[test]
    fn a_buffer_that_lost_events_is_refused() {
        assert!(parse("# entries-in-buffer/entries-written: 4211/4211   #P:1").is_ok());
        let fault = parse("# entries-in-buffer/entries-written: 4211/9000   #P:1").unwrap_err().to_string();
        assert_contains(&fault, "line 1 of the trace: the kernel lost events");
    }

    #[test]
    fn faults_name_their_line() {
        let fault = |text: &str| parse(text).unwrap_err().to_string();
        assert_contains(&fault("\nCPU:0 [LOST 12 EVENTS]"), "line 2 of the trace: the kernel lost events");
        assert_contains(
            &fault(&ISSUE.replace("[000]", "[001]")),
            "line 1 of the trace: an event of a second processor",
        );
        assert_contains(&fault(&ISSUE.replace("WSM", "XSM")), "unknown operation `XSM`");
        assert_contains(&fault(&ISSUE.replace("+ 8", "+ eight")), "found `eight`");
        assert_contains(
            &fault(&ISSUE.replace("51.811946", "99999999999999.0")),
            "expected seconds with a fraction or nanoseconds",
        );
        assert_contains(&fault("garbage"), "expected `task-pid [processor]");
    }

    fn assert_contains(found: &str, part: &str) {
        assert!(found.contains(part), "{found}");
    }

    #[test]
    fn parsing_a_prefix_of_a_line_does_not_panic() {
        for end in 0..ISSUE.len() {
            let _ = parse(&ISSUE[..end]);
        }
    }
}
