//! Comparison of an extent with the options of the volume: a difference is work to do, or pending work with a reason.
//!
//! The decision is a pure function of the extent, the goal and the state of the members. An action is wanted only if it
//! brings the extent closer to the goal and if there is known to be room for it. An unreachable goal therefore costs
//! nothing: the extent stays pending until the options, the members or the free space change.

use crate::encode::{Compression, Compressor};
use crate::extent::{Extent, ExtentState, POINTERS_MAX, Pointer, members_of};
use crate::member_set::MemberSet;
use flashlab_sim::fault;

/// Kind of background work, in the order of priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    /// Adds copies of extents that have too few.
    Replicate,
    /// Moves data from evacuating members to others.
    Evacuate,
    /// Moves data to the background target. The old copy stays as a cached copy if it is in the promote target.
    Move,
    /// Recompresses data as the option for background compression says.
    Recompress,
    /// Drops copies beyond the number of replicas.
    Drop,
}

impl Work {
    /// Returns the name of the work, as commands show it.
    pub fn name(self) -> &'static str {
        match self {
            Work::Replicate => "replicate",
            Work::Evacuate => "evacuate",
            Work::Move => "move",
            Work::Recompress => "recompress",
            Work::Drop => "drop",
        }
    }
}

/// The reason why work cannot be done now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// No further member takes data.
    NoMember,
    /// The members that take data have no room.
    NoSpace,
    /// The background target has no room.
    TargetFull,
    /// All copies are on missing members.
    Missing,
    /// No copy can be read.
    Unreadable,
    /// Writes to other members fail.
    WriteFailed,
}

impl Reason {
    /// Returns the reason as text, as commands show it.
    pub fn text(self) -> &'static str {
        match self {
            Reason::NoMember => "no other member takes data",
            Reason::NoSpace => "no space on other members",
            Reason::TargetFull => "no space on the background target",
            Reason::Missing => "all copies are on missing members",
            Reason::Unreadable => "no copy can be read",
            Reason::WriteFailed => "writes to other members fail",
        }
    }
}

/// The options that determine where and how an extent is stored in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) replicas: usize,
    pub(crate) foreground: MemberSet,
    pub(crate) background: MemberSet,
    pub(crate) promote: MemberSet,
    pub(crate) compression: Compressor,
}

/// State of the members.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Members whose devices are present and answer.
    pub(crate) present: MemberSet,
    /// Members that take new data.
    pub(crate) writable: MemberSet,
    /// Members with room for moves and recompression, which only improve where or how data is stored.
    pub(crate) roomy: MemberSet,
    /// Members with room for copies that are missing or leave another member. Like the data of clients, these
    /// copies may take all buckets except the reserve for garbage collection.
    pub(crate) roomy_for_copies: MemberSet,
    /// Members whose last write or flush failed.
    pub(crate) failing: MemberSet,
    pub(crate) evacuating: MemberSet,
    pub(crate) durability: Vec<u8>,
}

/// The next step for an extent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Nothing,
    /// Keeps some copies and adds others.
    Copies {
        work: Work,
        keep: Vec<Pointer>,
        add: usize,
        prefer: MemberSet,
        only: bool,
    },
    /// Encodes the live range anew.
    Recompress,
    Pending(Work, Reason),
}

impl Wanted {
    /// Returns the kind of work that can be done now, or `None`.
    pub(crate) fn work(&self) -> Option<Work> {
        match self {
            Wanted::Copies { work, .. } => Some(*work),
            Wanted::Recompress => Some(Work::Recompress),
            Wanted::Nothing | Wanted::Pending(..) => None,
        }
    }
}

/// The copies of an extent by the state of their members.
struct Copies {
    good: Vec<Pointer>,
    leaving: Vec<Pointer>,
    missing: Vec<Pointer>,
    cached: Vec<Pointer>,
    /// Cached copies on members that are evacuated.
    vanishing: Vec<Pointer>,
}

impl View {
    fn durability(&self, pointers: &[Pointer]) -> usize {
        pointers.iter().map(|pointer| usize::from(self.durability[usize::from(pointer.member)])).sum()
    }

    /// Returns the durability of the copies on members that do not fail. Only such copies justify dropping
    /// another copy.
    fn working_durability(&self, pointers: &[Pointer]) -> usize {
        let works = |pointer: &&Pointer| !self.fails(pointer);
        self.durability(&pointers.iter().filter(works).copied().collect::<Vec<_>>())
    }

