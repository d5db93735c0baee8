//! Parameters of an SSD that the profile states in another form than the model: with defaults that depend on
//! other parameters, as words, or in other units.

use flashlab_flash::Impossible;
use flashlab_flash::nand::{Endurance, Reliability, Suspend};
use flashlab_nvme::hmb::PAGE;
use flashlab_sim::Duration;

/// The values as the profile states them. [`super::parameters_of`] converts the values to fields of
/// [`SsdParameters`](flashlab_nvme::SsdParameters).
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct OptionalSsdParameters {
    pub(super) t_prog: [Option<Duration>; 3],
    pub(super) t_read_slc: Option<Duration>,
    pub(super) t_prog_slc: Option<Duration>,
    pub(super) suspend: SuspendTarget,
    pub(super) t_suspend: Option<Duration>,
    pub(super) t_resume: Option<Duration>,
    pub(super) slc_blocks: Option<u32>,
    pub(super) slc_fold_ppm: Option<u32>,
    pub(super) hmb_preferred: u64,
    pub(super) hmb_minimum: u64,
    pub(super) program_fail: Option<f64>,
    pub(super) erase_fail: Option<f64>,
    pub(super) fresh: Option<f64>,
    pub(super) worn: Option<f64>,
    pub(super) cycles_exponent: Option<f64>,
    pub(super) doubling: Option<Duration>,
    pub(super) age_exponent: Option<f64>,
    pub(super) codeword_bits: Option<u32>,
    pub(super) correctable: Option<u32>,
    pub(super) codewords: Option<u32>,
    pub(super) retries_max: Option<u32>,
    pub(super) retry_gain: Option<f64>,
}

/// Operations that an urgent read suspends on its die.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum SuspendTarget {
    /// No operation.
    #[default]
    Nothing,
    /// Programs.
    Programs,
    /// Erases.
    Erases,
    /// Programs and erases.
    Both,
}

/// Converts bytes of host memory to pages.
pub(super) fn pages(path: &'static str, bytes: u64) -> Result<u32, Impossible> {
    match u32::try_from(bytes / PAGE) {
        Ok(pages) if bytes.is_multiple_of(PAGE) => Ok(pages),
        _ => Err(Impossible::new(path, format!("is not a multiple of the host's memory page, {PAGE} B"))),
    }
}

/// Converts a probability to parts per billion, the resolution of the random draws.
fn billionths(path: &'static str, probability: f64) -> Result<u32, Impossible> {
    if probability >= 1.0 {
        let why = "is not below 1, so that no operation would ever succeed; expected for example 1e-6";
        return Err(Impossible::new(path, why));
    }
    let billionths = probability * 1e9;
    let whole = billionths.round();
    if (billionths - whole).abs() > 1e-6 {
        let why = "is not a multiple of 1e-9, the resolution of the random draws; expected for example 1e-6";
        return Err(Impossible::new(path, why));
    }
    Ok(whole as u32)
}

impl OptionalSsdParameters {
    /// Returns the endurance of the erase blocks, including the failures of single operations.
    pub(super) fn endurance(&self, wear: Option<Endurance>) -> Result<Option<Endurance>, Impossible> {
        let failures = [("wear.program_fail", self.program_fail), ("wear.erase_fail", self.erase_fail)];
        let [program_fail, erase_fail] = failures.map(|(path, share)| billionths(path, share.unwrap_or(0.0)));
        let (program_fail_ppb, erase_fail_ppb) = (program_fail?, erase_fail?);
        if wear.is_none() && program_fail_ppb == 0 && erase_fail_ppb == 0 {
            return Ok(None);
        }
        let wear = wear.unwrap_or(Endurance::exactly(Endurance::UNLIMITED));
        Ok(Some(Endurance { program_fail_ppb, erase_fail_ppb, ..wear }))
    }

    pub(super) fn suspend(&self) -> Result<Option<Suspend>, Impossible> {
        let (programs, erases) = match self.suspend {
            SuspendTarget::Nothing => return Ok(None),
            SuspendTarget::Programs => (true, false),
            SuspendTarget::Erases => (false, true),
            SuspendTarget::Both => (true, true),
        };
        let missing = |path| Impossible::new(path, "is missing; scheduling.suspend requires it");
        Ok(Some(Suspend {
            t_suspend: self.t_suspend.ok_or_else(|| missing("scheduling.t_suspend"))?,
            t_resume: self.t_resume.ok_or_else(|| missing("scheduling.t_resume"))?,
            programs,
            erases,
        }))
    }

    pub(super) fn reliability(&self) -> Result<Option<Reliability>, Impossible> {
        let Some(fresh) = self.fresh else { return Ok(None) };
        fn needed<T>(path: &'static str, value: Option<T>) -> Result<T, Impossible> {
            value.ok_or_else(|| {
                Impossible::new(path, "is missing; reliability.fresh requires all parameters of its section")
            })
        }
        Ok(Some(Reliability {
            fresh,
            worn: needed("reliability.worn", self.worn)?,
            cycles_exponent: needed("reliability.cycles_exponent", self.cycles_exponent)?,
            doubling: needed("reliability.doubling", self.doubling)?,
            age_exponent: needed("reliability.age_exponent", self.age_exponent)?,
            codeword_bits: needed("reliability.codeword_bits", self.codeword_bits)?,
            correctable: needed("reliability.correctable", self.correctable)?,
            codewords: needed("reliability.codewords", self.codewords)?,
            retries_max: needed("reliability.retries_max", self.retries_max)?,
            retry_gain: needed("reliability.retry_gain", self.retry_gain)?,
        }))
    }
}
