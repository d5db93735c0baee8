//! Option haggling on the client's side (proto.md, "Handshake", "Client-side requirements" of TLS).
//!
//! The client negotiates one option at a time, as far as [`ClientConfig`] requests them: TLS, extended
//! headers, structured replies (without extended headers), metadata contexts, and finally the option that
//! [`ClientConfig::goal`] requires.

use super::transmission::Transmission;
use super::{
    ClientConfig, ClientError, Event, ExportInfo, Goal, OPTION_REPLIES_MAX, OPTION_REPLY_DATA_MAX, Received,
    Tls,
};
use crate::wire::{
    ChunkLayout, ClientFlags, ContextEntry, ContextQuery, ExportEntry, ExportNameReply, ExportQuery,
    Greeting, HandshakeFlags, Info, InfoType, OptionHeader, OptionReplyHeader, OptionReplyType, OptionType,
    RequestLayout, STRING_MAX,
};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The handshake phase of a session.
pub(super) struct Handshake {
    config: ClientConfig,
    /// The option in flight; `None` before the greeting.
    option_in_flight: Option<OptionType>,
    zeroes: bool,
    tls: bool,
    structured: bool,
    extended: bool,
    export: ExportInfo,
    /// True once the server has sent `NBD_INFO_EXPORT` in reply to the last `NBD_OPT_INFO` or `NBD_OPT_GO`.
    export_received: bool,
    exports: Vec<(String, String)>,
    contexts: Vec<(u32, String)>,
    /// Total bytes of option replies. The limit [`OPTION_REPLIES_MAX`] guards against a server that never stops
    /// replying.
    total_reply_bytes: usize,
}

/// Maximum number of selected metadata contexts: the client tracks them in a 64-bit mask.
const CONTEXTS_MAX: usize = 64;

impl Handshake {
    pub(super) fn new(config: ClientConfig) -> Handshake {
        Handshake {
            config,
            option_in_flight: None,
            zeroes: true,
            tls: false,
            structured: false,
            extended: false,
            export: ExportInfo::default(),
            export_received: false,
            exports: Vec::new(),
            contexts: Vec::new(),
            total_reply_bytes: 0,
        }
    }

    pub(super) fn export(&self) -> Option<&ExportInfo> {
        self.export_received.then_some(&self.export)
    }
    pub(super) fn exports(&self) -> &[(String, String)] {
        &self.exports
    }
    pub(super) fn contexts(&self) -> impl Iterator<Item = &str> {
        self.contexts.iter().map(|(_, name)| &name[..])
    }

    /// Returns the transmission phase that [`Event::Ready`] announced.
    pub(super) fn ready(&mut self) -> Transmission {
        let layout = if self.extended { RequestLayout::Extended } else { RequestLayout::Compact };
        let chunks = match (self.extended, self.structured) {
            (true, _) => Some(ChunkLayout::Extended),
            (false, true) => Some(ChunkLayout::Structured),
            _ => None,
        };
        let export = core::mem::take(&mut self.export);
        Transmission::new(
            export,
            self.config.validate_requests,
            layout,
            chunks,
            core::mem::take(&mut self.contexts),
        )
    }

    pub(super) fn tls_started(&mut self, to: &mut Vec<u8>) {
        self.tls = true;
        self.next(OptionType::StartTls, to);
    }

    pub(super) fn abort(&mut self, to: &mut Vec<u8>) {
        self.send_option(OptionType::Abort, &[], to);
    }

    /// Parses option replies up to the next event.
    pub(super) fn receive(&mut self, bytes: &[u8], to: &mut Vec<u8>) -> Result<Received, ClientError> {
        let mut consumed = 0;
        loop {
            let Some(option) = self.option_in_flight else { return self.greeting(bytes, to) };
            let rest = &bytes[consumed..];
            if option == OptionType::ExportName {
                return Ok(self.export_name(bytes, consumed));
            }
            let need = |count| Ok(Received { consumed, event: Event::Need(count) });
            let header = match OptionReplyHeader::parse(rest) {
                Some(header) => header.map_err(ClientError::Magic)?,
                None => return need(OptionReplyHeader::LEN),
            };
            let OptionReplyHeader { option: reply_to, reply, length } = header;
            if reply_to != option {
                return Err(ClientError::UnexpectedReply { option, reply_to, reply });
            }
            let length = OptionReplyHeader::LEN + length as usize;
            self.total_reply_bytes =
                self.total_reply_bytes.saturating_add(if rest.len() < length { 0 } else { length });
            if length - OptionReplyHeader::LEN > OPTION_REPLY_DATA_MAX
                || self.total_reply_bytes > OPTION_REPLIES_MAX
            {
                return Err(ClientError::ReplyTooLong { option });
            }
            let Some(data) = rest.get(OptionReplyHeader::LEN..length) else { return need(length) };
            consumed += length;
            let event = if reply == OptionReplyType::Ack {
                self.acknowledged(option, to)?
            } else if reply.is_error() {
                self.rejected(option, reply, data, to)?
            } else {
                self.intermediate_reply(option, reply, data)?;
                continue;
            };
            return Ok(Received { consumed, event });
        }
    }

