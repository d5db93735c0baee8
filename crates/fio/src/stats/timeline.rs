//! Latencies over time in bounded memory: the counts behind a latency heat map.
//!
//! Time is divided into at most [`COLUMNS_MAX`] intervals of one width. A request that completes after that
//! many intervals doubles the width as often as needed, and each doubling merges pairs of intervals. An
//! interval counts its requests by latency in rows, eight to each power of two, so that the bounds of a row
//! are at most 12.5 % or 1 ns apart.

use flashlab_sim::Duration;

/// Maximum number of intervals.
pub const COLUMNS_MAX: usize = 240;
/// Width of an interval before the first doubling.
const INTERVAL_MIN: Duration = Duration::from_us(10);
/// Base-2 logarithm of the rows per power of two.
const ROW_BITS: u32 = 3;

/// The latencies of a series of requests by time of completion.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    interval: Duration,
    columns: Vec<Column>,
}

/// The requests that completed in one interval.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Column {
    /// Number of requests.
    pub count: u64,
    /// Bytes that moved in the interval. The bytes of a request are spread evenly over its latency.
    pub bytes: u64,
    /// Sum of the latencies in nanoseconds.
    sum_ns: u128,
    /// Least latency in nanoseconds, `None` without requests.
    min_ns: Option<u64>,
    /// Greatest latency in nanoseconds.
    pub max_ns: u64,
    /// Number of requests in each row up to the last with a request.
    rows: Vec<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { interval: INTERVAL_MIN, columns: Vec::new() }
    }
}

/// Returns the row of a latency.
fn row_of(ns: u64) -> usize {
    let shift = (ns | 1 << ROW_BITS).ilog2() - ROW_BITS;
    ((shift as usize) << ROW_BITS) + (ns >> shift) as usize
}

/// Returns the least latency of a row in nanoseconds. The row ends before the least latency of the next one.
pub fn row_begin_ns(row: usize) -> u64 {
    const ROWS: usize = 1 << ROW_BITS;
    if row < 2 * ROWS {
        return row as u64;
    }
    let shift = row / ROWS - 1;
    let begin = ((ROWS + row % ROWS) as u128).checked_shl(shift as u32);
    begin.and_then(|begin| u64::try_from(begin).ok()).unwrap_or(u64::MAX)
}

