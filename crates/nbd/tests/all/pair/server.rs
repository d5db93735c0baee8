//! The server's side: executes requests as they arrive, and replies in any order and in any pieces.

use super::Choices;
use super::disk::Disk;
use flashlab_nbd::server::{Closed, Command, Event, Policy, Replies, Request, Session, Token};
use flashlab_nbd::wire::ErrorNumber;
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) struct TestServer {
    pub(crate) session: Session,
    pub(crate) disk: Disk,
    pub(crate) closed: Option<Closed>,
    /// Requests that the session has returned, in order.
    pub(crate) executed: Vec<Request>,
    /// Number of executed requests with FUA.
    pub(crate) fua: usize,
    policy: Policy,
    buffer: Vec<u8>,
    /// A write whose payload bypasses the session.
    direct: Option<(Token, u64, Vec<u8>, usize)>,
    /// Pieces of replies that are not sent yet; the pieces of one reply are in order.
    answers: Vec<VecDeque<Vec<u8>>>,
    sent: Vec<u8>,
    need: usize,
}

impl TestServer {
    pub(crate) fn new(policy: Policy, disk: Disk) -> TestServer {
        let mut sent = Vec::new();
        let session = Session::new(policy, Arc::new(vec![disk.export.clone()]), &mut sent);
        TestServer {
            session,
            disk,
            closed: None,
            executed: Vec::new(),
            fua: 0,
            policy,
            buffer: Vec::new(),
            direct: None,
            answers: Vec::new(),
            sent,
            need: 0,
        }
    }

