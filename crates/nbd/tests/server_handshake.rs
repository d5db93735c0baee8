//! The server's side of the handshake, byte for byte. This file builds the bytes without the crate. Each test names
//! the section of proto.md that it covers.

use flashlab_nbd::server::{
    Closed, Event, Export, MetaContext, OPTION_DATA_MAX, Policy, Session, Style, Tls,
};
use flashlab_nbd::wire::{ClientFlags, OptionType, TransmissionFlags};
use std::sync::Arc;

const IHAVEOPT: &[u8] = b"IHAVEOPT";
const REPLY: [u8; 8] = [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9];
const ACK: u32 = 1;
const SERVER: u32 = 2;
const INFO: u32 = 3;
const META: u32 = 4;
const UNSUP: u32 = 0x8000_0001;
const POLICY: u32 = 0x8000_0002;
const INVALID: u32 = 0x8000_0003;
const TLS_REQD: u32 = 0x8000_0005;
const UNKNOWN: u32 = 0x8000_0006;
const SHUTDOWN: u32 = 0x8000_0007;
const BLOCK_SIZE_REQD: u32 = 0x8000_0008;
const TOO_BIG: u32 = 0x8000_0009;
const EXT_HEADER_REQD: u32 = 0x8000_000a;

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [IHAVEOPT, &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

fn reply(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    [&REPLY[..], &number.to_be_bytes(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data]
        .concat()
}

/// Returns a string with its length prefix.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns the data of INFO and GO.
fn wants(name: &str, infos: &[u16]) -> Vec<u8> {
    let infos: Vec<u8> = infos.iter().flat_map(|info| info.to_be_bytes()).collect();
    [string(name), (infos.len() as u16 / 2).to_be_bytes().to_vec(), infos].concat()
}

/// Returns the data of LIST_META_CONTEXT and SET_META_CONTEXT.
fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
    let strings: Vec<u8> = queries.iter().flat_map(|query| string(query)).collect();
    [string(name), (queries.len() as u32).to_be_bytes().to_vec(), strings].concat()
}

fn context(id: u32, name: &str) -> Vec<u8> {
    [&id.to_be_bytes()[..], name.as_bytes()].concat()
}

fn info_export(size: u64, flags: u16) -> Vec<u8> {
    [&0u16.to_be_bytes()[..], &size.to_be_bytes(), &flags.to_be_bytes()].concat()
}

fn exports() -> Vec<Export> {
    let mut card = Export::new("card", 0x1234_5600);
    card.description = "a card".into();
    card.block_preferred = 16384;
    card.contexts = ["base:allocation", "x-flashlab:mapped", "x-flashlab:wear"].map(MetaContext::new).into();
    card.contexts[2].wide = true;
    let mut secret = Export::new("secret", 1024);
    secret.tls_required = true;
    let mut strict = Export::new("strict", 8192);
    strict.block_minimum = 4096;
    strict.block_size_required = true;
    vec![card, secret, strict]
}

/// HAS_FLAGS, SEND_FLUSH, SEND_FUA, CAN_MULTI_CONN.
const FLAGS: u16 = 0x10d;
/// The same with SEND_DF.
const FLAGS_DF: u16 = 0x18d;

struct Talk {
    session: Session,
    event: Event,
}

impl Talk {
    /// Starts a session, up to the client's flags.
    fn with(policy: Policy, flags: u32) -> Talk {
        let mut sent = Vec::new();
        let session = Session::new(policy, Arc::new(exports()), &mut sent);
        assert_eq!(sent, [b"NBDMAGICIHAVEOPT", &[0u8, 3][..]].concat(), "Newstyle negotiation");
        let mut talk = Talk { session, event: Event::Send };
        assert_eq!(talk.say(&flags.to_be_bytes()), []);
        talk
    }
    fn new() -> Talk {
        Talk::with(Policy::default(), 3)
    }
    /// Sends bytes to the session, and returns its replies.
    fn say(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        loop {
            let received = self.session.receive(bytes, &mut sent);
            bytes = &bytes[received.consumed..];
            self.event = received.event;
            if self.event != Event::Send {
                return sent;
            }
        }
    }
    /// Sends an option, and asserts that the reply is an error with a sentence.
    fn refused(&mut self, number: u32, data: &[u8], kind: u32) {
        let sent = self.say(&option(number, data));
        assert!(matches!(self.event, Event::Need(_)), "the session goes on");
        let header = sent.len().min(20);
        let words = &sent[header..];
        assert_eq!(sent, reply(number, kind, words));
        let words = std::str::from_utf8(words).unwrap();
        assert!(words.len() > 10 && words.contains(' '), "a sentence: {words:?}");
    }
    fn closed(&self) -> &Closed {
        match &self.event {
            Event::Closed(why) => why,
            event => panic!("{event:?}"),
        }
    }
    fn opened(&mut self, data: &[u8]) -> Vec<u8> {
        let sent = self.say(&option(7, data));
        assert!(self.session.export().is_some(), "{:?}", self.event);
        sent
    }
}

/// "Client flags".
#[test]
fn unknown_client_flags_end_the_session() {
    let mut talk = Talk::with(Policy::default(), 7);
    assert_eq!(*talk.closed(), Closed::ClientFlags(ClientFlags(7)));
    talk.say(&option(3, &[]));
    assert_eq!(*talk.closed(), Closed::ClientFlags(ClientFlags(7)), "and it stays so");
}

/// "`NBD_OPT_EXPORT_NAME`", "`NBD_FLAG_NO_ZEROES`".
#[test]
fn export_name_is_answered_with_and_without_zeroes() {
    let answer = [&0x1234_5600u64.to_be_bytes()[..], &FLAGS.to_be_bytes()].concat();
    for (flags, zeroes) in [(3, 0), (1, 124), (0, 124), (2, 0)] {
        for name in [&b"card"[..], b""] {
            let mut talk = Talk::with(Policy::default(), flags);
            let sent = talk.say(&option(1, name));
            assert_eq!(talk.event, Event::Opened);
            assert_eq!(sent, [&answer[..], &vec![0; zeroes]].concat());
            assert_eq!(talk.session.replies().unwrap().style(), Style::Simple);
        }
    }
}

/// "`NBD_OPT_EXPORT_NAME`": an unavailable export ends the session.
#[test]
fn export_name_of_what_cannot_be_had_ends_the_session() {
    let requires = Policy { tls: Tls::Require, ..Policy::default() };
    for (policy, name, word) in [
        (Policy::default(), &b"disk"[..], "no such export"),
        (Policy::default(), b"\xff", "no such export"),
        (Policy { tls: Tls::On, ..Policy::default() }, b"secret", "TLS"),
        (requires, b"card", "TLS"),
        (Policy::default(), b"strict", "block sizes"),
        (Policy::default(), &[b'a'; OPTION_DATA_MAX + 1], "too long"),
    ] {
        let mut talk = Talk::with(policy, 3);
        assert_eq!(talk.say(&option(1, name)), []);
        let Closed::Export { why, .. } = talk.closed() else { panic!("{:?}", talk.closed()) };
        assert!(why.contains(word), "{why}");
    }
    // "Once extended headers are successfully requested, a client MUST NOT use NBD_OPT_EXPORT_NAME."
    let mut talk = Talk::new();
    assert_eq!(talk.say(&option(11, &[])), reply(11, ACK, &[]));
    assert_eq!(talk.say(&option(1, b"card")), []);
    assert!(matches!(talk.closed(), Closed::Export { .. }));
}

/// "Fixed newstyle negotiation": without it, only `NBD_OPT_EXPORT_NAME` is valid.
#[test]
fn without_fixed_newstyle_other_options_end_the_session() {
    let mut talk = Talk::with(Policy::default(), 0);
    assert_eq!(talk.say(&option(7, &wants("card", &[]))), []);
    assert_eq!(*talk.closed(), Closed::NotFixedNewstyle(OptionType::Go));
    // "The server MUST operate in NOTLS mode unless" both sides are fixed newstyle.
    let mut talk = Talk::with(Policy { tls: Tls::On, ..Policy::default() }, 2);
    assert_eq!(talk.say(&option(5, &[])), []);
    assert_eq!(*talk.closed(), Closed::NotFixedNewstyle(OptionType::StartTls));
}

/// "`NBD_OPT_ABORT`": acknowledged with and without data.
#[test]
fn abort_is_acknowledged() {
    for data in [&[][..], &[0; 100_000]] {
        let mut talk = Talk::new();
        assert_eq!(talk.say(&option(2, data)), reply(2, ACK, &[]));
        assert_eq!(*talk.closed(), Closed::Abort);
    }
}

/// "`NBD_OPT_LIST`".
#[test]
fn list_names_the_exports() {
    let card = reply(3, SERVER, &[&string("card")[..], b"a card"].concat());
    let (strict, done) = (reply(3, SERVER, &string("strict")), reply(3, ACK, &[]));
    let mut talk = Talk::new();
    assert_eq!(talk.say(&option(3, &[])), [card, strict, done].concat(), "what needs TLS is left out");
    talk.refused(3, b"?", INVALID);
}

/// "`NBD_OPT_INFO` and `NBD_OPT_GO`".
#[test]
fn info_and_go_tell_of_the_export_and_what_is_asked_for() {
    let (name, words) = (b"\0\x01card", b"\0\x02a card");
    let sizes = [&3u16.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0x40, 0, 2, 0, 0, 0]].concat();
    for number in [6, 7] {
        let export = reply(number, INFO, &info_export(0x1234_5600, FLAGS));
        let (name, words) = (reply(number, INFO, name), reply(number, INFO, words));
        let (sizes, done) = (reply(number, INFO, &sizes), reply(number, ACK, &[]));
        for (wanted, answer) in [
            (&[][..], [&export[..], &done].concat()),
            (&[0], [&export[..], &done].concat()),
            (&[3, 1, 2, 77], [&export[..], &name, &words, &sizes, &done].concat()),
            (&[2, 2], [&export[..], &words, &done].concat()),
        ] {
            let mut talk = Talk::new();
            assert_eq!(talk.say(&option(number, &wants("card", wanted))), answer);
            assert_eq!(talk.event == Event::Opened, number == 7);
            // The reply contains the name of the default export.
            let mut talk = Talk::new();
            assert_eq!(talk.say(&option(number, &wants("", wanted))), answer);
        }
    }
}

