//! Option haggling on the server's side (proto.md, "Handshake", "Option types", "TLS support").

mod contexts;

use super::transmission::Transmission;
use super::{Closed, ContextSet, Event, Export, Exports, OPTION_DATA_MAX, Policy, Received, Style, Tls};
use crate::wire::{
    ClientFlags, ExportEntry, ExportNameReply, ExportQuery, Info, InfoType, OptionHeader, OptionReplyHeader,
    OptionReplyType, OptionType, Reader,
};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The handshake phase of a session.
pub(super) struct Handshake {
    policy: Policy,
    exports: Arc<dyn Exports>,
    client: Option<ClientFlags>,
    tls: bool,
    /// True while the server waits for TLS to start. All bytes received until then are discarded.
    awaits_tls: bool,
    negotiated: Negotiated,
    options: u32,
    /// An oversized option: number of its bytes that have not arrived, and its final reply.
    skipped: Option<(u64, FinalReply)>,
    opened: Option<Transmission>,
}

/// Result of the option haggling. Starting TLS resets it.
#[derive(Clone, Default)]
struct Negotiated {
    structured: bool,
    extended: bool,
    /// Selection of the last `NBD_OPT_SET_META_CONTEXT`: name of the export, and contexts.
    contexts: Option<(String, ContextSet)>,
}

impl Negotiated {
    fn style(&self) -> Style {
        match self {
            Negotiated { extended: true, .. } => Style::Extended,
            Negotiated { structured: true, .. } => Style::Structured,
            _ => Style::Simple,
        }
    }
}

/// The final reply to an option: [`OptionReplyType::Ack`] without a message, or an error with a human-readable
/// sentence.
struct FinalReply {
    option: OptionType,
    reply: OptionReplyType,
    message: String,
}

/// Type of an error reply, and its human-readable sentence.
type Error = (OptionReplyType, String);

fn error<T>(reply: OptionReplyType, message: impl ToString) -> Result<T, Error> {
    Err((reply, message.to_string()))
}

/// Result of an option.
enum Outcome {
    Reply(Result<(), Error>),
    StartTls,
    Opened(Export, String),
    Closed(Closed),
}

impl Handshake {
    pub(super) fn new(policy: Policy, exports: Arc<dyn Exports>) -> Handshake {
        Handshake {
            policy,
            exports,
            client: None,
            tls: false,
            awaits_tls: false,
            negotiated: Negotiated::default(),
            options: 0,
            skipped: None,
            opened: None,
        }
    }

    /// Returns the transmission phase that [`Event::Opened`] announced.
    pub(super) fn opened(&mut self) -> Option<Transmission> {
        self.opened.take()
    }

    /// Resets the negotiation: "When this command succeeds, the server MUST NOT preserve any negotiation state".
    pub(super) fn tls_started(&mut self) {
        self.tls = true;
        self.awaits_tls = false;
        self.negotiated = Negotiated::default();
    }

