//! Causes in short traces.

use super::*;
use crate::capture::parse;

const LATENCY: Duration = Duration::from_us(100);

fn recording(text: &str) -> Recording {
    derive(Header::default(), LATENCY, &parse(text).unwrap()).unwrap()
}

fn fault(text: &str) -> String {
    derive(Header::default(), LATENCY, &parse(text).unwrap()).unwrap_err().to_string()
}

fn line(task: &str, context: char, us: u64, event: &str) -> String {
    format!(" {task} [000] d.{context}1. 1.{us:06}: {event}\n")
}

fn issue(task: &str, us: u64, letters: &str, sector: u64) -> String {
    line(task, '.', us, &format!("block_rq_issue: 254,0 {letters} 4096 () {sector} + 8 be,0,4 [x]"))
}

fn complete(us: u64, letters: &str, sector: u64) -> String {
    line("<idle>-0", 'h', us, &format!("block_rq_complete: 254,0 {letters} () {sector} + 8 be,0,4 [0]"))
}

fn waking(task: &str, context: char, us: u64, pid: u32) -> String {
    line(task, context, us, &format!("sched_waking: comm=x pid={pid} prio=120 target_cpu=000"))
}

fn switch(task: &str, us: u64, state: char, next: u32) -> String {
    let (_, pid) = task.rsplit_once('-').unwrap();
    let event = format!("sched_switch: prev_comm=x prev_pid={pid} prev_prio=120 prev_state={state} ==> ");
    line(task, '.', us, &(event + &format!("next_comm=x next_pid={next} next_prio=120")))
}

fn step(back: u32, event: Event, us: u64) -> Cause {
    Cause::Step { back, event, think: Duration::from_us(us) }
}

#[test]
fn the_think_time_after_a_completion_excludes_the_latency_of_the_device() {
    let text = issue("a-1", 0, "R", 0)
        + &switch("a-1", 10, 'D', 0)
        + &complete(130, "R", 0)
        + &waking("<idle>-0", 'h', 135, 1)
        + &switch("<idle>-0", 140, 'R', 1)
        + &issue("a-1", 150, "R", 8);
    // The device takes 100 us, so 50 us of the 150 us are processor time.
    let text = text + &complete(260, "R", 8);
    assert_eq!(recording(&text).steps[1].causes, [step(1, Event::Completed, 50)]);
}

#[test]
fn a_task_that_wakes_another_one_passes_its_cause_on() {
    let text = issue("a-1", 0, "W", 0)
        + &switch("a-1", 10, 'D', 0)
        + &complete(100, "W", 0)
        + &waking("<idle>-0", 'h', 101, 1)
        + &switch("<idle>-0", 102, 'R', 1)
        + &waking("a-1", '.', 110, 2)
        + &switch("a-1", 111, 'S', 2)
        + &issue("b-2", 120, "W", 8)
        + &complete(220, "W", 8);
    assert_eq!(recording(&text).steps[1].causes, [step(1, Event::Completed, 20)]);
}

#[test]
fn a_timer_is_an_instant_for_an_idle_thread_and_a_sleep_for_other_tasks() {
    let woken_in = |state| {
        let text = issue("a-1", 0, "W", 0)
            + &complete(100, "W", 0)
            + &switch("a-1", 200, state, 0)
            + &waking("<idle>-0", 'h', 5_000, 1)
            + &switch("<idle>-0", 5_001, 'R', 1)
            + &issue("a-1", 5_010, "W", 8)
            + &complete(5_110, "W", 8);
        recording(&text).steps[1].causes.clone()
    };
    assert_eq!(woken_in('I'), [Cause::Instant(Duration::from_us(5_010))]);
    assert_eq!(woken_in('S'), [step(1, Event::Started, 5_010)]);
}

#[test]
fn a_new_task_continues_the_task_that_created_it() {
    let text = issue("a-1", 0, "W", 0)
        + &line("a-1", '.', 10, "sched_wakeup_new: comm=x pid=7 prio=120 target_cpu=000")
        + &switch("a-1", 20, 'S', 7)
        + &issue("b-7", 30, "W", 8)
        + &complete(100, "W", 0)
        + &complete(130, "W", 8);
    assert_eq!(recording(&text).steps[1].causes, [step(1, Event::Started, 30)]);
}