#[test]
fn info_and_go_refuse_what_makes_no_sense() {
    let mut talk = Talk::new();
    for number in [6, 7] {
        talk.refused(number, &wants("disk", &[]), UNKNOWN);
        talk.refused(number, &[], INVALID);
        talk.refused(number, &[0, 0, 0, 9, b'c', 0, 0], INVALID);
        talk.refused(number, &[0xff; 6], INVALID);
        talk.refused(number, &[&wants("card", &[])[..], &[0]].concat(), INVALID);
        talk.refused(number, &[string("card"), vec![0, 2, 0, 3]].concat(), INVALID);
        talk.refused(number, &wants("a\0b", &[]), INVALID);
        talk.refused(number, &wants(&"a".repeat(4097), &[]), INVALID);
        talk.refused(number, &[&[0, 0, 0, 1, 0xff, 0, 0][..]].concat(), INVALID);
    }
    assert_eq!(talk.opened(&wants("card", &[])).len(), 20 + 12 + 20);
}

/// "`NBD_REP_ERR_BLOCK_SIZE_REQD`": sent after the block sizes.
#[test]
fn strict_exports_want_their_block_sizes_asked_for() {
    let sizes = [&3u16.to_be_bytes()[..], &[0, 0, 0x10, 0, 0, 0, 0x10, 0, 2, 0, 0, 0]].concat();
    for number in [6, 7] {
        let sizes = reply(number, INFO, &sizes);
        let mut talk = Talk::new();
        let sent = talk.say(&option(number, &wants("strict", &[1])));
        let words = sent[sizes.len() + 20..].to_vec();
        assert_eq!(sent, [sizes.clone(), reply(number, BLOCK_SIZE_REQD, &words)].concat());
        let sent = talk.say(&option(number, &wants("strict", &[3])));
        let export = reply(number, INFO, &info_export(8192, FLAGS));
        assert_eq!(sent, [export, sizes, reply(number, ACK, &[])].concat());
    }
}

