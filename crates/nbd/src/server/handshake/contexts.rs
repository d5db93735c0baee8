//! Metadata contexts in the handshake, and the flags and contexts that result for an export (proto.md, "Metadata
//! querying", "Transmission flags").

use super::{Error, Handshake, error};
use crate::server::{ContextSet, Export, MetaContext, Style};
use crate::wire::{
    ContextEntry, ContextQuery, OptionReplyHeader, OptionReplyType, OptionType, TransmissionFlags,
};
use alloc::string::ToString;
use alloc::vec::Vec;

impl Handshake {
    /// Handles "`NBD_OPT_LIST_META_CONTEXT`" and "`NBD_OPT_SET_META_CONTEXT`". Appends all replies except the final
    /// one.
    pub(super) fn meta_context(
        &mut self,
        option: OptionType,
        data: &[u8],
        to: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if self.negotiated.style() == Style::Simple {
            return error(OptionReplyType::ErrInvalid, "metadata contexts need structured replies");
        }
        let query = match ContextQuery::parse(data) {
            Ok(query) => query,
            Err(wrong) => return error(OptionReplyType::ErrInvalid, wrong),
        };
        if let Some(query) = query.queries().find(|query| !query.contains(':')) {
            return error(OptionReplyType::ErrInvalid, format_args!("the query {query:?} has no namespace"));
        }
        let export = self.find(query.name)?;
        let list = option == OptionType::ListMetaContext;
        let mut chosen = ContextSet::NONE;
        for (position, context) in self.available(&export) {
            let matches = |query: &str| {
                // A namespace alone is a wildcard, but only in a list.
                query == context.name || list && query.ends_with(':') && context.name.starts_with(query)
            };
            let all = list && query.is_empty();
            if !all && !query.queries().any(matches) {
                continue;
            }
            chosen.insert(position);
            // "The metadata context ID in these replies is reserved and SHOULD be set to zero", in a list.
            let id = if list { 0 } else { position as u32 };
            let mut data = Vec::new();
            ContextEntry { id, name: &context.name }.emit(&mut data);
            OptionReplyHeader::emit_with(option, OptionReplyType::MetaContext, &data, to);
        }
        if !list {
            self.negotiated.contexts = Some((query.name.to_string(), chosen));
        }
        Ok(())
    }

    /// Returns the contexts that are available with the negotiated headers, with their positions.
    fn available<'a>(&self, export: &'a Export) -> impl Iterator<Item = (usize, &'a MetaContext)> + use<'a> {
        let extended = self.negotiated.extended;
        let contexts = export.contexts.iter().take(64).enumerate();
        contexts.filter(move |(_, context)| extended || !context.wide)
    }

    /// Returns the transmission flags and the negotiated contexts of an export that the client selects by this name.
    pub(super) fn flags_and_contexts(&self, export: &Export, name: &str) -> (TransmissionFlags, ContextSet) {
        use TransmissionFlags as T;
        let contexts = match &self.negotiated.contexts {
            // Selected contexts that are no longer available are dropped.
            Some((export_name, chosen)) if export_name == name => {
                let mut contexts = ContextSet::NONE;
                self.available(export)
                    .filter(|(position, _)| chosen.contains(*position))
                    .for_each(|(position, _)| contexts.insert(position));
                contexts
            }
            _ => ContextSet::NONE,
        };
        let style = self.negotiated.style();
        let zeroes = export.flags.contains(T::SEND_WRITE_ZEROES);
        let flags =
            export.flags.without(T::SEND_DF | T::BLOCK_STATUS_PAYLOAD | T::SEND_RESIZE).with(T::HAS_FLAGS);
        // "MUST leave this flag clear if structured replies have not been negotiated"; "MUST set this transmission flag
        // to 0 if NBD_FLAG_SEND_WRITE_ZEROES is not set".
        let flags = if zeroes { flags } else { flags.without(T::SEND_FAST_ZERO) };
        let flags = flags
            .with_if(style != Style::Simple, T::SEND_DF)
            .with_if(style == Style::Extended && !contexts.is_empty(), T::BLOCK_STATUS_PAYLOAD);
        (flags, contexts)
    }
}
