//! Tests of the allocator: cached copies give way to other data, no bucket is reused too early, and members
//! share new data.

use super::*;
use crate::encode::{Checksum, Compressor};
use crate::format::ErrorCounts;
use crate::member_set::MemberSet;

/// Number of buckets of each member. The journal takes four, and new data leaves three free.
const BUCKETS: u32 = 32;
/// Blocks in a bucket.
const BLOCKS: u32 = 32;

fn allocator(members: usize) -> Allocator {
    let layout = Layout {
        volume: [0; 16],
        block: 512,
        bucket: 512 * BLOCKS,
        unit: 512,
        extent_max: 4096,
        replicas: 1,
        checksum: Checksum::Crc32c,
        compression: Compressor::None,
        background_compression: Compressor::None,
        foreground: MemberSet::EMPTY,
        background: MemberSet::EMPTY,
        promote: MemberSet::EMPTY,
        metadata: MemberSet::EMPTY,
        is_encrypted: false,
        size: 1 << 20,
        journal_buckets: 4,
        buckets: u64::from(BUCKETS),
        checkpoint_buckets: 8,
    };
    let entry = MemberEntry {
        id: [0; 16],
        buckets: BUCKETS,
        durability: 1,
        metadata: false,
        label: String::new(),
        state: MemberState::Rw,
        errors: ErrorCounts::default(),
    };
    let mut allocator = Allocator::new(layout, vec![entry; members].iter());
    allocator.find_free(|_| true);
    allocator
}

/// Takes half a bucket on a member.
fn take(
    allocator: &mut Allocator,
    stream: Stream,
    prefer: MemberSet,
    evict: bool,
) -> Result<Pointer, NoRoom> {
    let blocks = BLOCKS / 2;
    let want = Want {
        stream,
        blocks,
        exact: true,
        copies: 1,
        copies_min: 1,
        taken: &[],
        prefer,
        only: false,
        within: MemberSet::EMPTY,
        from: None,
        durability: 0,
        evict,
    };
    allocator.allocate(&want, 0, |_| {}).map(|(pointers, _)| pointers[0])
}

/// Makes a copy of half a bucket a cached one.
fn demote(allocator: &mut Allocator, pointer: Pointer, position: u64) -> Pointer {
    let cached = Pointer { cached: true, ..pointer };
    allocator.add_reference(&cached, BLOCKS / 2);
    allocator.remove_reference(&pointer, BLOCKS / 2, position);
    cached
}

/// Fills a member with copies until none fits.
fn fill(allocator: &mut Allocator) -> Vec<Pointer> {
    std::iter::from_fn(|| take(allocator, Stream::Foreground, MemberSet::EMPTY, true).ok()).collect()
}

fn evict(allocator: &mut Allocator, position: u64) -> Vec<Opened> {
    let mut evicted = Vec::new();
    allocator.evict(position, 0, |bucket| evicted.push(bucket));
    evicted
}

#[test]
fn cached_copies_stay_until_their_space_is_needed_and_the_oldest_go_first() {
    let mut allocator = allocator(1);
    let first: Vec<Pointer> = (0..8)
        .map(|_| take(&mut allocator, Stream::Foreground, MemberSet::EMPTY, true).expect("an empty member"))
        .collect();
    let cached: Vec<Pointer> = first.iter().map(|pointer| demote(&mut allocator, *pointer, 1)).collect();
    assert_eq!(allocator.usage()[0].cached, 4);
    assert_eq!(evict(&mut allocator, 2), []);
    let count = fill(&mut allocator).len();
    assert_eq!(take(&mut allocator, Stream::Foreground, MemberSet::EMPTY, true), Err(NoRoom::Cached));
    // Three buckets are free. The eviction frees three more: cached copies leave five free, and the eviction
    // adds one.
    let evicted = evict(&mut allocator, 2);
    let numbers: Vec<u32> = evicted.iter().map(|evicted| evicted.bucket).collect();
    assert_eq!(numbers, [cached[0].bucket, cached[2].bucket, cached[4].bucket]);
    let is_current = |pointer: &Pointer| allocator.is_current(pointer);
    assert_eq!(cached.iter().filter(|pointer| is_current(pointer)).count(), 2);
    assert!(evicted.iter().all(|evicted| evicted.generation == cached[0].generation + 1));
    // All of the space that held no other data can be filled.
    let mut filled = count;
    for position in 3..20 {
        allocator.release(position - 1);
        filled += fill(&mut allocator).len();
        evict(&mut allocator, position);
    }
    assert_eq!(filled, 2 * (BUCKETS - 4 - 3) as usize);
    assert_eq!(take(&mut allocator, Stream::Foreground, MemberSet::EMPTY, true), Err(NoRoom::Full));
}