    /// Processes at most one option.
    pub(super) fn receive(&mut self, bytes: &[u8], shutting_down: bool, to: &mut Vec<u8>) -> Received {
        if self.awaits_tls {
            // Bytes that arrive here were sent in the clear, so they are not trusted.
            return Received { consumed: bytes.len(), event: Event::StartTls };
        }
        let mut consumed = 0;
        if self.client.is_none() {
            let Some(number) = Reader::new(bytes).u32() else {
                return Received { consumed, event: Event::Need(4) };
            };
            let flags = ClientFlags(number);
            consumed += 4;
            // "The server MUST drop the TCP connection if the client sets an unknown flag".
            if !flags.without(ClientFlags::ALL).is_empty() {
                return Received { consumed, event: Event::Closed(Closed::ClientFlags(flags)) };
            }
            self.client = Some(flags);
        }
        if self.skipped.is_some() {
            return self.skip(bytes, consumed, to);
        }
        let rest = &bytes[consumed..];
        let header = match OptionHeader::parse(rest) {
            Some(Ok(header)) => header,
            Some(Err(magic)) => return Received { consumed, event: Event::Closed(Closed::Magic(magic)) },
            None => return Received { consumed, event: Event::Need(OptionHeader::LEN) },
        };
        let length = header.length as usize;
        if header.option != OptionType::Abort && length > OPTION_DATA_MAX {
            consumed += OptionHeader::LEN;
            return match self.begin_skip(header, shutting_down) {
                Ok(()) => self.skip(bytes, consumed, to),
                Err(closed) => Received { consumed, event: Event::Closed(closed) },
            };
        }
        // The data of an abort is ignored, whatever its length.
        let length = if header.option == OptionType::Abort { 0 } else { length };
        let Some(data) = rest.get(OptionHeader::LEN..OptionHeader::LEN + length) else {
            return Received { consumed, event: Event::Need(OptionHeader::LEN + length) };
        };
        consumed += OptionHeader::LEN + length;
        if let Some(closed) = self.count_option() {
            return Received { consumed, event: Event::Closed(closed) };
        }
        let event = match self.option(header.option, data, shutting_down, to) {
            Outcome::Reply(result) => {
                FinalReply::new(header.option, result).emit(to);
                Event::Send
            }
            Outcome::StartTls => {
                FinalReply::new(header.option, Ok(())).emit(to);
                self.awaits_tls = true;
                return Received { consumed: bytes.len(), event: Event::StartTls };
            }
            Outcome::Opened(export, name) => {
                let (flags, contexts) = self.flags_and_contexts(&export, &name);
                if header.option == OptionType::ExportName {
                    let zeroes = !self.client.unwrap_or_default().contains(ClientFlags::NO_ZEROES);
                    ExportNameReply { size: export.size, flags }.emit(zeroes, to);
                } else {
                    FinalReply::new(header.option, Ok(())).emit(to);
                }
                let style = self.negotiated.style();
                self.opened = Some(Transmission::new(export, flags, contexts, style, &self.policy));
                Event::Opened
            }
            Outcome::Closed(why) => Event::Closed(why),
        };
        Received { consumed, event }
    }

    /// Counts one option. Returns the reason to close if the client exceeds the limit.
    fn count_option(&mut self) -> Option<Closed> {
        self.options = self.options.saturating_add(1);
        (self.options > self.policy.options_max).then_some(Closed::TooManyOptions)
    }

    /// Begins to skip an option whose data exceeds the limit. The reply is determined now and sent once all of the
    /// option has arrived.
    fn begin_skip(&mut self, header: OptionHeader, shutting_down: bool) -> Result<(), Closed> {
        if let Some(closed) = self.count_option() {
            return Err(closed);
        }
        self.check_fixed_newstyle(header.option)?;
        if header.option == OptionType::ExportName {
            return Err(Closed::Export { name: String::new(), why: "its name is too long" });
        }
        if header.option == OptionType::SetMetaContext {
            self.negotiated.contexts = None;
        }
        let result = self.check_allowed(header.option, shutting_down).and_then(|()| {
            let length = header.length;
            error(
                OptionReplyType::ErrTooBig,
                format_args!("{length} bytes of data; the maximum is {OPTION_DATA_MAX}"),
            )
        });
        self.skipped = Some((header.length.into(), FinalReply::new(header.option, result)));
        Ok(())
    }

    /// Skips the available bytes of the oversized option, from byte `consumed` on.
    fn skip(&mut self, bytes: &[u8], mut consumed: usize, to: &mut Vec<u8>) -> Received {
        if let Some((remaining, _)) = &mut self.skipped {
            let count = (*remaining).min((bytes.len() - consumed) as u64);
            *remaining -= count;
            consumed += count as usize;
            if *remaining > 0 {
                return Received { consumed, event: Event::Need((*remaining).min(4096) as usize) };
            }
        }
        if let Some((_, reply)) = self.skipped.take() {
            reply.emit(to);
        }
        Received { consumed, event: Event::Send }
    }

    /// Rejects an option other than `NBD_OPT_EXPORT_NAME` from a client without fixed newstyle: "This is the only valid
    /// option in nonfixed newstyle negotiation."
    fn check_fixed_newstyle(&self, option: OptionType) -> Result<(), Closed> {
        let fixed = self.client.unwrap_or_default().contains(ClientFlags::FIXED_NEWSTYLE);
        let valid = fixed || option == OptionType::ExportName;
        if valid { Ok(()) } else { Err(Closed::NotFixedNewstyle(option)) }
    }