    fn greeting(&mut self, bytes: &[u8], to: &mut Vec<u8>) -> Result<Received, ClientError> {
        let consumed = Greeting::LEN;
        let Some(greeting) = Greeting::parse(bytes) else {
            return Ok(Received { consumed: 0, event: Event::Need(consumed) });
        };
        let offered = greeting.map_err(ClientError::Magic)?.flags;
        let fixed = offered.contains(HandshakeFlags::FIXED_NEWSTYLE);
        let no_zeroes = offered.contains(HandshakeFlags::NO_ZEROES) && self.config.no_zeroes;
        self.zeroes = !no_zeroes;
        let flags = ClientFlags::NONE
            .with_if(fixed, ClientFlags::FIXED_NEWSTYLE)
            .with_if(no_zeroes, ClientFlags::NO_ZEROES);
        to.extend_from_slice(&flags.0.to_be_bytes());
        if !fixed {
            // "In non-fixed newstyle only one option can be set (NBD_OPT_EXPORT_NAME)".
            if self.config.goal != Goal::Transmission || self.config.tls == Tls::Require {
                return Err(ClientError::NotFixedNewstyle);
            }
            self.send_export_name(to);
        } else if self.config.tls == Tls::Off {
            self.next(OptionType::StartTls, to);
        } else {
            self.send_option(OptionType::StartTls, &[], to);
        }
        Ok(Received { consumed, event: Event::Send })
    }

    fn export_name(&mut self, bytes: &[u8], consumed: usize) -> Received {
        let Some(reply) = ExportNameReply::parse(&bytes[consumed..], self.zeroes) else {
            return Received { consumed, event: Event::Need(ExportNameReply::len(self.zeroes)) };
        };
        let ExportNameReply { size, flags } = reply;
        self.export = ExportInfo { size, flags, ..ExportInfo::default() };
        Received { consumed: consumed + ExportNameReply::len(self.zeroes), event: Event::Ready }
    }

    /// Handles an acknowledgement of the option in flight.
    fn acknowledged(&mut self, option: OptionType, to: &mut Vec<u8>) -> Result<Event, ClientError> {
        match option {
            OptionType::StartTls => return Ok(Event::StartTls),
            OptionType::ExtendedHeaders => self.extended = true,
            OptionType::StructuredReply => self.structured = true,
            OptionType::Go | OptionType::Info if !self.export_received => {
                return Err(ClientError::NoExportInfo);
            }
            OptionType::Go => return Ok(Event::Ready),
            OptionType::Abort => return Ok(Event::Closed(ClientError::Closed)),
            _ => {}
        }
        Ok(self.next(option, to))
    }

    /// Handles an error reply. Continues with the next option if the rejected one is optional.
    fn rejected(
        &mut self,
        option: OptionType,
        reply: OptionReplyType,
        data: &[u8],
        to: &mut Vec<u8>,
    ) -> Result<Event, ClientError> {
        let shutdown = reply == OptionReplyType::ErrShutdown;
        match option {
            OptionType::StartTls if self.config.tls == Tls::Try && !shutdown => {
                return Ok(self.next(option, to));
            }
            OptionType::ExtendedHeaders | OptionType::StructuredReply
                if !shutdown && reply != OptionReplyType::ErrTlsReqd =>
            {
                return Ok(self.next(option, to));
            }
            // "If an error is returned, the client MUST disregard any context replies that may have been sent."
            OptionType::ListMetaContext | OptionType::SetMetaContext
                if !shutdown && reply == OptionReplyType::ErrUnsup =>
            {
                self.contexts.clear();
                return Ok(self.next(option, to));
            }
            // "Clients SHOULD be prepared to also handle NBD_REP_ERR_UNSUP by falling back to using
            // NBD_OPT_EXPORT_NAME".
            OptionType::Go if reply == OptionReplyType::ErrUnsup && !self.extended => {
                self.send_export_name(to);
                return Ok(Event::Send);
            }
            OptionType::Abort => return Ok(Event::Closed(ClientError::Closed)),
            _ => {}
        }
        // A client that gives up has to send `NBD_OPT_ABORT` ("Termination of the session during option haggling").
        self.abort(to);
        let message = String::from_utf8_lossy(&data[..data.len().min(STRING_MAX)]).into_owned();
        Err(ClientError::Rejected { option, reply, message })
    }

