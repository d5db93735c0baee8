//! `error`: makes requests fail. Rules select requests by kind, range, count and seeded probability, and may change
//! while the device is in use. A request that fails is not passed on, so it has no effect.
//!
//! A rule consists of words, each of which appears at most once:
//!
//! - the kinds of requests that fail: `read`, `write`, `flush`, `discard`, `write-zeroes`, or several joined with `|`
//!   (by default, all of these)
//! - `at=FIRST+LENGTH`: a range in bytes; the rule then selects the requests that overlap this range, and no
//!   flushes
//! - `after=N`: the number of matching requests that pass first
//! - `times=N`: the maximum number of requests that fail
//! - `rate=P`: the share of matching requests that fail, between 0 and 1
//! - the error: `EIO` (the default), `ENOSPC`, `EPERM`, `ENOMEM`, `EINVAL` or `ESHUTDOWN`

use super::{Kind, LayerError, LayerKind, Opened, Settings, forward};
use crate::{BlockDevice, Context, Features, Io, IoError, Started, read_whole_text};
use flashlab_sim::Rng;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Registry entry of `error`.
pub(super) const KIND: LayerKind = LayerKind {
    name: "error",
    keys: &["on", "at", "after", "times", "rate", "error", "seed", "rules"],
    example: "rate=0.01",
    open: |inner, settings| {
        let seed = settings.count("seed")?.unwrap_or(settings.seed);
        let faults = Arc::new(Faults::new(inner, rules(settings)?, seed));
        Ok(Opened { device: faults.clone(), faults: Some(faults), stats: None })
    },
};

/// Maximum size in bytes of a file of rules.
const RULES_BYTES_MAX: u64 = 16 << 20;
const MILLION: u64 = 1_000_000;
/// Range of a rule without `at`.
const EVERYWHERE: Range<u64> = 0..u64::MAX;

/// A rule: the requests that fail, and their error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    kinds: Vec<Kind>,
    range: Range<u64>,
    /// Share of the selected requests that fail, per million.
    rate: u64,
    after: u64,
    times: u64,
    error: IoError,
    text: String,
}

/// A word that makes a rule invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaultError {
    /// The word is not part of a rule.
    Unknown(String),
    /// The rate is not between 0 and 1, or rounds to no failure per million requests.
    Rate(String),
    /// An earlier word sets the same part of the rule.
    Repeated(String),
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultError::Unknown(word) => write!(
                f,
                "{word:?} is not part of a rule; for example: read|write at=0+4096 after=10 times=1 rate=0.5 EIO"
            ),
            FaultError::Rate(word) => {
                write!(f, "{word}: the share of requests that fail must be 0, or between 0.000001 and 1")
            }
            FaultError::Repeated(word) => {
                write!(f, "{word:?} repeats a setting; a rule has each setting only once")
            }
        }
    }
}

impl std::error::Error for FaultError {}

impl FromStr for Fault {
    type Err = FaultError;
    fn from_str(text: &str) -> Result<Fault, FaultError> {
        let kinds = vec![Kind::Read, Kind::Write, Kind::Flush, Kind::Discard, Kind::WriteZeroes];
        let mut fault = Fault {
            kinds,
            range: EVERYWHERE,
            rate: MILLION,
            after: 0,
            times: u64::MAX,
            error: IoError::Medium,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let mut seen = Vec::new();
        for word in text.split_whitespace() {
            let shown = || word.chars().take(40).collect::<String>();
            let part = fault.apply_word(word).ok_or_else(|| match word.starts_with("rate=") {
                true => FaultError::Rate(shown()),
                false => FaultError::Unknown(shown()),
            })?;
            if seen.contains(&part) {
                return Err(FaultError::Repeated(shown()));
            }
            seen.push(part);
        }
        Ok(fault)
    }
}

impl Fault {
    /// Applies a word to the rule. Returns the name of the part that the word sets.
    fn apply_word(&mut self, word: &str) -> Option<&'static str> {
        let number = |text: &str| text.parse::<u64>().ok();
        let Some((key, value)) = word.split_once('=') else {
            if let Some(error) = error(word) {
                self.error = error;
                return Some("error");
            }
            self.kinds = kinds(word)?;
            return Some("kinds");
        };
        match key {
            "at" => {
                let (first, length) = value.split_once('+')?;
                let first = number(first)?;
                self.range = first..first.checked_add(number(length)?)?;
                Some("at")
            }
            "after" => {
                self.after = number(value)?;
                Some("after")
            }
            "times" => {
                self.times = number(value)?;
                Some("times")
            }
            "rate" => {
                let rate: f64 = value.parse().ok().filter(|rate| (0.0..=1.0).contains(rate))?;
                self.rate = (rate * MILLION as f64).round() as u64;
                (self.rate > 0 || rate == 0.0).then_some("rate")
            }
            _ => None,
        }
    }