#[test]
fn a_task_waits_for_all_its_synchronous_requests_and_for_no_other() {
    let first_two = |letters: &str| {
        let text = issue("a-1", 0, letters, 0)
            + &issue("a-1", 5, "WS", 8)
            + &switch("a-1", 10, 'D', 0)
            + &complete(100, letters, 0)
            + &complete(105, "WS", 8)
            + &waking("<idle>-0", 'h', 106, 1)
            + &switch("<idle>-0", 108, 'R', 1)
            + &issue("a-1", 115, "WS", 16)
            + &complete(215, "WS", 16);
        recording(&text).steps[2].causes.clone()
    };
    assert_eq!(first_two("WS"), [step(1, Event::Completed, 10), step(2, Event::Completed, 10)]);
    assert_eq!(first_two("W"), [step(1, Event::Completed, 10)]);
}

#[test]
fn marks_become_steps_of_their_task() {
    let text = line("a-1", '.', 0, "tracing_mark_write: flashlab:op-begins") + &issue("a-1", 5, "FF", 0);
    let text = text + &complete(105, "FF", 0) + &line("a-1", '.', 110, "tracing_mark_write: other");
    let recording = recording(&text);
    assert_eq!(recording.tasks, ["a"]);
    assert_eq!(recording.steps.len(), 2);
    assert_eq!(recording.steps[0].action, Action::Mark(MarkKind::OperationBegins));
}

#[test]
fn unusable_traces_are_errors_with_a_line() {
    let whole = issue("a-1", 0, "W", 0) + &complete(100, "W", 0);
    assert!(fault("").contains("no request"));
    assert!(
        fault(&issue("a-1", 0, "W", 8)).contains("line 1 of the trace: the request at sector 8 does not")
    );
    assert!(
        fault(&whole.replace("[0]", "[-5]")).contains("line 2 of the trace: the request at sector 0 failed")
    );
    assert!(
        fault(&(whole.clone() + &issue("a-1", 9, "W", 0))).contains("line 3 of the trace: time goes back")
    );
    assert!(fault(&(whole.clone() + &issue("a-1", 200, "W", u64::MAX))).contains("beyond 16 EiB"));
    let other = issue("a-1", 200, "W", 0).replace("254,0", "254,1");
    assert!(fault(&(whole + &other)).contains("second device, 254:1"));
}

#[test]
fn a_work_item_continues_the_task_that_queued_it_and_not_its_worker() {
    let text = issue("a-1", 0, "W", 0)
        + &issue("kworker/0:1-5", 20, "W", 8)
        + &line("a-1", '.', 30, "workqueue_queue_work: work struct=ff00 function=f workqueue=w")
        + &line("kworker/0:1-5", '.', 40, "workqueue_execute_start: work struct ff00: function f")
        + &issue("kworker/0:1-5", 50, "W", 16)
        + &complete(100, "W", 0)
        + &complete(120, "W", 8)
        + &complete(150, "W", 16);
    assert_eq!(recording(&text).steps[2].causes, [step(2, Event::Started, 50)]);
}

#[test]
fn a_request_that_a_worker_issues_belongs_to_the_task_that_obtained_it() {
    let text = line("a-1", '.', 0, "block_getrq: 254,0 RS 0 + 8 [a]")
        + &line("a-1", '.', 1, "block_getrq: 254,0 RS 8 + 8 [a]")
        + &issue("kworker/0:1-5", 10, "RS", 0)
        + &issue("kworker/0:1-5", 12, "RS", 8)
        + &complete(110, "RS", 0)
        + &complete(112, "RS", 8)
        + &waking("<idle>-0", 'h', 113, 1)
        + &switch("<idle>-0", 114, 'R', 1)
        + &issue("a-1", 120, "RS", 16)
        + &complete(220, "RS", 16);
    let recording = recording(&text);
    let names: Vec<_> = recording.steps.iter().map(|step| &recording.tasks[step.task.0 as usize]).collect();
    assert_eq!(names, ["a", "a", "a"]);
    // The task waits for both requests, although another one issued them.
    assert_eq!(recording.steps[2].causes, [step(1, Event::Completed, 8), step(2, Event::Completed, 8)]);
}

