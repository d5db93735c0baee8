//! The numbers of a device or a filesystem: the numbers of its profiles, with the changes that its argument
//! makes.

use super::argument::{Argument, ArgumentError, ArgumentProblem, Settings};
use crate::profile::{Kind, Number, Parameter, Parts, Profile, Source};
use crate::provenance;
use std::collections::BTreeMap;

/// A number and the profile that it belongs to.
#[derive(Clone, PartialEq, Debug)]
pub struct SourcedNumber {
    /// Name of the profile with its folder: `sd/kingston`, `host/raspberry-pi-4`, `fs/vfat`.
    pub profile: String,
    /// The number from the profile, or the number that the argument sets instead.
    pub number: Number,
}

/// An optional number that an argument removes.
#[derive(Clone, Debug)]
pub(super) struct RemovedParameter {
    pub(super) profile: String,
    pub(super) parameter: &'static Parameter,
    pub(super) source: Source,
}

/// The numbers of a device in its host, or of a filesystem.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// The numbers in the order of the parameter table.
    pub(super) set: Vec<SourcedNumber>,
    pub(super) removed: Vec<RemovedParameter>,
}

impl Numbers {
    /// Merges the numbers of the profiles with `settings`.
    pub(super) fn merge(
        profiles: &[(String, &Profile)],
        settings: &Settings,
        argument: &Argument,
    ) -> Numbers {
        let profile_of = |parameter: &Parameter| {
            let mut profiles = profiles.iter().filter(|(_, profile)| profile.kind.has(parameter));
            profiles.next().map(|(name, _)| name.clone()).expect("the parameter was looked up in their kinds")
        };
        let mut set = Vec::new();
        for parameter in Parameter::all().iter().filter(|p| !settings.none.iter().any(|n| n.path == p.path)) {
            let in_profile = |(name, profile): &(String, &Profile)| {
                let number = profile.number(parameter.path)?.clone();
                Some(SourcedNumber { profile: name.clone(), number })
            };
            let given = settings.numbers.iter().find(|n| n.parameter.path == parameter.path);
            let given = given.map(|n| SourcedNumber { profile: profile_of(parameter), number: n.clone() });
            set.extend(given.or_else(|| profiles.iter().find_map(in_profile)));
        }
        let removed = settings.none.iter().map(|parameter| RemovedParameter {
            profile: profile_of(parameter),
            parameter,
            source: Source::SetByKey(argument.text.text.clone()),
        });
        Numbers { set, removed: removed.collect() }
    }

    /// Sets the numbers in the parts, and checks the parts. Each profile alone passed the checks when it was
    /// read, so an error comes from the argument or from the combination of device and host.
    pub(super) fn parts(
        &self,
        argument: &Argument,
        kinds: &[Kind],
        profiles: &[&Profile],
    ) -> Result<Parts, ArgumentError> {
        let numbers = || self.set.iter().map(|sourced| &sourced.number);
        let mut parts = Parts::blank();
        for number in numbers() {
            number.parameter.set(&mut parts, &number.value);
        }
        for kind in kinds {
            let Err(impossible) = kind.check(&parts) else { continue };
            let number = numbers().find(|n| n.parameter.path == impossible.path);
            let given = number.filter(|n| matches!(n.source, Source::SetByKey(_)));
            let line = |number: &Number| {
                let profile = profiles.iter().find(|p| p.number(number.parameter.path).is_some());
                profile.filter(|_| given.is_none()).map(|p| p.line_of(number))
            };
            let span = given.map_or_else(|| argument.settings_span(), |n| n.span.clone());
            let value = number.map(|n| (n.value.to_string(), line(n)));
            return Err(argument.error_at(span, ArgumentProblem::Impossible { impossible, value }));
        }
        Ok(parts)
    }

    /// Returns the numbers that were set by hand, then the removed numbers with the value `none`.
    pub(super) fn overrides(&self) -> Vec<(&'static str, String)> {
        let is_by_hand = |source: &Source| matches!(source, Source::SetByKey(_));
        let set = self.set.iter().map(|sourced| &sourced.number).filter(|n| is_by_hand(&n.source));
        let set = set.map(|n| (n.parameter.path, n.value.to_string()));
        let removed = self.removed.iter().filter(|n| is_by_hand(&n.source));
        set.chain(removed.map(|n| (n.parameter.path, "none".to_owned()))).collect()
    }

    /// Replaces the source of each number that was set by hand with the source that `sources` lists for its path.
    pub(super) fn set_override_sources(&mut self, sources: &BTreeMap<String, Source>) {
        let set = self.set.iter_mut().map(|sourced| (sourced.number.parameter, &mut sourced.number.source));
        let removed = self.removed.iter_mut().map(|n| (n.parameter, &mut n.source));
        for (parameter, source) in set.chain(removed) {
            if let (Source::SetByKey(_), Some(known)) = (&source, sources.get(parameter.path)) {
                source.clone_from(known);
            }
        }
    }

    /// Returns true if a number has no source because it was set by hand or its profile is a draft.
    pub(super) fn lacks_source(&self) -> bool {
        let set = self.set.iter().map(|sourced| &sourced.number.source);
        let sources = set.chain(self.removed.iter().map(|n| &n.source));
        sources.filter_map(Source::free).any(|kind| kind.lacks_source())
    }

    /// Returns the names of the profiles that are drafts.
    pub(super) fn drafts(&self) -> Vec<&str> {
        let mut drafts: Vec<&str> = Vec::new();
        for sourced in self.set.iter().filter(|sourced| sourced.number.source == Source::Unsourced) {
            if !drafts.contains(&sourced.profile.as_str()) {
                drafts.push(&sourced.profile);
            }
        }
        drafts
    }

    /// Returns every number in the form of a report.
    pub(super) fn report(&self) -> Vec<provenance::Number> {
        self.set.iter().map(|sourced| sourced.number.report()).collect()
    }
}