#[test]
fn an_evicted_bucket_is_reused_only_when_its_new_generation_is_durable() {
    let mut allocator = allocator(1);
    let pointers = fill(&mut allocator);
    let cached: Vec<Pointer> = pointers.iter().map(|pointer| demote(&mut allocator, *pointer, 7)).collect();
    let evicted = evict(&mut allocator, 8);
    assert_eq!(evicted.len(), 3);
    for durable in [0, 7] {
        allocator.release(durable);
        assert_eq!(
            take(&mut allocator, Stream::Foreground, MemberSet::EMPTY, true),
            Err(NoRoom::Cached),
            "{durable}"
        );
    }
    // A second eviction waits for the first one.
    assert_eq!(evict(&mut allocator, 9), []);
    allocator.release(8);
    let new =
        take(&mut allocator, Stream::Collect, MemberSet::EMPTY, true).expect("an evicted bucket is free");
    let reused = (0..BUCKETS).map(|_| take(&mut allocator, Stream::Collect, MemberSet::EMPTY, true));
    let reused: Vec<Pointer> = reused.map_while(Result::ok).chain([new]).collect();
    assert!(evicted.iter().all(|evicted| reused.iter().any(|new| new.bucket == evicted.bucket)));
    assert!(
        !cached.iter().any(
            |cached| reused.iter().any(|new| new.bucket == cached.bucket) && allocator.is_current(cached)
        )
    );
}

#[test]
fn a_bucket_with_other_copies_is_not_evicted_and_garbage_collection_moves_only_these() {
    let mut allocator = allocator(1);
    let pointers = fill(&mut allocator);
    // One half of each bucket becomes cached.
    let halves: Vec<Pointer> = pointers.iter().step_by(2).map(|p| demote(&mut allocator, *p, 1)).collect();
    assert_eq!(evict(&mut allocator, 2), []);
    assert_eq!(take(&mut allocator, Stream::Foreground, MemberSet::EMPTY, true), Err(NoRoom::Full));
    assert_eq!((allocator.usage()[0].cached, allocator.has_space(1, 0)), (0, false));
    let victims = allocator.victims(usize::MAX, &|_, _| false);
    assert!(victims.contains(&(0, halves[0].bucket)));
    // Once the other half of a bucket has moved away, its cached half can be evicted.
    let (kept, moved) =
        (pointers[1], take(&mut allocator, Stream::Collect, MemberSet::EMPTY, true).expect("the reserve"));
    allocator.remove_reference(&kept, BLOCKS / 2, 3);
    assert!(moved.bucket != kept.bucket && allocator.usage()[0].cached == 1);
    assert!(!allocator.victims(usize::MAX, &|_, _| false).contains(&(0, kept.bucket)));
    let evicted = evict(&mut allocator, 4);
    assert_eq!(evicted.iter().map(|evicted| evicted.bucket).collect::<Vec<_>>(), [kept.bucket]);
}

#[test]
fn a_bucket_that_loses_its_cached_copies_is_released_like_any_other() {
    let mut allocator = allocator(1);
    let pointers = fill(&mut allocator);
    let cached: Vec<Pointer> = pointers[..4].iter().map(|p| demote(&mut allocator, *p, 1)).collect();
    let free = allocator.usage()[0].free;
    cached[..2].iter().for_each(|pointer| allocator.remove_reference(pointer, BLOCKS / 2, 2));
    allocator.release(1);
    assert_eq!((allocator.usage()[0].free, allocator.usage()[0].cached), (free, 1));
    allocator.release(2);
    assert_eq!(allocator.usage()[0].free, free + 1);
    // The released bucket is not evicted as well.
    let evicted = evict(&mut allocator, 3);
    assert_eq!(evicted.iter().map(|evicted| evicted.bucket).collect::<Vec<_>>(), [cached[2].bucket]);
}