    /// Handles an intermediate reply, which is neither an acknowledgement nor an error.
    fn intermediate_reply(
        &mut self,
        option: OptionType,
        reply: OptionReplyType,
        data: &[u8],
    ) -> Result<(), ClientError> {
        let wrong = |error| ClientError::MalformedReply { option, reply, error };
        match (option, reply) {
            (OptionType::List, OptionReplyType::Server) => {
                let ExportEntry { name, description } = ExportEntry::parse(data).map_err(wrong)?;
                self.exports.push((name.to_string(), description.to_string()));
            }
            (OptionType::ListMetaContext | OptionType::SetMetaContext, OptionReplyType::MetaContext) => {
                let ContextEntry { id, name } = ContextEntry::parse(data).map_err(wrong)?;
                let set = option == OptionType::SetMetaContext;
                if self.contexts.len() == CONTEXTS_MAX && set {
                    return Err(ClientError::ReplyTooLong { option });
                }
                // "Each with a unique metadata context ID" applies to selected contexts, not to listed
                // contexts.
                if set && self.contexts.iter().any(|(known, _)| *known == id) {
                    return Err(ClientError::InvalidContext(id));
                }
                self.contexts.push((id, name.to_string()));
            }
            (OptionType::Info | OptionType::Go, OptionReplyType::Info) => {
                self.info(Info::parse(data).map_err(wrong)?)?;
            }
            (OptionType::Abort, _) => {}
            _ => return Err(ClientError::UnexpectedReply { option, reply_to: option, reply }),
        }
        Ok(())
    }

    fn info(&mut self, info: Info<'_>) -> Result<(), ClientError> {
        let export = &mut self.export;
        match info {
            Info::Export { size, flags } => {
                (export.size, export.flags) = (size, flags);
                self.export_received = true;
            }
            Info::Name(name) => export.name = Some(name.to_string()),
            Info::Description(words) => export.description = Some(words.to_string()),
            Info::BlockSize { minimum, preferred, payload_max } => {
                if !minimum.is_power_of_two() || minimum > 1 << 16 {
                    return Err(ClientError::InvalidBlockSize(minimum));
                }
                export.block_sizes = Some((minimum, preferred, payload_max));
            }
            Info::Other(_) => {}
        }
        Ok(())
    }

    fn send_option(&mut self, option: OptionType, data: &[u8], to: &mut Vec<u8>) {
        OptionHeader::emit_with(option, data, to);
        self.option_in_flight = Some(option);
    }

    fn send_export_name(&mut self, to: &mut Vec<u8>) {
        let name = self.config.export.clone();
        self.send_option(OptionType::ExportName, name.as_bytes(), to);
    }

    /// Sends the option that follows `after`.
    fn next(&mut self, after: OptionType, to: &mut Vec<u8>) -> Event {
        let goal = self.config.goal;
        let mut data = Vec::new();
        let next = match after {
            OptionType::StartTls if goal == Goal::List => OptionType::List,
            OptionType::StartTls if self.config.extended && !self.config.export_name => {
                OptionType::ExtendedHeaders
            }
            OptionType::StartTls | OptionType::ExtendedHeaders
                if self.config.structured && !self.extended =>
            {
                OptionType::StructuredReply
            }
            OptionType::StartTls | OptionType::ExtendedHeaders | OptionType::StructuredReply
                if self.structured || self.extended =>
            {
                match goal {
                    Goal::Info => OptionType::ListMetaContext,
                    _ if !self.config.contexts.is_empty() => OptionType::SetMetaContext,
                    _ => OptionType::Go,
                }
            }
            OptionType::List | OptionType::Info => OptionType::Abort,
            _ => OptionType::Go,
        };
        let next = match next {
            OptionType::Go if goal == Goal::Info => OptionType::Info,
            OptionType::Go if self.config.export_name => OptionType::ExportName,
            next => next,
        };
        match next {
            OptionType::ListMetaContext | OptionType::SetMetaContext => {
                let queries: Vec<&str> = self.config.contexts.iter().map(|name| &name[..]).collect();
                ContextQuery::emit(&self.config.export, &queries, &mut data);
            }
            OptionType::Info | OptionType::Go => {
                self.export_received = false;
                let requests = [InfoType::Name, InfoType::Description, InfoType::BlockSize];
                ExportQuery::emit(&self.config.export, &requests, &mut data);
            }
            OptionType::ExportName => data.extend_from_slice(self.config.export.as_bytes()),
            _ => {}
        }
        self.send_option(next, &data, to);
        if next == OptionType::Abort { Event::InfoReceived } else { Event::Send }
    }
}