/// "NOTLS mode".
#[test]
fn tls_off() {
    let mut talk = Talk::new();
    talk.refused(5, &[], POLICY);
    talk.refused(5, &[1], INVALID);
    // "MUST NOT respond to any option request with NBD_REP_ERR_TLS_REQD".
    talk.refused(7, &wants("secret", &[]), POLICY);
}

/// "SELECTIVETLS mode", and "`NBD_OPT_STARTTLS`": the server discards all negotiation state.
#[test]
fn tls_on_forgets_what_was_agreed_on_and_what_was_sent_in_the_clear() {
    let mut talk = Talk::with(Policy { tls: Tls::On, ..Policy::default() }, 3);
    talk.refused(7, &wants("secret", &[]), TLS_REQD);
    talk.refused(6, &wants("secret", &[]), TLS_REQD);
    assert_eq!(talk.say(&option(8, &[])), reply(8, ACK, &[]));
    assert_eq!(talk.say(&option(11, &[])), reply(11, ACK, &[]));
    let query = queries("card", &["base:allocation"]);
    assert_eq!(talk.say(&option(10, &query)).len(), 20 + 4 + 15 + 20);
    talk.refused(5, b"x", INVALID);
    // An attacker in the middle has injected options behind this one (CVE-2021-3716).
    let injected = [option(5, &[]), option(8, &[]), option(7, &wants("card", &[]))].concat();
    assert_eq!(talk.say(&injected), reply(5, ACK, &[]));
    assert_eq!(talk.event, Event::StartTls);
    assert_eq!(talk.say(&option(3, &[])), [], "before TLS has started nothing is taken");
    assert_eq!(talk.event, Event::StartTls);
    talk.session.tls_started();
    talk.refused(5, &[], INVALID);
    talk.refused(10, &query, INVALID);
    let export = reply(7, INFO, &info_export(1024, FLAGS));
    assert_eq!(talk.opened(&wants("secret", &[])), [export, reply(7, ACK, &[])].concat());
    assert_eq!(talk.session.replies().unwrap().style(), Style::Simple);
    assert!(talk.session.contexts().is_empty());
}