    pub(crate) fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }
    pub(crate) fn sent_is_empty(&self) -> bool {
        self.sent.is_empty() && self.answers.is_empty()
    }

    /// Feeds received bytes.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            if let Some((token, offset, data, missing)) = &mut self.direct {
                let count = bytes.len().min(*missing);
                data.extend_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                *missing -= count;
                if *missing > 0 {
                    return;
                }
                let (token, offset, data) = (*token, *offset, std::mem::take(data));
                self.direct = None;
                self.disk.write(offset, &data);
                self.done(token);
            }
            self.buffer.extend_from_slice(bytes);
            bytes = &[];
            if self.closed.is_some() || !self.parse() {
                return;
            }
        }
    }

    /// Processes the buffer. Returns true if the rest of a payload bypasses the session.
    fn parse(&mut self) -> bool {
        let mut at = 0;
        let mut idle_rounds = 0;
        loop {
            let rest = &self.buffer[at..];
            let received = self.session.receive(rest, &mut self.sent);
            assert!(received.consumed <= rest.len());
            let start = at;
            at += received.consumed;
            match received.event {
                Event::Need(need) => {
                    // The session requests more bytes than are available, and never more than its declared maximum.
                    let rest = self.buffer.len() - at;
                    assert!(need > rest && need <= Session::need_max(&self.policy), "{need} of {rest}");
                    self.need = need;
                    break;
                }
                Event::Send | Event::Opened => {}
                Event::StartTls => {
                    assert_eq!(at, self.buffer.len(), "some bytes were not discarded");
                    self.session.tls_started();
                }
                Event::Request(request) => {
                    if self.execute(request, start) {
                        assert_eq!(at, self.buffer.len(), "the rest of a payload is there already");
                        self.buffer.clear();
                        return true;
                    }
                }
                Event::Closed(why) => {
                    self.closed = Some(why);
                    while !self.answers.is_empty() {
                        self.send_replies(&mut Choices::new(&[]), true);
                    }
                    break;
                }
            }
            idle_rounds = if received.consumed == 0 { idle_rounds + 1 } else { 0 };
            assert!(idle_rounds < 3, "the session makes no progress");
        }
        self.buffer.drain(..at);
        false
    }

    fn execute(&mut self, request: Request, start: usize) -> bool {
        let Request { token, offset, length, ref command } = request;
        let replies = self.session.replies().unwrap();
        self.executed.push(request.clone());
        let mut answer = Vec::new();
        match *command {
            Command::Read { unfragmented } => {
                let read = self.read(replies, token, offset, length, unfragmented);
                self.answers.push(read);
                return false;
            }
            Command::Write { ref range, fua } => {
                self.fua += usize::from(fua);
                let data = self.buffer[start + range.start..start + range.end].to_vec();
                if (data.len() as u64) < length {
                    let missing = length as usize - data.len();
                    assert!(length as usize >= self.policy.direct_payload_min_bytes);
                    self.direct = Some((token, offset, data, missing));
                    return true;
                }
                self.disk.write(offset, &data);
                replies.done(token, &mut answer);
            }
            Command::Flush | Command::Cache => replies.done(token, &mut answer),
            Command::Trim { fua } => {
                self.fua += usize::from(fua);
                self.disk.zero(offset, length, true);
                replies.done(token, &mut answer);
            }
            Command::WriteZeroes { fua, no_hole, fast } => {
                self.fua += usize::from(fua);
                if fast && no_hole {
                    replies.error(token, ErrorNumber::NotSupported, "writing zeroes is slow", &mut answer);
                } else {
                    self.disk.zero(offset, length, !no_hole);
                    replies.done(token, &mut answer);
                }
            }
            Command::BlockStatus { one, contexts } => {
                let mut pieces = VecDeque::new();
                for (index, context) in contexts.iter().enumerate() {
                    let mut piece = Vec::new();
                    let last = index + 1 == contexts.len();
                    let extents = self.disk.extents(context, offset);
                    let covered =
                        replies.block_status(token, length, one, context, extents, last, &mut piece);
                    assert!(covered > 0 && covered <= length);
                    pieces.push_back(piece);
                }
                self.answers.push(pieces);
                return false;
            }
        }
        self.answers.push([answer].into());
        false
    }

    fn done(&mut self, token: Token) {
        let mut answer = Vec::new();
        self.session.replies().unwrap().done(token, &mut answer);
        self.answers.push([answer].into());
    }

    /// Encodes the reply to a read. The reply is one piece if `whole` is set or the length is a multiple of
    /// three. Otherwise each block is a piece, and unallocated blocks are holes. The pieces are in reverse
    /// order, with an empty piece at the end.
    fn read(
        &self,
        replies: Replies,
        token: Token,
        offset: u64,
        length: u64,
        whole: bool,
    ) -> VecDeque<Vec<u8>> {
        let data = &self.disk.bytes[offset as usize..][..length as usize];
        if whole || length.is_multiple_of(3) {
            let mut piece = Vec::new();
            replies.read(token, length as u32, &mut piece);
            piece.extend_from_slice(data);
            return [piece].into();
        }
        let mut pieces = VecDeque::new();
        let mut at = 0;
        while at < length {
            let block = ((offset + at) as usize) / super::disk::BLOCK;
            let end = ((block + 1) * super::disk::BLOCK) as u64 - offset;
            let count = end.min(length) - at;
            let mut piece = Vec::new();
            if self.disk.allocated[block] {
                replies.data(token, offset + at, count as u32, false, &mut piece);
                piece.extend_from_slice(&data[at as usize..][..count as usize]);
            } else {
                replies.hole(token, offset + at, count as u32, false, &mut piece);
            }
            pieces.push_front(piece);
            at += count;
        }
        let mut end = Vec::new();
        replies.end(token, &mut end);
        pieces.push_back(end);
        pieces
    }

    /// Sends some pieces of the pending replies, and at least one if `at_least_one` is set.
    pub(crate) fn send_replies(&mut self, choices: &mut Choices, at_least_one: bool) {
        let mut count = choices.below(8) + usize::from(at_least_one);
        while count > 0 && !self.answers.is_empty() {
            let index = choices.below(self.answers.len());
            if let Some(piece) = self.answers[index].pop_front() {
                self.sent.extend_from_slice(&piece);
            }
            if self.answers[index].is_empty() {
                self.answers.remove(index);
            }
            count -= 1;
        }
    }
}
