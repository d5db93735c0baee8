//! Columns and rows of an experiment of kind `gc`: a policy per column, a fill level and a block size per row.

use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::Streams;

/// Policy for victim selection and for the separation of hot and cold data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Policy {
    pub(super) victim: VictimPolicy,
    pub(super) streams: Streams,
    /// The split of the spare space if hot and cold units have blocks of their own.
    pub(super) pools: Option<Pools>,
}

/// The split of the spare space between a pool of hot and a pool of cold units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pools {
    /// Each pool has the same spare space relative to its units.
    Equal,
    /// The split with the lowest write amplification by the closed form.
    Best,
}

/// Fill level and block size of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Fill {
    /// Spare space as a share of the mapped units.
    pub(super) over_provisioning: f64,
    /// Units per erase block.
    pub(super) pages: u32,
}

/// Splits `key=value,...` into pairs.
fn pairs(keys: &str) -> Result<Vec<(&str, &str)>, String> {
    let pair = |text| match str::split_once(text, '=') {
        Some((key, value)) => Ok((key.trim(), value.trim())),
        None => Err(format!("\"{text}\": expected key=value")),
    };
    keys.split(',').map(pair).collect()
}

impl Policy {
    /// Parses `victim=greedy,streams=two,pools=best`.
    pub(super) fn parse(keys: &str) -> Result<Policy, String> {
        let (mut chosen, mut streams, mut pools) = (None, Streams::One, None);
        for (key, value) in pairs(keys)? {
            let known = match key {
                "victim" => {
                    chosen = VictimPolicy::from_name(value);
                    chosen.is_some()
                }
                "streams" => {
                    let of_name =
                        [("one", Streams::One), ("two", Streams::Two), ("hot-cold", Streams::HotCold)];
                    let found = of_name.iter().find(|(name, _)| *name == value);
                    found.map(|(_, found)| streams = *found).is_some()
                }
                "pools" => {
                    let of_name = [("equal", Pools::Equal), ("best", Pools::Best)];
                    pools = of_name.iter().find(|(name, _)| *name == value).map(|(_, found)| *found);
                    pools.is_some()
                }
                _ => return Err(format!("unknown key {key}; expected victim, streams or pools")),
            };
            if !known {
                return Err(match key {
                    "victim" => {
                        format!("unknown victim {value}; expected one of {}", VictimPolicy::FORMS.join(", "))
                    }
                    "streams" => format!("unknown streams {value}; expected one, two or hot-cold"),
                    _ => format!("unknown pools {value}; expected equal or best"),
                });
            }
        }
        let victim = chosen.ok_or("expected victim=NAME")?;
        if pools.is_some() && !matches!(victim, VictimPolicy::Greedy | VictimPolicy::Fifo) {
            return Err("pools need victim=greedy or victim=fifo".into());
        }
        Ok(Policy { victim, streams, pools })
    }
}

impl Fill {
    /// Parses `over_provisioning=0.07,pages=32`.
    pub(super) fn parse(keys: &str) -> Result<Fill, String> {
        let mut fill = Fill { over_provisioning: 0.0, pages: 0 };
        for (key, value) in pairs(keys)? {
            let wrong = || format!("{key} is {value}; expected a number");
            match key {
                "over_provisioning" => fill.over_provisioning = value.parse().map_err(|_| wrong())?,
                "pages" => fill.pages = value.parse().map_err(|_| wrong())?,
                _ => return Err(format!("unknown key {key}; expected over_provisioning and pages")),
            }
        }
        if !(0.01..=10.0).contains(&fill.over_provisioning) || !(2..=4_096).contains(&fill.pages) {
            return Err("expected over_provisioning from 0.01 to 10 and pages from 2 to 4096".into());
        }
        Ok(fill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_and_fill_levels_are_parsed_and_wrong_ones_are_refused() {
        let policy =
            Policy { victim: VictimPolicy::DChoices { d: 2 }, streams: Streams::HotCold, pools: None };
        assert_eq!(Policy::parse("victim=2-choices,streams=hot-cold"), Ok(policy));
        let fill = Fill { over_provisioning: 0.07, pages: 32 };
        assert_eq!(Fill::parse("over_provisioning=0.07, pages=32"), Ok(fill));
        for wrong in
            ["greedy", "victim=best", "victim=0-choices", "streams=two", "victim=random,pools=best", "x=y"]
        {
            assert!(Policy::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "pages=32", "over_provisioning=0,pages=32", "over_provisioning=x", "rho=0.9"] {
            assert!(Fill::parse(wrong).is_err(), "{wrong}");
        }
    }
}