    /// Returns an error if the shutdown or a missing TLS handshake forbids the option.
    fn check_allowed(&self, option: OptionType, shutting_down: bool) -> Result<(), Error> {
        if shutting_down {
            return error(OptionReplyType::ErrShutdown, "the server is shutting down");
        }
        if self.policy.tls == Tls::Require && !self.tls && option != OptionType::StartTls {
            // "FORCEDTLS mode": the server rejects every other option, including unknown ones.
            return error(OptionReplyType::ErrTlsReqd, "this server requires TLS");
        }
        Ok(())
    }

    fn option(&mut self, option: OptionType, data: &[u8], shutting_down: bool, to: &mut Vec<u8>) -> Outcome {
        if let Err(closed) = self.check_fixed_newstyle(option) {
            return Outcome::Closed(closed);
        }
        match option {
            OptionType::Abort => {
                FinalReply::new(option, Ok(())).emit(to);
                return Outcome::Closed(Closed::Abort);
            }
            OptionType::ExportName => return self.export_name(data, shutting_down),
            // "Issuing this command replaces all previously-set metadata contexts (including when this command fails)".
            OptionType::SetMetaContext => self.negotiated.contexts = None,
            _ => {}
        }
        if let Err(error) = self.check_allowed(option, shutting_down) {
            return Outcome::Reply(Err(error));
        }
        match option {
            OptionType::List => Outcome::Reply(empty(data).map(|()| self.list(to))),
            OptionType::StartTls => match empty(data).and_then(|()| self.start_tls()) {
                Ok(()) => Outcome::StartTls,
                Err(error) => Outcome::Reply(Err(error)),
            },
            OptionType::Info | OptionType::Go => match self.info(option, data, to) {
                Ok(opened) if option == OptionType::Go => Outcome::Opened(opened.0, opened.1),
                result => Outcome::Reply(result.map(|_| ())),
            },
            OptionType::StructuredReply => Outcome::Reply(self.structured_reply(data)),
            OptionType::ExtendedHeaders => Outcome::Reply(self.extended_headers(data)),
            OptionType::ListMetaContext | OptionType::SetMetaContext => {
                Outcome::Reply(self.meta_context(option, data, to))
            }
            _ => Outcome::Reply(error(
                OptionReplyType::ErrUnsup,
                format_args!("option {option} is not supported"),
            )),
        }
    }

    /// Handles "`NBD_OPT_EXPORT_NAME`". An unavailable export ends the session, because this option has no error
    /// reply.
    fn export_name(&self, data: &[u8], shutting_down: bool) -> Outcome {
        let name = String::from_utf8_lossy(data).into_owned();
        let found = self.check_allowed(OptionType::ExportName, shutting_down).and_then(|()| self.find(&name));
        let why = match found {
            // "Once extended headers are successfully requested, a client MUST NOT use NBD_OPT_EXPORT_NAME."
            Ok(_) if self.negotiated.extended => "extended headers were negotiated",
            Ok(export) if export.block_size_required => "the client did not request the block sizes",
            Ok(export) => return Outcome::Opened(export, name),
            Err((OptionReplyType::ErrTlsReqd, _)) => "it requires TLS",
            Err((OptionReplyType::ErrShutdown, _)) => "the server is shutting down",
            Err(_) => "there is no such export",
        };
        Outcome::Closed(Closed::Export { name, why })
    }

    /// Returns the export with this name, or an error if there is none or the session must not use it.
    fn find(&self, name: &str) -> Result<Export, Error> {
        match self.exports.find(name) {
            // A server without TLS cannot ask for TLS ("NOTLS mode").
            Some(export) if export.tls_required && !self.tls => match self.policy.tls {
                Tls::Off => error(
                    OptionReplyType::ErrPolicy,
                    "this export requires TLS, which this server does not support",
                ),
                _ => error(OptionReplyType::ErrTlsReqd, "this export requires TLS"),
            },
            Some(export) => Ok(export),
            None => error(OptionReplyType::ErrUnknown, format_args!("there is no export {name:?}")),
        }
    }

