//! Reference for the power-cut tests: a plain map of the contents that each unit may have, from the last durable
//! content to the last accepted one.

/// Content that a read of a unit returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// The unit was never written, or it was trimmed.
    Nothing,
    /// Data of the write with this number.
    Version(u64),
    /// The read fails.
    Unreadable,
}

/// One unit of the reference.
#[derive(Clone, Debug)]
struct Unit {
    /// Contents from the last durable one on, each with the number of its write or trim.
    contents: Vec<(u64, Content)>,
    /// Numbers of all trims except those that a power cut undid.
    trims: Vec<u64>,
    /// Number up to which this unit alone is promised to be durable.
    durable: u64,
    /// Newest version with a copy in the array that could not be read, or 0. This version and older ones may be lost;
    /// newer ones are not.
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
    /// Records that a page with a copy of `version` of the unit could not be read.
    pub(crate) fn lose(&mut self, unit: u32, version: u64) {
        let lost = &mut self.units[unit as usize].lost;
        *lost = version.max(*lost);
    }
    /// Records the promise that every write and trim up to `number` is durable.
    pub(crate) fn promise(&mut self, number: u64) {
        assert!(number >= self.durable, "durable data is no longer durable");
        self.durable = number;
    }
    /// Records the promise that the unit is durable up to `number`.
    pub(crate) fn promise_unit(&mut self, unit: u32, number: u64) {
        let durable = &mut self.units[unit as usize].durable;
        *durable = number.max(*durable);
    }

    /// Asserts that a read of a running device found the newest content, or an error if that content was lost.
    pub(crate) fn assert_newest(&self, unit: u32, found: Content) {
        let of = &self.units[unit as usize];
        let newest = of.contents.last().expect("there is always one").1;
        let lost = found == Content::Unreadable && newest == Content::Version(of.lost);
        assert!(found == newest || lost, "unit {unit} reads {found:?}: {of:?}");
    }

    /// Records that a page of trim records is in the array, which makes all trims up to `number` durable.
    pub(crate) fn record(&mut self, number: u64) {
        self.recorded = number;
    }

    /// Asserts that a read after a power cut found a possible content: old, new or an error, but none older than the
    /// promised one. The content must also match `scanned`, the version that a scan of all spare areas finds,
    /// after the trims on record are applied. From then on the content counts as durable.
    pub(crate) fn assert_possible(&mut self, unit: u32, found: Content, scanned: Option<u64>) {
        let of = &mut self.units[unit as usize];
        let durable = self.durable.max(of.durable);
        let promised = of.contents.iter().rposition(|(number, _)| *number <= durable).expect("the first is");
        let may_be = |wanted| of.contents[promised..].iter().any(|(_, content)| *content == wanted);
        let lost = found == Content::Unreadable && may_be(Content::Version(of.lost));
        assert!(may_be(found) || lost, "unit {unit} reads {found:?}, promised up to {durable}: {of:?}");
        let trimmed = of.trims.iter().copied().rfind(|trim| *trim <= self.recorded).unwrap_or(0);
        let newest = scanned.filter(|version| *version > trimmed).map_or(Content::Nothing, Content::Version);
        // A scan may find the lost version or an older one. A unit that was lost and then trimmed either still reads as
        // an error or is unmapped.
        let is_lost = scanned.is_none_or(|version| version <= of.lost);
        let gone = is_lost && matches!(found, Content::Unreadable | Content::Nothing);
        assert!(found == newest || gone, "unit {unit} reads {found:?}, the array has {newest:?}: {of:?}");
        of.trims.retain(|trim| *trim <= self.recorded);
        of.contents = vec![(durable, found)];
    }
}
