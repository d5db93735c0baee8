//! The plain map: for each unit what it may read as, from what is durable up to what was accepted last.

/// What a unit reads as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Nothing was ever written, or it was trimmed.
    Nothing,
    /// What that write wrote.
    Version(u64),
    /// An error.
    Unreadable,
}

/// One unit: every content it had since it was durable for sure, and the number of the write or trim that gave it.
#[derive(Clone, Debug)]
struct Unit {
    contents: Vec<(u64, Content)>,
    /// All trims, but for those that a power cut undid.
    trims: Vec<u64>,
    /// Promised for this unit alone.
    durable: u64,
    /// Newest version of which a copy in the array could not be read, or 0: this version and those before it may be lost,
    /// later ones are not.
    lost: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Reference {
    units: Vec<Unit>,
    durable: u64,
    recorded: u64,
}

impl Reference {
    pub(crate) fn new(units: u32) -> Self {
        let unit = Unit { contents: vec![(0, Content::Nothing)], trims: Vec::new(), durable: 0, lost: 0 };
        Reference { units: vec![unit; units as usize], durable: 0, recorded: 0 }
    }
    pub(crate) fn write(&mut self, unit: u32, number: u64) {
        self.units[unit as usize].contents.push((number, Content::Version(number)));
    }
    pub(crate) fn trim(&mut self, unit: u32, number: u64) {
        self.units[unit as usize].contents.push((number, Content::Nothing));
        self.units[unit as usize].trims.push(number);
    }
    /// Notes that a page with a copy of `version` of the unit could not be read.
    pub(crate) fn lose(&mut self, unit: u32, version: u64) {
        let lost = &mut self.units[unit as usize].lost;
        *lost = version.max(*lost);
    }
    /// Everything up to `number` is promised.
    pub(crate) fn promise(&mut self, number: u64) {
        assert!(number >= self.durable, "what was durable is so for ever");
        self.durable = number;
    }
    /// The unit as of `number` is promised.
    pub(crate) fn promise_unit(&mut self, unit: u32, number: u64) {
        let durable = &mut self.units[unit as usize].durable;
        *durable = number.max(*durable);
    }

    /// What a read of a running device must give.
    pub(crate) fn assert_newest(&self, unit: u32, found: Content) {
        let of = &self.units[unit as usize];
        let newest = of.contents.last().expect("there is always one").1;
        let lost = found == Content::Unreadable && newest == Content::Version(of.lost);
        assert!(found == newest || lost, "unit {unit} reads {found:?}: {of:?}");
    }

    /// A page of records is in the array: all trims up to `number` are.
    pub(crate) fn record(&mut self, number: u64) {
        self.recorded = number;
    }

    /// A read after a cut: old or new or an error, but nothing older than what was promised; and exactly what a scan of
    /// all spare areas finds, under the trims on record. From now on it is durable.
    pub(crate) fn assert_possible(&mut self, unit: u32, found: Content, scanned: Option<u64>) {
        let of = &mut self.units[unit as usize];
        let durable = self.durable.max(of.durable);
        let promised = of.contents.iter().rposition(|(number, _)| *number <= durable).expect("the first is");
        let may_be = |wanted| of.contents[promised..].iter().any(|(_, content)| *content == wanted);
        let lost = found == Content::Unreadable && may_be(Content::Version(of.lost));
        assert!(may_be(found) || lost, "unit {unit} reads {found:?}, promised up to {durable}: {of:?}");
        let trimmed = of.trims.iter().copied().rfind(|trim| *trim <= self.recorded).unwrap_or(0);
        let newest = scanned.filter(|version| *version > trimmed).map_or(Content::Nothing, Content::Version);
        // A scan may find the lost version, or an older one. A unit that was lost and trimmed since is an error still, or
        // nothing.
        let is_lost = scanned.is_none_or(|version| version <= of.lost);
        let gone = is_lost && matches!(found, Content::Unreadable | Content::Nothing);
        assert!(found == newest || gone, "unit {unit} reads {found:?}, the array has {newest:?}: {of:?}");
        of.trims.retain(|trim| *trim <= self.recorded);
        of.contents = vec![(durable, found)];
    }
}