#[test]
fn delayed_work_starts_some_time_after_the_write_that_armed_its_timer() {
    let text = issue("a-1", 0, "W", 0)
        + &complete(100, "W", 0)
        + &waking("<idle>-0", 'h', 101, 1)
        + &switch("<idle>-0", 102, 'R', 1)
        + &line("a-1", '.', 150, "timer_start: timer=ff01 function=delayed_work_timer_fn expires=9")
        + &line(
            "<idle>-0",
            's',
            5_000,
            "timer_expire_entry: timer=ff01 function=delayed_work_timer_fn now=9",
        )
        + &line(
            "<idle>-0",
            's',
            5_001,
            "workqueue_queue_work: work struct=ff02 function=wb_workfn workqueue=w",
        )
        + &line("<idle>-0", 's', 5_002, "timer_expire_exit: timer=ff01")
        + &line("kworker/0:1-5", '.', 5_010, "workqueue_execute_start: work struct ff02: function wb_workfn")
        + &issue("kworker/0:1-5", 5_020, "W", 8)
        + &complete(5_120, "W", 8);
    assert_eq!(recording(&text).steps[1].causes, [step(1, Event::Completed, 4_920)]);
}

#[test]
fn a_timer_does_not_take_the_preceding_completion_as_its_cause() {
    let text = issue("a-1", 0, "W", 0)
        + &switch("b-2", 10, 'I', 0)
        + &complete(100, "W", 0)
        + &line("<idle>-0", 'h', 101, "hrtimer_expire_exit: hrtimer=ff00")
        + &waking("<idle>-0", 'h', 102, 2)
        + &switch("<idle>-0", 103, 'R', 2)
        + &issue("b-2", 110, "W", 8)
        + &complete(210, "W", 8);
    assert_eq!(recording(&text).steps[1].causes, [Cause::Instant(Duration::from_us(110))]);
}

#[test]
fn a_parent_that_polls_continues_the_child_that_ended() {
    let text = issue("fio-1", 0, "R", 0)
        + &complete(100, "R", 0)
        + &line("fio-1", '.', 110, "sched_wakeup_new: comm=fio pid=7 prio=120 target_cpu=000")
        + &switch("fio-1", 120, 'S', 7)
        + &issue("fio-7", 130, "W", 8)
        + &switch("fio-7", 140, 'D', 0)
        + &complete(230, "W", 8)
        + &waking("<idle>-0", 'h', 231, 7)
        + &switch("<idle>-0", 232, 'R', 7)
        + &line("fio-7", '.', 250, "sched_process_exit: comm=fio pid=7 prio=120")
        + &switch("fio-7", 260, 'Z', 0)
        + &waking("<idle>-0", 'h', 900, 1)
        + &switch("<idle>-0", 901, 'R', 1)
        + &issue("fio-1", 930, "W", 16)
        + &complete(1_030, "W", 16);
    assert_eq!(recording(&text).steps[2].causes, [step(1, Event::Completed, 700)]);
}

#[test]
fn a_request_that_a_busy_driver_returns_is_one_step_with_its_first_cause() {
    let text = issue("a-1", 0, "W", 0)
        + &issue("a-1", 10, "W", 8)
        + &line("a-1", '.', 12, "block_rq_requeue: 254,0 W () 8 + 8 be,0,4 [0]")
        + &complete(100, "W", 0)
        + &issue("kworker/0:1H-5", 105, "W", 8)
        + &complete(215, "W", 8)
        + &waking("<idle>-0", 'h', 216, 1)
        + &switch("<idle>-0", 217, 'R', 1)
        + &issue("a-1", 225, "W", 16)
        + &complete(325, "W", 16);
    let recording = recording(&text);
    assert_eq!(recording.steps.len(), 3);
    assert_eq!(recording.steps[1].causes, [step(1, Event::Started, 10)]);
    // The device completes the request 100 us after the second issue.
    assert_eq!(recording.steps[2].causes, [step(1, Event::Completed, 20)]);
}

#[test]
fn system_calls_are_operations_unless_the_workload_marks_its_own() {
    let call = line("a-1", '.', 0, "sys_fsync(fd: 1)")
        + &issue("a-1", 5, "FF", 0)
        + &complete(105, "FF", 0)
        + &line("a-1", '.', 110, "sys_fsync -> 0x0");
    let marks = |text: &str| {
        let steps = recording(text).steps;
        steps.iter().filter(|step| matches!(step.action, Action::Mark(_))).count()
    };
    assert_eq!(marks(&call), 2);
    assert_eq!(marks(&(call + &line("a-1", '.', 120, "tracing_mark_write: flashlab:op-begins"))), 1);
}