/// "FORCEDTLS mode".
#[test]
fn tls_required_before_anything_else() {
    let policy = Policy { tls: Tls::Require, ..Policy::default() };
    let mut talk = Talk::with(policy, 3);
    for number in [3, 6, 7, 8, 9, 10, 11, 4, 0xdead] {
        talk.refused(number, &[], TLS_REQD);
    }
    talk.refused(0xdead, &vec![0; OPTION_DATA_MAX + 1], TLS_REQD);
    assert_eq!(talk.say(&option(2, &[])), reply(2, ACK, &[]), "but abort");
    let mut talk = Talk::with(policy, 3);
    assert_eq!(talk.say(&option(5, &[])), reply(5, ACK, &[]));
    talk.session.tls_started();
    talk.refused(0xdead, &[], UNSUP);
    let list = talk.say(&option(3, &[]));
    assert!(list.windows(6).any(|window| window == b"secret"));
}

/// "`NBD_OPT_STRUCTURED_REPLY`", "`NBD_FLAG_SEND_DF`".
#[test]
fn structured_replies_bring_df() {
    let mut talk = Talk::new();
    talk.refused(8, &[0], INVALID);
    assert_eq!(talk.say(&option(8, &[])), reply(8, ACK, &[]));
    let sent = talk.opened(&wants("card", &[]));
    assert_eq!(sent, [reply(7, INFO, &info_export(0x1234_5600, FLAGS_DF)), reply(7, ACK, &[])].concat());
    assert_eq!(talk.session.replies().unwrap().style(), Style::Structured);
    let mut talk = Talk::with(Policy { structured: false, ..Policy::default() }, 3);
    talk.refused(8, &[], UNSUP);
}

