//! Extension registers (CMD48, CMD49): their locations, the cache, and the power-off notification.

use super::card::{CardInfo, ExtensionAt};
use super::command::{
    CommandType, Data, Direction, MmcCommand, MmcRequest, MmcResponseType, SpiResponseType,
};
use super::log::{Event, Phase};
use super::send::Bytes;
use super::{Error, Mmc};
use flashlab_sd::opcode;
use flashlab_sim::{Duration, fault};

/// Bytes that one CMD48 or CMD49 transfers.
const PAGE: usize = 512;
/// Maximum busy time after CMD49.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
/// Offsets of the bytes in the performance page that enable and flush the cache.
const CACHE_ENABLE: u16 = 260;
const CACHE_FLUSH: u16 = 261;
/// Standard function codes.
const POWER_MANAGEMENT: u16 = 1;
const PERFORMANCE: u16 = 2;

impl Mmc {
    /// Reads `length` bytes of a register from `at` on with CMD48.
    fn read_extension(&mut self, card: &CardInfo, at: ExtensionAt, length: u32) -> Result<[u8; PAGE], Error> {
        let cmd = MmcCommand::new(
            opcode::READ_EXTR_SINGLE,
            argument(at) | (length - 1),
            MmcResponseType::R1,
            CommandType::Data,
            SpiResponseType::Nothing,
        );
        let limit = card.limit(false, self.ios.clock_hz);
        self.read_register(cmd, limit)
    }

    /// Writes one byte with CMD49. The card may be busy afterwards.
    fn write_extension(&mut self, card: &CardInfo, at: ExtensionAt, byte: u8) -> Result<(), Error> {
        let cmd = MmcCommand::new(
            opcode::WRITE_EXTR_SINGLE,
            argument(at),
            MmcResponseType::R1,
            CommandType::Data,
            SpiResponseType::Nothing,
        );
        let limit = card.limit(true, self.ios.clock_hz);
        let data = Data { direction: Direction::Write, block: PAGE as u32, blocks: 1, limit };
        let mut page = [0; PAGE];
        page[0] = byte;
        let done = self.run(&MmcRequest::with_data(cmd, data), Bytes::Write(&page), 0);
        done.error().map_or(Ok(()), Err)
    }

    /// Reads the general information and the listed extensions that the host uses.
    pub(super) fn read_extensions(&mut self, card: &mut CardInfo) -> Result<(), Error> {
        let general = self.read_extension(card, ExtensionAt::default(), PAGE as u32)?;
        let revision = u16::from_le_bytes([general[0], general[1]]);
        let length = usize::from(u16::from_le_bytes([general[2], general[3]]));
        if revision != 0 || length > PAGE {
            self.note(|| Event::Warning("non-supported SD ext reg layout"));
            return Ok(());
        }
        let mut next = 16;
        for _ in 0..general[4] {
            // An extension that lies beyond the end of the general information ends the list.
            let Some(entry) = general.get(next..next + 48) else { break };
            let code = u16::from_le_bytes([entry[0], entry[1]]);
            next = usize::from(u16::from_le_bytes([entry[40], entry[41]]));
            let registers = entry[42];
            let place = u32::from_le_bytes([entry[44], entry[45], entry[46], entry[47]]);
            let at = ExtensionAt {
                function: (place >> 18 & 0xf) as u8,
                page: (place >> 9 & 0xff) as u8,
                offset: (place & 0x1ff) as u16,
            };
            // Linux accepts only extensions with one register set.
            if registers != 1 || !matches!(code, POWER_MANAGEMENT | PERFORMANCE) {
                continue;
            }
            let page = self.read_extension(card, at, PAGE as u32)?;
            if code == POWER_MANAGEMENT {
                card.extensions.power_off = (page[1] & 1 << 4 != 0).then_some(at);
            } else {
                card.extensions.cache = (page[4] & 1 != 0).then_some(at);
            }
        }
        Ok(())
    }

    /// Enables the cache, if the card has one.
    pub(super) fn enable_cache(&mut self, card: &mut CardInfo) -> Result<(), Error> {
        card.extensions.cache_enabled = false;
        let Some(at) = card.extensions.cache else { return Ok(()) };
        self.write_extension(card, ExtensionAt { offset: at.offset + CACHE_ENABLE, ..at }, 1)?;
        card.extensions.cache_enabled = self.wait_while_busy(card.address, WRITE_LIMIT).is_ok();
        Ok(())
    }

    /// Returns true if the card has a cache that is enabled.
    pub fn caches(&self) -> bool {
        self.card
            .as_ref()
            .is_some_and(|card| card.extensions.cache.is_some() && card.extensions.cache_enabled)
    }

    /// Flushes the cache and checks that the card reports the end of the flush. A card without a cache receives no
    /// command.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.poll();
        self.enter(Phase::Flush);
        self.awake()?;
        if fault("driver-forgets-to-flush") {
            return Ok(());
        }
        let Some(card) = self.card.clone() else { return Err(Error::NoCard) };
        let Some(at) = card.extensions.cache.filter(|_| card.extensions.cache_enabled) else { return Ok(()) };
        let at = ExtensionAt { offset: at.offset + CACHE_FLUSH, ..at };
        self.write_extension(&card, at, 1)?;
        self.wait_while_busy(card.address, WRITE_LIMIT)?;
        match self.read_extension(&card, at, 1)?[0] & 1 {
            0 => Ok(()),
            _ => Err(Error::Timeout),
        }
    }

    /// Announces a power-off, and waits until the card is ready for it.
    pub(super) fn notify_power_off(&mut self, card: &CardInfo, at: ExtensionAt) -> Result<(), Error> {
        const LIMIT: Duration = Duration::from_secs(2);
        self.write_extension(card, ExtensionAt { offset: at.offset + 2, ..at }, 1)?;
        let status = ExtensionAt { offset: at.offset + 1, ..at };
        self.poll_while(LIMIT, |mmc| mmc.read_extension(card, status, 1).map(|page| page[0] & 1 == 0))
    }
}

/// Returns the argument of CMD48 and CMD49 with function, page and offset.
fn argument(at: ExtensionAt) -> u32 {
    u32::from(at.function) << 27 | u32::from(at.page) << 18 | u32::from(at.offset) << 9
}