impl Column {
    /// Returns the mean latency in nanoseconds, or `None` without requests.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Returns the middle of the row that holds the given percentile, limited to the least and the greatest
    /// latency. Returns `None` without requests.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let row = self.rows.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        let (begin, end) = (row_begin_ns(row), row_begin_ns(row + 1));
        Some((begin + (end - begin) / 2).clamp(self.min_ns?, self.max_ns))
    }

    /// Returns the rows that have requests, ascending, with their number of requests.
    pub fn rows(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.rows.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    fn record(&mut self, latency: Duration) {
        let ns = latency.as_ns();
        let row = row_of(ns);
        if row >= self.rows.len() {
            self.rows.resize(row + 1, 0);
        }
        self.rows[row] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.min_ns = Some(self.min_ns.map_or(ns, |least| least.min(ns)));
        self.max_ns = self.max_ns.max(ns);
    }

    fn merge(&mut self, other: &Column) {
        if other.rows.len() > self.rows.len() {
            self.rows.resize(other.rows.len(), 0);
        }
        self.rows.iter_mut().zip(&other.rows).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.bytes += other.bytes;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.into_iter().chain(other.min_ns).min();
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

impl Timeline {
    /// Returns the width of an interval.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the intervals in order, from time zero on. An interval may have no requests.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Records a request that completed `at` after time zero.
    pub(super) fn record(&mut self, at: Duration, latency: Duration, bytes: u64) {
        let column = self.column_of(at);
        if column >= self.columns.len() {
            self.columns.resize_with(column + 1, Column::default);
        }
        self.columns[column].record(latency);
        self.spread(at.as_ns(), latency.as_ns(), bytes);
    }

    /// Adds the bytes of a request that completed at `at_ns` to the intervals of its latency. Each interval
    /// gets the difference of the bytes up to its two ends, so that no byte is lost and merged intervals have
    /// the sum of their parts.
    fn spread(&mut self, at_ns: u64, latency_ns: u64, bytes: u64) {
        let interval = self.interval.as_ns();
        let begin = at_ns.saturating_sub(latency_ns);
        let until = |ns: u64| match at_ns - begin {
            0 => bytes,
            span => (u128::from(bytes) * u128::from(ns - begin) / u128::from(span)) as u64,
        };
        let last = at_ns / interval;
        let mut moved = 0;
        for column in begin / interval..=last {
            let end = if column == last { at_ns } else { (column + 1) * interval };
            self.columns[column as usize].bytes += until(end) - moved;
            moved = until(end);
        }
    }

    /// Returns the index of the interval that contains `at`. Doubles the width until the index is below
    /// [`COLUMNS_MAX`].
    fn column_of(&mut self, at: Duration) -> usize {
        loop {
            let column = at.as_ns() / self.interval.as_ns();
            match usize::try_from(column) {
                Ok(column) if column < COLUMNS_MAX => return column,
                _ => self.double(),
            }
        }
    }

    fn double(&mut self) {
        self.interval = self.interval * 2;
        let pairs = std::mem::take(&mut self.columns);
        self.columns = pairs
            .chunks(2)
            .map(|pair| {
                let mut column = pair[0].clone();
                pair[1..].iter().for_each(|second| column.merge(second));
                column
            })
            .collect();
    }

    /// Adds the requests of a job that ran in parallel. The result has the wider intervals of the two.
    pub(super) fn merge(&mut self, other: &Timeline) {
        let mut other = other.clone();
        while self.interval < other.interval {
            self.double();
        }
        while other.interval < self.interval {
            other.double();
        }
        if other.columns.len() > self.columns.len() {
            self.columns.resize_with(other.columns.len(), Column::default);
        }
        self.columns.iter_mut().zip(&other.columns).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_latency_is_between_the_bounds_of_its_row() {
        let mut latencies: Vec<u64> =
            (0..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 3 << bit >> 1]).collect();
        latencies.extend(0..5_000);
        for ns in latencies {
            let row = row_of(ns);
            assert!(row_begin_ns(row) <= ns && ns < row_begin_ns(row + 1), "{ns} is not in row {row}");
        }
        assert!(row_begin_ns(row_of(u64::MAX) + 1) == u64::MAX, "the last row has another end");
    }

    #[test]
    fn an_interval_states_its_mean_and_percentiles() {
        let mut timeline = Timeline::default();
        assert!(timeline.columns().is_empty());
        for us in 1..=100 {
            timeline.record(Duration::from_us(5), Duration::from_us(us), 512);
        }
        let [column] = timeline.columns() else { panic!("one interval") };
        assert_eq!((column.count, column.bytes, column.max_ns), (100, 51_200, 100_000));
        assert_eq!(column.mean_ns(), Some(50_500.0));
        for percent in [1.0, 50.0, 99.0, 100.0] {
            let found = column.percentile_ns(percent).expect("there are requests") as f64;
            assert!((found / (percent * 1_000.0) - 1.0).abs() < 0.0625, "p{percent} is {found}");
        }
        assert_eq!((Column::default().mean_ns(), Column::default().percentile_ns(50.0)), (None, None));
    }

    #[test]
    fn the_bytes_of_a_request_are_spread_over_its_latency() {
        let mut timeline = Timeline::default();
        // From 5 us to 30 us, in intervals of 10 us.
        timeline.record(Duration::from_us(30) - Duration::from_ns(1), Duration::from_us(25), 2_500);
        let bytes: Vec<u64> = timeline.columns().iter().map(|column| column.bytes).collect();
        assert_eq!(bytes, [500, 1_000, 1_000]);
        let counts: Vec<u64> = timeline.columns().iter().map(|column| column.count).collect();
        assert_eq!(counts, [0, 0, 1], "a request counts where it completes");
    }

    #[test]
    fn percentiles_of_equal_latencies_are_that_latency() {
        let mut timeline = Timeline::default();
        for _ in 0..3 {
            timeline.record(Duration::from_us(5), Duration::from_ns(9_010), 512);
        }
        let column = &timeline.columns()[0];
        assert_eq!((column.percentile_ns(50.0), column.percentile_ns(99.0)), (Some(9_010), Some(9_010)));
    }

    proptest! {
        /// The timeline equals one that counts all requests at the final width, however the requests are ordered and
        /// divided between parallel jobs.
        #[test]
        fn doubling_and_merging_lose_no_request(
            requests in prop::collection::vec((1_u64..40_000_000_000, 1_u64..20_000_000_000, 0_usize..3), 1..200)
        ) {
            let mut jobs = [Timeline::default(), Timeline::default(), Timeline::default()];
            for (at, latency, job) in &requests {
                jobs[*job].record(Duration::from_ns(*at), Duration::from_ns(*latency), 1_000);
            }
            let mut whole = Timeline::default();
            jobs.iter().for_each(|job| whole.merge(job));
            prop_assert!(whole.columns().len() <= COLUMNS_MAX);
            let last = requests.iter().map(|(at, ..)| *at).max().unwrap_or(0);
            let wide_enough = |interval: u64| last / interval < COLUMNS_MAX as u64;
            let interval = (0..).map(|i| 10_000_u64 << i).find(|i| wide_enough(*i)).unwrap_or(0);
            prop_assert_eq!(whole.interval().as_ns(), interval);
            let mut expected = vec![Column::default(); (last / interval) as usize + 1];
            for (at, latency, _) in &requests {
                expected[(at / interval) as usize].record(Duration::from_ns(*latency));
            }
            let moved: u64 = whole.columns().iter().map(|column| column.bytes).sum();
            prop_assert_eq!(moved, 1_000 * requests.len() as u64);
            let bytes_at = |column: u64| {
                let until = |ns: u64, (at, latency, _): &(u64, u64, usize)| {
                    let begin = at.saturating_sub(*latency);
                    let within = ns.clamp(begin, *at) - begin;
                    if ns >= *at { 1_000 } else { 1_000 * within / (at - begin) }
                };
                let of = |request| until((column + 1) * interval, request) - until(column * interval, request);
                requests.iter().filter(|(at, ..)| *at >= column * interval).map(of).sum()
            };
            (0_u64..).zip(&mut expected).for_each(|(i, column)| column.bytes = bytes_at(i));
            prop_assert_eq!(whole.columns(), &expected[..]);
        }
    }
}