/// "`NBD_OPT_EXTENDED_HEADERS`" (extension-ext-header).
#[test]
fn extended_headers_take_precedence() {
    let mut talk = Talk::new();
    talk.refused(11, &[0], INVALID);
    assert_eq!(talk.say(&option(8, &[])), reply(8, ACK, &[]));
    assert_eq!(talk.say(&option(11, &[])), reply(11, ACK, &[]));
    talk.refused(8, &[], EXT_HEADER_REQD);
    talk.refused(11, &[], INVALID);
    assert_eq!(talk.say(&option(10, &queries("card", &["x-flashlab:wear"]))).len(), 20 + 4 + 15 + 20);
    // NBD_FLAG_BLOCK_STATUS_PAYLOAD is set only if contexts were selected for this export.
    let sent = talk.say(&option(6, &wants("", &[])));
    assert_eq!(sent, [reply(6, INFO, &info_export(0x1234_5600, FLAGS_DF)), reply(6, ACK, &[])].concat());
    let sent = talk.opened(&wants("card", &[]));
    let flags = FLAGS_DF | 1 << 12;
    assert_eq!(sent, [reply(7, INFO, &info_export(0x1234_5600, flags)), reply(7, ACK, &[])].concat());
    assert_eq!(talk.session.replies().unwrap().style(), Style::Extended);
    let mut talk = Talk::with(Policy { extended: false, ..Policy::default() }, 3);
    talk.refused(11, &[], UNSUP);
}

