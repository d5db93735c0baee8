//! Groups of requests: the requests of a group complete as a whole for the calls that wait for them.

use super::calls::CallId;
use super::pages::{IoId, PageKey};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use flashlab_sim::{FileId, Op, Status};

/// Requests that complete as a whole, and the calls that wait for them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    outstanding: u32,
    /// First page and number of pages.
    pub(super) pages: (PageKey, u64),
    pub(super) file: FileId,
    pub(super) op: Op,
    pub(super) status: Status,
    pub(super) waiters: Vec<CallId>,
}

/// The groups that are built or in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<IoId, Group>,
    /// Number of the next group.
    next: IoId,
    /// Outstanding requests of all groups that write.
    writes: usize,
}

impl Groups {
    /// Returns the number of the next group.
    pub(super) fn next_id(&self) -> IoId {
        self.next
    }

    /// Adds a group of `outstanding` requests, under the number that [`Groups::next_id`] returned.
    pub(super) fn add(&mut self, op: Op, file: FileId, pages: (PageKey, u64), outstanding: u32) {
        if op.is_write() {
            self.writes += outstanding as usize;
        }
        let group = Group { outstanding, pages, file, op, status: Status::Ok, waiters: Vec::new() };
        self.groups.insert(self.next, group);
        self.next += 1;
    }

    /// Makes a call wait for a group.
    pub(super) fn add_waiter(&mut self, id: IoId, call: CallId) {
        self.groups.get_mut(&id).expect("a call waits for requests in flight").waiters.push(call);
    }

    /// Notes the completion of a request of a group. Takes the group once all its requests are complete.
    pub(super) fn complete_request(&mut self, id: IoId, status: Status) -> Option<Group> {
        let group = self.groups.get_mut(&id).expect("a request belongs to a group");
        group.outstanding -= 1;
        if status != Status::Ok {
            group.status = status;
        }
        if group.op.is_write() {
            self.writes -= 1;
        }
        if group.outstanding == 0 { self.groups.remove(&id) } else { None }
    }

    /// Returns the groups that write to `file`.
    pub(super) fn writes_to(&self, file: FileId) -> impl Iterator<Item = IoId> {
        let of_file = self.groups.iter().filter(move |(_, group)| group.file == file && group.op.is_write());
        of_file.map(|(id, _)| *id)
    }

    /// Returns the number of writes that are built or in flight.
    pub(super) fn write_count(&self) -> usize {
        self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_ends_with_its_last_request_and_keeps_the_error_of_any_of_them() {
        let mut groups = Groups::default();
        let pages = (PageKey::new(FileId::DEVICE, 0), 2);
        let (write, read) = (groups.next_id(), groups.next_id() + 1);
        groups.add(Op::Write, FileId::DEVICE, pages, 2);
        groups.add(Op::Read, FileId::DEVICE, pages, 1);
        assert_eq!(
            (groups.write_count(), groups.writes_to(FileId::DEVICE).collect()),
            (2, Vec::from([write]))
        );
        assert!(groups.complete_request(write, Status::ReadOnly).is_none(), "a request is outstanding");
        assert_eq!(groups.write_count(), 1);
        let ended = groups.complete_request(write, Status::Ok).expect("it was the last request");
        assert_eq!((ended.status, groups.write_count()), (Status::ReadOnly, 0));
        assert_eq!(groups.complete_request(read, Status::Ok).expect("it has one request").status, Status::Ok);
    }
}