#[test]
fn a_cached_copy_in_flight_keeps_its_bucket() {
    let mut allocator = allocator(1);
    let place = take(&mut allocator, Stream::Cached, MemberSet::EMPTY, true).expect("an empty member");
    assert!(place.cached);
    fill(&mut allocator);
    assert_eq!(evict(&mut allocator, 1), []);
    allocator.cached_written(&[place], BLOCKS / 2);
    let evicted = evict(&mut allocator, 1);
    assert_eq!(evicted.iter().map(|evicted| evicted.bucket).collect::<Vec<_>>(), [place.bucket]);
    // The eviction of the bucket has already removed the reference of the allocation.
    allocator.remove_reference(&place, BLOCKS / 2, 1);
}

#[test]
fn data_stays_in_its_target_while_cached_copies_can_give_way() {
    let mut allocator = allocator(2);
    let mut on_first = Vec::new();
    while let Ok(pointer @ Pointer { member: 0, .. }) =
        take(&mut allocator, Stream::Foreground, MemberSet::of(0u8), true)
    {
        on_first.push(pointer);
    }
    for pointer in on_first {
        demote(&mut allocator, pointer, 1);
    }
    let second = take(&mut allocator, Stream::Foreground, MemberSet::of(0u8), false)
        .expect("the other member has room");
    assert_eq!(second.member, 1);
    assert_eq!(take(&mut allocator, Stream::Foreground, MemberSet::of(0u8), true), Err(NoRoom::Cached));
    assert!(allocator.has_space(2, 0) && allocator.roomy().to_bits() == 3);
    evict(&mut allocator, 2);
    allocator.release(2);
    assert_eq!(take(&mut allocator, Stream::Foreground, MemberSet::of(0u8), true).expect("room").member, 0);
}

/// Takes half a bucket and frees it again, `count` times. Returns the number of times that the second member
/// was chosen.
fn takes_of_second(allocator: &mut Allocator, count: usize) -> usize {
    let mut takes = 0;
    for _ in 0..count {
        let pointer =
            take(allocator, Stream::Foreground, MemberSet::EMPTY, true).expect("a member with room");
        allocator.remove_reference(&pointer, BLOCKS / 2, 1);
        allocator.close_empty(1);
        allocator.release(1);
        takes += usize::from(pointer.member == 1);
    }
    takes
}

#[test]
fn a_member_that_took_no_data_gets_its_share_of_new_data_again() {
    let mut allocator = allocator(2);
    assert_eq!(takes_of_second(&mut allocator, 100), 50);
    allocator.set_writable(0, false);
    assert_eq!(takes_of_second(&mut allocator, 1000), 1000);
    allocator.set_writable(0, true);
    assert_eq!(takes_of_second(&mut allocator, 100), 50);
}

#[test]
fn a_member_that_was_full_is_preferred_for_a_limited_number_of_extents() {
    let mut allocator = allocator(2);
    let mut on_first = Vec::new();
    while let Ok(pointer @ Pointer { member: 0, .. }) =
        take(&mut allocator, Stream::Foreground, MemberSet::of(0u8), true)
    {
        on_first.push(pointer);
    }
    assert_eq!(takes_of_second(&mut allocator, 50_000), 50_000);
    on_first.iter().for_each(|pointer| allocator.remove_reference(pointer, BLOCKS / 2, 1));
    allocator.release(1);
    // The members have equal weights. The member pays the sum of both weights for each choice and earns its
    // own weight again, so it loses half of what it pays.
    let preferred = (0..50_000).take_while(|_| takes_of_second(&mut allocator, 1) == 0).count();
    assert!(preferred <= 2 * CREDIT_MAX as usize, "{preferred} extents");
    assert!((49..=51).contains(&takes_of_second(&mut allocator, 100)));
}