    /// Handles "`NBD_OPT_LIST`". Appends all replies except the final one.
    fn list(&self, to: &mut Vec<u8>) {
        for listed in self.exports.list() {
            if listed.tls_required && !self.tls {
                continue;
            }
            let mut data = Vec::new();
            ExportEntry { name: &listed.name, description: &listed.description }.emit(&mut data);
            OptionReplyHeader::emit_with(OptionType::List, OptionReplyType::Server, &data, to);
        }
    }

    /// Handles "`NBD_OPT_STARTTLS`".
    fn start_tls(&self) -> Result<(), Error> {
        if self.tls {
            return error(OptionReplyType::ErrInvalid, "TLS has started already");
        }
        match self.policy.tls {
            Tls::Off => error(OptionReplyType::ErrPolicy, "this server does not support TLS"),
            Tls::On | Tls::Require => Ok(()),
        }
    }

    /// Handles "`NBD_OPT_INFO` and `NBD_OPT_GO`". Appends all replies except the final one. Returns the export, and
    /// the name that the client requested.
    fn info(&self, option: OptionType, data: &[u8], to: &mut Vec<u8>) -> Result<(Export, String), Error> {
        let query = match ExportQuery::parse(data) {
            Ok(query) => query,
            Err(wrong) => return error(OptionReplyType::ErrInvalid, wrong),
        };
        let export = self.find(query.name)?;
        let mut send_info = |info: Info<'_>| {
            let mut data = Vec::new();
            info.emit(&mut data);
            OptionReplyHeader::emit_with(option, OptionReplyType::Info, &data, to);
        };
        let sizes = Info::BlockSize {
            minimum: export.block_minimum,
            preferred: export.block_preferred,
            payload_max: export.payload_max,
        };
        if export.block_size_required && !query.is_requested(InfoType::BlockSize) {
            // "SHOULD ensure it first sends an NBD_INFO_BLOCK_SIZE information reply".
            send_info(sizes);
            return error(
                OptionReplyType::ErrBlockSizeReqd,
                "a client has to request the block sizes of this export",
            );
        }
        let (flags, _) = self.flags_and_contexts(&export, query.name);
        send_info(Info::Export { size: export.size, flags });
        if query.is_requested(InfoType::Name) {
            send_info(Info::Name(&export.name));
        }
        if query.is_requested(InfoType::Description) && !export.description.is_empty() {
            send_info(Info::Description(&export.description));
        }
        if query.is_requested(InfoType::BlockSize) {
            send_info(sizes);
        }
        let name = query.name.to_string();
        Ok((export, name))
    }

    /// Handles "`NBD_OPT_STRUCTURED_REPLY`".
    fn structured_reply(&mut self, data: &[u8]) -> Result<(), Error> {
        empty(data)?;
        if !self.policy.structured {
            return error(OptionReplyType::ErrUnsup, "structured replies are turned off");
        }
        if self.negotiated.extended {
            return error(OptionReplyType::ErrExtHeaderReqd, "extended headers were negotiated already");
        }
        self.negotiated.structured = true;
        Ok(())
    }

    /// Handles "`NBD_OPT_EXTENDED_HEADERS`".
    fn extended_headers(&mut self, data: &[u8]) -> Result<(), Error> {
        empty(data)?;
        if !self.policy.extended {
            return error(OptionReplyType::ErrUnsup, "extended headers are turned off");
        }
        if self.negotiated.extended {
            // QEMU's server replies with this error, and libnbd expects it.
            return error(OptionReplyType::ErrInvalid, "extended headers were negotiated already");
        }
        self.negotiated.extended = true;
        Ok(())
    }
}

/// Rejects the data of an option that must not have data.
fn empty(data: &[u8]) -> Result<(), Error> {
    if data.is_empty() { Ok(()) } else { error(OptionReplyType::ErrInvalid, "this option takes no data") }
}

impl FinalReply {
    fn new(option: OptionType, result: Result<(), Error>) -> FinalReply {
        let (reply, message) = result.err().unwrap_or((OptionReplyType::Ack, String::new()));
        FinalReply { option, reply, message }
    }
    fn emit(&self, to: &mut Vec<u8>) {
        let message = &self.message.as_bytes()[..self.message.floor_char_boundary(crate::wire::STRING_MAX)];
        OptionReplyHeader::emit_with(self.option, self.reply, message, to);
    }
}