    /// Returns true if this rule makes the request fail. Counts the request towards `after` and `times`.
    fn hits(&mut self, kind: Kind, range: Option<(u64, u64)>, rng: &mut Rng) -> bool {
        let intersects = match range {
            Some((offset, length)) => {
                offset < self.range.end && self.range.start < offset.saturating_add(length)
            }
            // A flush has no range, so a rule with `at` does not select it.
            None => self.range == EVERYWHERE,
        };
        if !intersects || !self.kinds.contains(&kind) || self.times == 0 {
            return false;
        }
        if self.after > 0 {
            self.after -= 1;
            return false;
        }
        let hit = rng.below(MILLION) < self.rate;
        if hit && self.times < u64::MAX {
            self.times -= 1;
        }
        hit
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the rules of the settings: the rules of a file, and one rule from the other keys. Without any rule, no
/// request fails until `flashlab ctl SOCKET fault` adds one.
fn rules(settings: &Settings<'_>) -> Result<Vec<Fault>, LayerError> {
    let mut rules = Vec::new();
    if let Some(path) = settings.value("rules").map(Path::new) {
        let failed = |line, why| LayerError::File { path: path.to_owned(), line, why };
        let text = read_whole_text(path, RULES_BYTES_MAX).map_err(|error| failed(None, error.to_string()))?;
        for (line, text) in (1..).zip(text.lines()) {
            let rule = text.split('#').next().unwrap_or_default().trim();
            if !rule.is_empty() {
                let rule = rule.parse::<Fault>();
                rules.push(rule.map_err(|error| failed(Some(line), error.to_string()))?);
            }
        }
    }
    let mut words = Vec::new();
    // Within a rule, only the word itself distinguishes a kind of request from an error, so each key checks
    // its own value first.
    for (key, is_valid, expected) in [
        (
            "on",
            (|value| kinds(value).is_some()) as fn(&str) -> bool,
            "a kind of request; for example: read|write",
        ),
        ("error", |value| error(value).is_some(), "an error; for example: EIO"),
    ] {
        let Some(value) = settings.value(key) else { continue };
        if !is_valid(value) {
            let shown: String = value.chars().take(40).collect();
            return Err(LayerError::Setting { key: Some(key), why: format!("{shown:?} is not {expected}") });
        }
        words.push(value.to_owned());
    }
    for key in ["at", "after", "times", "rate"] {
        words.extend(settings.value(key).map(|value| format!("{key}={value}")));
    }
    if !words.is_empty() {
        let rule = words.join(" ").parse::<Fault>();
        rules.push(rule.map_err(|error| LayerError::Setting { key: None, why: error.to_string() })?);
    }
    Ok(rules)
}

/// Returns the kinds of requests in a list such as `read|write`.
fn kinds(names: &str) -> Option<Vec<Kind>> {
    let kind = |name: &str| Kind::ALL.into_iter().find(|kind| kind.name() == name);
    names.split('|').map(kind).collect()
}

/// Returns the error with this errno name. Rules cannot inject EOVERFLOW and ENOTSUP: clients take these for a
/// permanent limit of the device, not for a fault.
fn error(name: &str) -> Option<IoError> {
    let injected = |error: &IoError| !matches!(error, IoError::TooLarge | IoError::Unsupported);
    IoError::ALL.into_iter().filter(injected).find(|error| error.errno_name() == name)
}

/// A device whose requests fail according to rules.
pub struct Faults {
    inner: Arc<dyn BlockDevice>,
    rules: Mutex<(Vec<Fault>, Rng)>,
    unplugged: AtomicBool,
}

impl Faults {
    /// Creates the layer over `inner`. `seed` seeds the generator that selects requests at the rate of a rule.
    pub fn new(inner: Arc<dyn BlockDevice>, rules: Vec<Fault>, seed: u64) -> Faults {
        let rules = Mutex::new((rules, Rng::new(seed)));
        Faults { inner, rules, unplugged: AtomicBool::new(false) }
    }

    /// Fails every request with [`IoError::ShuttingDown`] until [`Faults::replug`].
    pub fn unplug(&self) {
        self.unplugged.store(true, Ordering::SeqCst);
    }

    /// Undoes [`Faults::unplug`].
    pub fn replug(&self) {
        self.unplugged.store(false, Ordering::SeqCst);
    }

    /// Returns false between [`Faults::unplug`] and [`Faults::replug`].
    pub fn is_powered(&self) -> bool {
        !self.unplugged.load(Ordering::SeqCst)
    }

    /// Adds a rule.
    pub fn add(&self, fault: Fault) {
        self.lock().0.push(fault);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().0.clear();
    }

    /// Returns the text of each rule.
    pub fn rules(&self) -> Vec<String> {
        self.lock().0.iter().map(Fault::to_string).collect()
    }

    /// Locks the rules. No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, (Vec<Fault>, Rng)> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockDevice for Faults {
    forward!();
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if !self.is_powered() {
            return Started::Done(Err(IoError::ShuttingDown));
        }
        let hit = {
            let (rules, rng) = &mut *self.lock();
            let (kind, range) = (Kind::of(&io), io.range());
            rules.iter_mut().find_map(|rule| rule.hits(kind, range, rng).then_some(rule.error))
        };
        match hit {
            Some(error) => Started::Done(Err(error)),
            None => self.inner.start(cx, io),
        }
    }
}
