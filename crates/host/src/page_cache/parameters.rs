//! Parameters of the page cache: Linux's sysctls and queue limits, and the processor time of calls.

use flashlab_flash::Impossible;
use flashlab_sim::Duration;

/// Size of a page in bytes.
pub const PAGE: u64 = 4096;

/// The page cache of a host as its profile describes it. `None` stands for the value of [`Settings::linux`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageCacheParameters {
    /// Memory for cached pages in bytes; `None` means that the host's page cache is unknown, and buffered jobs are
    /// refused.
    pub memory: Option<u64>,
    /// `vm.dirty_background_ratio` in per cent of the memory.
    pub dirty_background: Option<u32>,
    /// `vm.dirty_ratio` in per cent of the memory.
    pub dirty: Option<u32>,
    /// `vm.dirty_writeback_centisecs`.
    pub writeback_interval: Option<Duration>,
    /// `vm.dirty_expire_centisecs`.
    pub expire: Option<Duration>,
    /// `queue/read_ahead_kb` in bytes.
    pub read_ahead: Option<u64>,
    /// `queue/max_sectors_kb` in bytes; the limit of the device applies as well.
    pub request_max: Option<u64>,
    /// Number of requests that the driver takes at a time; the others wait in the scheduler.
    pub tags: Option<u32>,
    /// Number of processors.
    pub processors: Option<u32>,
    /// Processor time of a call, including the time that the program uses before its next call.
    pub t_call: Option<Duration>,
    /// Processor time for each page that a call copies.
    pub t_page: Option<Duration>,
    /// Processor time to write a page back.
    pub t_writeback: Option<Duration>,
    /// Processor time to submit all requests of a plug, or a flush, to the block layer.
    pub t_submit: Option<Duration>,
}

impl PageCacheParameters {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns the first parameter that the model does not support.
    pub fn check(&self) -> Result<(), Impossible> {
        let Some(settings) = self.settings() else { return Ok(()) };
        if settings.dirty_background >= settings.dirty {
            return Err(Impossible::new("cache.dirty_background", "is not below cache.dirty"));
        }
        for (path, bytes) in
            [("cache.read_ahead", settings.read_ahead), ("cache.request_max", settings.request_max)]
        {
            if !bytes.is_multiple_of(PAGE) {
                return Err(Impossible::new(path, "is not a whole number of pages of 4 KiB"));
            }
        }
        Ok(())
    }

    /// Returns the number of processors, also of a host whose page cache is unknown.
    pub fn processors(&self) -> u32 {
        self.processors.unwrap_or(Settings::linux(0).processors)
    }

    /// Returns the settings, with Linux's defaults for parameters that are not set. Returns `None` if the host's page
    /// cache is unknown.
    pub fn settings(&self) -> Option<Settings> {
        let linux = Settings::linux(self.memory?);
        Some(Settings {
            memory: linux.memory,
            dirty_background: self.dirty_background.unwrap_or(linux.dirty_background),
            dirty: self.dirty.unwrap_or(linux.dirty),
            writeback_interval: self.writeback_interval.unwrap_or(linux.writeback_interval),
            expire: self.expire.unwrap_or(linux.expire),
            read_ahead: self.read_ahead.unwrap_or(linux.read_ahead),
            request_max: self.request_max.unwrap_or(linux.request_max),
            tags: self.tags.unwrap_or(linux.tags),
            processors: self.processors(),
            t_call: self.t_call.unwrap_or(linux.t_call),
            t_page: self.t_page.unwrap_or(linux.t_page),
            t_writeback: self.t_writeback.unwrap_or(linux.t_writeback),
            t_submit: self.t_submit.unwrap_or(linux.t_submit),
        })
    }
}

/// The page cache of a host, with a value for every parameter of [`PageCacheParameters`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Memory for cached pages in bytes.
    pub memory: u64,
    /// Share of the memory in per cent above which dirty pages are written back.
    pub dirty_background: u32,
    /// Share of the memory in per cent that dirty pages and pages under write-back may occupy.
    pub dirty: u32,
    /// Time between two searches for expired pages.
    pub writeback_interval: Duration,
    /// Age at which a file's pages are written back.
    pub expire: Duration,
    /// Largest read-ahead window in bytes, before `POSIX_FADV_SEQUENTIAL` doubles it.
    pub read_ahead: u64,
    /// Largest request of the block layer in bytes.
    pub request_max: u64,
    /// Number of requests that the driver takes at a time.
    pub tags: u32,
    /// Number of processors. When all of them are busy, calls and write-back wait for the first that is free.
    pub processors: u32,
    /// Processor time of a call, including the time that the program uses before its next call.
    pub t_call: Duration,
    /// Processor time for each page that a call copies.
    pub t_page: Duration,
    /// Processor time to write a page back.
    pub t_writeback: Duration,
    /// Processor time to submit all requests of a plug, or a flush, to the block layer.
    pub t_submit: Duration,
}

impl Settings {
    /// Returns Linux's defaults with `memory` bytes for pages. The processor times are those of the recorded guest, which
    /// executes 1e9 instructions a second (docs/buffered.md).
    pub fn linux(memory: u64) -> Settings {
        Settings {
            memory,
            dirty_background: 10,
            dirty: 20,
            writeback_interval: Duration::from_secs(5),
            expire: Duration::from_secs(30),
            read_ahead: 128 << 10,
            request_max: 1280 << 10,
            tags: 2,
            processors: 4,
            t_call: Duration::from_ns(7_070),
            t_page: Duration::from_ns(1_940),
            t_writeback: Duration::from_ns(12_150),
            t_submit: Duration::from_ns(17_400),
        }
    }

    /// Returns the number of pages that fit into the memory.
    pub(super) fn pages(&self) -> u64 {
        self.memory / PAGE
    }
}