    fn fails(&self, pointer: &Pointer) -> bool {
        self.failing.contains(pointer.member)
    }

    /// Returns the sum of the durabilities of members.
    fn durability_of(&self, members: MemberSet) -> usize {
        let durability = self.durability.iter().enumerate().filter(|(n, _)| members.contains(*n));
        durability.map(|(_, durability)| usize::from(*durability)).sum()
    }

    fn sort(&self, extent: &Extent) -> Copies {
        let mut copies =
            Copies { good: vec![], leaving: vec![], missing: vec![], cached: vec![], vanishing: vec![] };
        for pointer in &*extent.pointers() {
            let is_in = |members: MemberSet| members.contains(pointer.member);
            let list = match () {
                () if pointer.cached && is_in(self.evacuating) => &mut copies.vanishing,
                () if pointer.cached => &mut copies.cached,
                () if !is_in(self.present) => &mut copies.missing,
                () if is_in(self.evacuating) => &mut copies.leaving,
                () => &mut copies.good,
            };
            list.push(*pointer);
        }
        copies
    }
}

/// Decides the next step for an extent.
pub(crate) fn want(goal: &Goal, view: &View, extent: &Extent) -> Wanted {
    if extent.state() == ExtentState::Poisoned || is_settled(goal, view, extent) {
        return Wanted::Nothing;
    }
    let copies = view.sort(extent);
    let steps = [want_copies, want_target, want_compression, want_fewer];
    let mut pending = Wanted::Nothing;
    for step in steps {
        match step(goal, view, extent, &copies) {
            Wanted::Nothing => {}
            Wanted::Pending(work, reason) if pending == Wanted::Nothing => {
                pending = Wanted::Pending(work, reason);
            }
            Wanted::Pending(..) => {}
            wanted => return wanted,
        }
    }
    pending
}

/// Returns true if a cheap check already shows that nothing is to be done. This is the case for almost all extents of a
/// volume without a background target.
fn is_settled(goal: &Goal, view: &View, extent: &Extent) -> bool {
    let wanted = goal.compression.compression();
    let pointers = extent.pointers();
    let stays = |pointer: &Pointer| {
        !pointer.cached
            && (view.present - view.evacuating).contains(pointer.member)
            && view.durability[usize::from(pointer.member)] > 0
    };
    goal.background.is_empty()
        && (wanted == Compression::None || extent.compression() == wanted)
        && pointers.iter().all(stays)
        && view.durability(&pointers) == goal.replicas
}

/// Returns the step that adds copies if the members that stay hold too few, or moves copies off evacuating
/// members.
fn want_copies(goal: &Goal, view: &View, _: &Extent, copies: &Copies) -> Wanted {
    let Copies { good, leaving, missing, cached, vanishing } = copies;
    // A failing member may lose its copy, but most failures are short, so the copy counts unless data has to move
    // anyway.
    let have = if leaving.is_empty() { view.durability(good) } else { view.working_durability(good) };
    let work = if leaving.is_empty() { Work::Replicate } else { Work::Evacuate };
    if have >= goal.replicas {
        let (keep, work) = ([&good[..], missing, cached].concat(), Work::Evacuate);
        return match leaving.is_empty() && vanishing.is_empty() {
            true => Wanted::Nothing,
            false => Wanted::Copies { work, keep, add: 0, prefer: MemberSet::EMPTY, only: false },
        };
    }
    if [good, leaving, cached, vanishing].into_iter().all(Vec::is_empty) {
        return Wanted::Pending(work, Reason::Missing);
    }
    let held = members_of(good) | members_of(leaving) | members_of(missing);
    let candidates = view.writable - held;
    let roomy = candidates & view.roomy_for_copies;
    if view.durability_of(candidates) == 0 {
        return Wanted::Pending(work, Reason::NoMember);
    }
    if view.durability_of(roomy) == 0 {
        return Wanted::Pending(work, Reason::NoSpace);
    }
    // Copies that do not count give way if an extent has no room for another pointer.
    let (mut keep, spare): (Vec<Pointer>, Vec<Pointer>) =
        good.iter().partition(|pointer| view.durability[usize::from(pointer.member)] > 0);
    let least = keep.len();
    let add = (goal.replicas - have).min(view.durability_of(roomy)).min(POINTERS_MAX - least);
    for pointer in leaving {
        // A copy on an evacuating member stays until working ones take its place.
        if view.working_durability(&keep) + add < goal.replicas {
            keep.push(*pointer);
        }
    }
    keep.extend(spare);
    keep.extend(missing);
    keep.extend(cached);
    keep.truncate(POINTERS_MAX.saturating_sub(add).max(least));
    let prefer = if !goal.background.is_empty() { goal.background } else { goal.foreground };
    Wanted::Copies { work, keep, add, prefer, only: false }
}