/// The first of three members has more free space than the others together.
#[test]
fn credits_have_a_limit_although_a_member_is_always_chosen() {
    let mut allocator = allocator(3);
    for prefer in [1u8, 2].map(MemberSet::of) {
        for _ in 0..40 {
            take(&mut allocator, Stream::Foreground, prefer, true).expect("an empty member");
        }
    }
    let weights: i64 = allocator.members.iter().map(|member| member.weight(BLOCKS)).sum();
    let mut counts = [0u32; 3];
    for _ in 0..10_000 {
        let want = Want {
            stream: Stream::Foreground,
            blocks: BLOCKS,
            exact: true,
            copies: 2,
            copies_min: 1,
            taken: &[],
            prefer: MemberSet::EMPTY,
            only: false,
            within: MemberSet::EMPTY,
            from: None,
            durability: 0,
            evict: true,
        };
        let (pointers, _) = allocator.allocate(&want, 0, |_| {}).expect("members with room");
        pointers.iter().for_each(|pointer| {
            counts[usize::from(pointer.member)] += 1;
            allocator.remove_reference(pointer, BLOCKS, 1);
        });
        allocator.close_empty(1);
        allocator.release(1);
    }
    assert!(counts[0] == 10_000 && counts[1].abs_diff(counts[2]) < 10, "{counts:?}");
    assert!(allocator.members.iter().all(|member| member.credit.abs() <= (CREDIT_MAX + 1) * weights));
}

#[test]
fn a_member_that_gets_the_journal_makes_room_for_a_checkpoint() {
    let mut allocator = allocator(1);
    let pointers = fill(&mut allocator);
    for pointer in pointers {
        demote(&mut allocator, pointer, 1);
    }
    let mut evicted = 0;
    let checkpoint = allocator.layout.checkpoint_buckets;
    assert!(checkpoint > 0);
    allocator.evict(2, checkpoint, |_| evicted += 1);
    allocator.release(2);
    assert_eq!(evicted, 3 + checkpoint);
    assert_eq!(
        allocator.allocate_metadata(0, checkpoint).map(|taken| taken.len()),
        Some(checkpoint as usize)
    );
}

#[test]
fn a_bucket_of_a_checkpoint_has_none_of_its_old_copies() {
    let mut allocator = allocator(1);
    let old = take(&mut allocator, Stream::Foreground, MemberSet::EMPTY, true).expect("an empty member");
    fill(&mut allocator);
    allocator.remove_reference(&old, BLOCKS / 2, 1);
    allocator.remove_reference(&Pointer { offset: BLOCKS / 2, ..old }, BLOCKS / 2, 1);
    allocator.release(1);
    assert!(allocator.is_current(&old));
    let free = allocator.usage()[0].free;
    let taken = allocator.allocate_metadata(0, free).expect("free buckets");
    assert!(taken.contains(&old.bucket) && !allocator.is_current(&old));
    taken.iter().for_each(|bucket| allocator.release_metadata(0, *bucket));
    let new = std::iter::from_fn(|| take(&mut allocator, Stream::Collect, MemberSet::EMPTY, true).ok());
    let new: Vec<Pointer> = new.filter(|new| new.bucket == old.bucket).collect();
    assert_eq!(new.iter().map(|new| new.generation).collect::<Vec<_>>(), [old.generation + 2; 2]);
}

/// An image can contain the last generation, which no use of a bucket may exceed.
#[test]
fn a_bucket_with_the_last_generation_takes_one_checkpoint_at_most() {
    let mut allocator = allocator(1);
    for (bucket, generation) in [(4, u32::MAX - 1), (5, u32::MAX)] {
        allocator.set_generation(0, bucket, generation);
    }
    allocator.find_free(|_| true);
    let all = BUCKETS - 4 - 1;
    let taken = allocator.allocate_metadata(0, all).expect("all buckets but one");
    assert!(!taken.contains(&5) && !allocator.has_free(0, 1));
    taken.iter().for_each(|bucket| allocator.release_metadata(0, *bucket));
    assert!(allocator.has_free(0, all - 1) && !allocator.has_free(0, all));
}

#[test]
fn recovery_counts_cached_copies_apart() {
    let mut recovered = allocator(1);
    let pointer = |bucket, offset, cached| Pointer { member: 0, cached, bucket, offset, generation: 0 };
    for pointer in [pointer(5, 0, true), pointer(5, 16, false), pointer(6, 0, true), pointer(7, 0, false)] {
        assert!(recovered.count(&pointer, BLOCKS / 2));
    }
    recovered.find_free(|_| true);
    let usage = recovered.usage()[0];
    assert_eq!((usage.cached, usage.used, usage.free, usage.live_blocks), (1, 2, BUCKETS - 4 - 3, 64));
    fill(&mut recovered);
    let evicted = evict(&mut recovered, 1);
    assert_eq!(evicted, [Opened { member: 0, bucket: 6, generation: 1 }]);
}
