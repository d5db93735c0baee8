//! Layout of a FAT32 volume (Microsoft's FAT specification, sections 3 to 5): reserved sectors with the boot sector and
//! FSINFO, two FATs of four bytes per cluster, and the cluster heap, which starts with the root directory.

use super::VfatParameters;
use core::ops::Range;

pub(super) const SECTOR: u64 = 512;
/// Number of sectors that mkfs.fat reserves on FAT32.
const RESERVED_SECTORS: u64 = 32;
const FSINFO_SECTOR: u64 = 1;
const FAT_ENTRY: u64 = 4;
/// Number of the first cluster in FAT's numbering; entries 0 and 1 of the FAT are not clusters.
const FIRST_CLUSTER: u64 = 2;

/// Layout of a volume, in byte addresses on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    partition_start: u64,
    cluster: u64,
    fat_bytes: u64,
    heap_start: u64,
    clusters: u64,
}

impl Layout {
    /// Returns the layout on a device of `capacity` bytes; `None` if not even a root directory fits.
    pub(super) fn new(parameters: &VfatParameters, capacity: u64) -> Option<Layout> {
        let partition = capacity.checked_sub(parameters.partition_start)?;
        let most = partition / parameters.cluster;
        let fat_bytes = ((most + FIRST_CLUSTER) * FAT_ENTRY).next_multiple_of(SECTOR);
        let behind_fats = parameters.partition_start + RESERVED_SECTORS * SECTOR + 2 * fat_bytes;
        let heap_start = behind_fats.checked_next_multiple_of(parameters.align)?;
        let clusters = capacity.checked_sub(heap_start)? / parameters.cluster;
        let layout = Layout {
            partition_start: parameters.partition_start,
            cluster: parameters.cluster,
            fat_bytes,
            heap_start,
            clusters,
        };
        (clusters > 0).then_some(layout)
    }

    /// Returns the number of clusters in the heap. Cluster 0 of the heap is FAT's cluster 2, the root directory.
    pub(super) fn clusters(&self) -> u64 {
        self.clusters
    }
    /// Returns the size of a cluster in bytes.
    pub(super) fn cluster(&self) -> u64 {
        self.cluster
    }
    /// Returns the size of one FAT in bytes.
    pub(super) fn fat_bytes(&self) -> u64 {
        self.fat_bytes
    }
    /// Returns the address of the first byte of a cluster of the heap.
    pub(super) fn cluster_start(&self, cluster: u64) -> u64 {
        self.heap_start + cluster * self.cluster
    }
    /// Returns the reserved sectors, from the boot sector to the first FAT.
    pub(super) fn reserved(&self) -> Range<u64> {
        self.partition_start..self.partition_start + RESERVED_SECTORS * SECTOR
    }
    /// Returns the FSINFO sector, which holds the count of free clusters.
    pub(super) fn fsinfo(&self) -> Range<u64> {
        let start = self.partition_start + FSINFO_SECTOR * SECTOR;
        start..start + SECTOR
    }
    /// Returns the sector of a file's directory entry; a sector holds 16 entries.
    pub(super) fn directory_entry(&self, file: u32) -> Range<u64> {
        let start = self.heap_start + u64::from(file) / 16 * SECTOR % self.cluster;
        start..start + SECTOR
    }
    /// Returns the sectors of FAT copy `copy` (0 or 1) that hold the entries of `clusters`.
    pub(super) fn fat(&self, copy: u64, clusters: &Range<u64>) -> Range<u64> {
        let fat_start = self.reserved().end + copy * self.fat_bytes;
        let first = (clusters.start + FIRST_CLUSTER) * FAT_ENTRY / SECTOR;
        let last = (clusters.end - 1 + FIRST_CLUSTER) * FAT_ENTRY / SECTOR;
        fat_start + first * SECTOR..fat_start + (last + 1) * SECTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::Duration;

    #[test]
    fn the_heap_is_aligned_and_the_fats_have_entries_for_all_clusters() {
        let parameters = VfatParameters {
            cluster: 16 << 10,
            partition_start: 4 << 20,
            align: 4 << 20,
            write_back: Duration::from_secs(30),
            t_unexplained: Duration::ZERO,
        };
        let layout = Layout::new(&parameters, 32_000_000_000 / SECTOR * SECTOR).expect("a card of 32 GB");
        assert!(layout.cluster_start(0).is_multiple_of(4 << 20));
        assert!(layout.fat_bytes() >= (layout.clusters() + 2) * 4);
        assert!(layout.fat(1, &(0..layout.clusters())).end <= layout.cluster_start(0));
        assert_eq!(layout.fat(0, &(0..126)).end - layout.fat(0, &(0..126)).start, SECTOR);
        assert!(Layout::new(&parameters, 4 << 20).is_none());
    }
}