/// Returns the step that moves a copy from outside the background target into it.
fn want_target(goal: &Goal, view: &View, _: &Extent, copies: &Copies) -> Wanted {
    let Copies { good, leaving, missing, cached, .. } = copies;
    let is_outside = |pointer: &&Pointer| {
        let counts = view.durability[usize::from(pointer.member)] > 0;
        counts && (!goal.background.contains(pointer.member) || fault("volume-moves-for-ever"))
    };
    let outside = good.iter().find(is_outside);
    let Some(outside) = outside.filter(|_| !goal.background.is_empty()) else { return Wanted::Nothing };
    let rest: Vec<Pointer> = good.iter().filter(|pointer| *pointer != outside).copied().collect();
    // The new copies must be durable enough to replace the old one. Otherwise, `want_fewer` would drop the new ones.
    let add = goal.replicas.saturating_sub(view.durability(&rest)).max(1);
    let held = members_of(good) | members_of(leaving) | members_of(missing);
    let others = (goal.background & view.present) - held - view.evacuating;
    let candidates = others & view.writable;
    if view.durability_of(others) < add {
        return Wanted::Nothing;
    }
    if view.durability_of(candidates) < add {
        return Wanted::Pending(Work::Move, Reason::NoMember);
    }
    if view.durability_of(candidates & view.roomy) < add {
        return Wanted::Pending(Work::Move, Reason::TargetFull);
    }
    let mut keep = [&rest[..], leaving, missing].concat();
    let Some(room) = POINTERS_MAX.checked_sub(keep.len() + add) else { return Wanted::Nothing };
    // One cached copy is enough.
    let in_promote = |pointer: &Pointer| goal.promote.contains(pointer.member);
    let stays = in_promote(outside) && !cached.iter().any(in_promote);
    let old = stays.then_some(Pointer { cached: true, ..*outside });
    keep.extend(old.iter().chain(cached).take(room));
    Wanted::Copies { work: Work::Move, keep, add, prefer: goal.background, only: true }
}

/// Returns the step that recompresses an extent whose compression differs from the background compression.
fn want_compression(goal: &Goal, view: &View, extent: &Extent, copies: &Copies) -> Wanted {
    let wanted = goal.compression.compression();
    let is_done = wanted == Compression::None
        || extent.compression() == wanted
        || extent.state() == ExtentState::Incompressible
        || extent.length() == 1;
    if is_done || copies.good.is_empty() {
        return Wanted::Nothing;
    }
    // The new copies replace all old copies, including copies on members that take no new data.
    let have = [&copies.good, &copies.leaving, &copies.missing].map(|pointers| view.durability(pointers));
    let needed = goal.replicas.min(have.iter().sum()).max(1);
    if view.durability_of(view.writable) < needed {
        return Wanted::Pending(Work::Recompress, Reason::NoMember);
    }
    if view.durability_of(view.writable & view.roomy) < needed {
        return Wanted::Pending(Work::Recompress, Reason::NoSpace);
    }
    Wanted::Recompress
}

/// Returns the step that drops a copy beyond the number of replicas.
fn want_fewer(goal: &Goal, view: &View, extent: &Extent, copies: &Copies) -> Wanted {
    let have = view.working_durability(&copies.good);
    let is_surplus = |pointer: &&Pointer| {
        let durability = usize::from(view.durability[usize::from(pointer.member)]);
        have >= goal.replicas + if view.fails(pointer) { 0 } else { durability }
    };
    let order = |pointer: &&Pointer| (!view.fails(pointer), goal.background.contains(pointer.member));
    let surplus = copies.good.iter().rev().filter(is_surplus).min_by_key(order);
    let Some(surplus) = surplus else { return Wanted::Nothing };
    let keep = extent.pointers().iter().filter(|pointer| *pointer != surplus).copied().collect();
    Wanted::Copies { work: Work::Drop, keep, add: 0, prefer: MemberSet::EMPTY, only: false }
}