/// "`NBD_OPT_LIST_META_CONTEXT`", "`NBD_OPT_SET_META_CONTEXT`", "The `base:` metadata namespace".
#[test]
fn contexts_are_listed_and_chosen() {
    let mut talk = Talk::new();
    talk.refused(9, &queries("card", &[]), INVALID);
    talk.refused(10, &queries("card", &[]), INVALID);
    talk.say(&option(8, &[]));
    let base = |number, id| reply(number, META, &context(id, "base:allocation"));
    let mapped = |number, id| reply(number, META, &context(id, "x-flashlab:mapped"));
    let done = |number| reply(number, ACK, &[]);
    for (asked, answer) in [
        // Without a query, the list contains all contexts except those that need extended headers.
        (&[][..], [base(9, 0), mapped(9, 0), done(9)].concat()),
        (&["base:"], [base(9, 0), done(9)].concat()),
        (&["x-flashlab:"], [mapped(9, 0), done(9)].concat()),
        (&["x-flashlab:mapped", "x-flashlab:mapped", "base:"], [base(9, 0), mapped(9, 0), done(9)].concat()),
        (&["qemu:dirty-bitmap:b", "base:nothing", "x-flashlab:wear"], done(9)),
    ] {
        assert_eq!(talk.say(&option(9, &queries("card", asked))), answer, "{asked:?}");
    }
    for (asked, answer) in [
        (&[][..], done(10)),
        (&["base:"], done(10)),
        (&["x-flashlab:"], done(10)),
        (&["x-flashlab:wear"], done(10)),
        (
            &["qemu:dirty-bitmap:b", "x-flashlab:mapped", "base:allocation"],
            [base(10, 0), mapped(10, 1), done(10)].concat(),
        ),
    ] {
        assert_eq!(talk.say(&option(10, &queries("card", asked))), answer, "{asked:?}");
    }
    talk.opened(&wants("card", &[]));
    assert_eq!(talk.session.contexts().iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn contexts_hold_for_the_name_that_they_were_chosen_for_and_until_the_next_choice() {
    let asked = option(10, &queries("card", &["base:allocation"]));
    let chosen = |between: &[Vec<u8>], name: &str| {
        let mut talk = Talk::new();
        talk.say(&option(8, &[]));
        talk.say(&asked);
        for option in between {
            talk.say(option);
        }
        talk.opened(&wants(name, &[3]));
        talk.session.contexts().len()
    };
    assert_eq!(chosen(&[], "card"), 1);
    assert_eq!(chosen(&[], ""), 0, "the same export by another name");
    assert_eq!(chosen(&[], "strict"), 0);
    assert_eq!(chosen(&[option(10, &queries("card", &[]))], "card"), 0, "none were chosen at last");
    assert_eq!(
        chosen(&[option(10, &queries("disk", &["base:allocation"]))], "card"),
        0,
        "a failed choice clears"
    );
    assert_eq!(chosen(&[option(10, b"?")], "card"), 0, "however it fails");
    assert_eq!(chosen(&[option(10, &vec![0; OPTION_DATA_MAX + 1])], "card"), 0, "too big, for example");
    assert_eq!(chosen(&[option(9, &queries("card", &[])), option(3, &[])], "card"), 1, "others do not");
}

#[test]
fn queries_that_make_no_sense_are_refused() {
    let mut talk = Talk::new();
    talk.say(&option(8, &[]));
    for number in [9, 10] {
        talk.refused(number, &queries("disk", &[]), UNKNOWN);
        talk.refused(number, &queries("card", &["allocation"]), INVALID);
        talk.refused(number, &queries("card", &[""]), INVALID);
        talk.refused(number, &[], INVALID);
        talk.refused(number, &[&queries("card", &["base:"])[..], &[0]].concat(), INVALID);
        talk.refused(number, &[string("card"), vec![0, 0, 0, 2], string("base:")].concat(), INVALID);
        talk.refused(number, &[string("card"), vec![0xff; 4]].concat(), INVALID);
        talk.refused(number, &queries("card", &[&format!("base:{}", "a".repeat(4096))]), INVALID);
        talk.refused(number, &[&string("card")[..], &[0, 0, 0, 1, 0, 0, 0, 9, b'b']].concat(), INVALID);
    }
}

/// "Baseline": unknown options get `NBD_REP_ERR_UNSUP`, and the session parses the next message correctly.
#[test]
fn unknown_options_are_refused_and_skipped() {
    let mut talk = Talk::new();
    for number in [0, 4, 12, u32::MAX] {
        talk.refused(number, &[], UNSUP);
        talk.refused(number, &[7; 1000], UNSUP);
        talk.refused(number, &vec![7; OPTION_DATA_MAX], UNSUP);
        talk.refused(number, &vec![7; OPTION_DATA_MAX + 1], TOO_BIG);
        talk.refused(number, &vec![7; 1 << 20], TOO_BIG);
    }
    talk.opened(&wants("card", &[]));
}

#[test]
fn the_number_of_options_has_a_bound() {
    let mut talk = Talk::with(Policy { options_max: 5, ..Policy::default() }, 3);
    for _ in 0..5 {
        talk.refused(99, &[], UNSUP);
    }
    assert_eq!(talk.say(&option(99, &[])), []);
    assert_eq!(*talk.closed(), Closed::TooManyOptions);
}

#[test]
fn what_is_not_an_option_ends_the_session() {
    let mut talk = Talk::new();
    assert_eq!(talk.say(b"GET / HTTP/1.1\r\n\r\n"), []);
    assert!(matches!(talk.closed(), Closed::Magic(_)));
}

/// "Termination of the session during option haggling".
#[test]
fn a_server_that_shuts_down_says_so() {
    let mut talk = Talk::new();
    talk.session.shut_down();
    for number in [3, 6, 7, 8, 99] {
        talk.refused(number, &[], SHUTDOWN);
    }
    assert_eq!(talk.say(&option(2, &[])), reply(2, ACK, &[]));
    let mut talk = Talk::new();
    talk.session.shut_down();
    assert_eq!(talk.say(&option(1, b"card")), []);
    assert!(matches!(talk.closed(), Closed::Export { .. }));
}

/// "Transmission flags": some flags follow from the negotiation or from other flags.
#[test]
fn flags_that_follow_from_the_session_are_its_own() {
    use TransmissionFlags as T;
    let mut export = Export::new("", 512);
    export.flags = T::SEND_FAST_ZERO | T::SEND_DF | T::BLOCK_STATUS_PAYLOAD | T::SEND_RESIZE | T::READ_ONLY;
    let mut sent = Vec::new();
    let mut session = Session::new(Policy::default(), Arc::new(vec![export]), &mut sent);
    sent.clear();
    let bytes = [&[0, 0, 0, 3][..], &option(1, b"")].concat();
    assert_eq!(session.receive(&bytes, &mut sent).event, Event::Opened);
    assert_eq!(sent, [&512u64.to_be_bytes()[..], &[0, 3]].concat(), "HAS_FLAGS, READ_ONLY");
}
