//! Comparison of mixes of reads and writes with recorded runs of fio 3.33 (iologs/README.md): both follow the same
//! rule.

use super::fake::{is_read, jobs, run_options};
use super::recorded::numbers;

/// Returns the options of a recorded mix, and a flag per request that is true for a read.
fn recorded(name: &str) -> (String, Vec<bool>) {
    let (options, turns) = numbers(&format!("{name}.turns"));
    let reads = [true, false].into_iter().cycle().zip(turns);
    (options, reads.flat_map(|(reads, turn)| vec![reads; turn as usize]).collect())
}

/// Returns the number of requests that continued in the current direction without a draw. A direction
/// continues while it has fewer requests than its share of those that the other direction had at the change.
/// Each loop begins with a draw.
fn count_without_draw(what: &str, reads: &[bool], percent: usize, loop_requests: usize) -> usize {
    let mut counts = [0, 0];
    let (mut current, mut draw_at, mut found) = (true, 0, 0);
    for (number, &is_read) in reads.iter().enumerate() {
        if number % loop_requests == 0 {
            draw_at = 0;
        }
        if counts[usize::from(current)] < draw_at {
            assert_eq!(is_read, current, "{what}: request {number}, after {counts:?} writes and reads");
            found += 1;
        }
        if is_read != current {
            draw_at = counts[usize::from(current)] * if is_read { percent } else { 100 - percent } / 100;
            current = is_read;
        }
        counts[usize::from(is_read)] += 1;
    }
    found
}

#[test]
fn a_lagging_direction_continues_as_in_fio() {
    for name in ["mixed-97", "mixed-4", "mixed-97-loops"] {
        let (options, theirs) = recorded(name);
        let job = &jobs(&format!("{options} --bs=4k"))[0];
        let (percent, requests) = (job.rw_mix_read as usize, theirs.len() / job.loops as usize);
        assert!(count_without_draw("fio", &theirs, percent, requests) > 10, "{name}");
        let found: usize = (1..=20)
            .map(|seed| {
                let options = format!("{options} --bs=4k --randseed={seed}");
                let ours: Vec<bool> = run_options(&options, 1).requests(0).iter().map(is_read).collect();
                assert_eq!(ours.len(), theirs.len(), "{options}");
                count_without_draw(&options, &ours, percent, requests)
            })
            .sum();
        assert!(found > 20, "{options}: {found} requests of 20 seeds");
    }
}
