//! Indices of the commands, by the names of the SD Physical Layer Specification, section 4.7.4.

/// CMD0: resets all cards to idle state.
pub const GO_IDLE_STATE: u8 = 0;
/// CMD1: starts the initialization in SPI mode, or of an MMC card.
pub const SEND_OP_COND: u8 = 1;
/// CMD2: asks all cards for their CID.
pub const ALL_SEND_CID: u8 = 2;
/// CMD3: asks the card to publish a relative address.
pub const SEND_RELATIVE_ADDR: u8 = 3;
/// CMD4: sets the driver stage register.
pub const SET_DSR: u8 = 4;
/// CMD5: asks an SDIO card for its operating conditions.
pub const IO_SEND_OP_COND: u8 = 5;
/// CMD6: checks or switches the functions of the card.
pub const SWITCH_FUNC: u8 = 6;
/// CMD7: selects the card with the address, and deselects all others.
pub const SELECT_CARD: u8 = 7;
/// CMD8: sends the host's voltage range and a check pattern.
pub const SEND_IF_COND: u8 = 8;
/// CMD9: asks for the CSD.
pub const SEND_CSD: u8 = 9;
/// CMD10: asks for the CID.
pub const SEND_CID: u8 = 10;
/// CMD11: switches the signals to 1.8 V.
pub const VOLTAGE_SWITCH: u8 = 11;
/// CMD12: stops a transfer of several blocks.
pub const STOP_TRANSMISSION: u8 = 12;
/// CMD13: asks for the card status.
pub const SEND_STATUS: u8 = 13;
/// CMD15: makes the card inactive.
pub const GO_INACTIVE_STATE: u8 = 15;
/// CMD16: sets the block length.
pub const SET_BLOCKLEN: u8 = 16;
/// CMD17: reads one block.
pub const READ_SINGLE_BLOCK: u8 = 17;
/// CMD18: reads blocks until a stop command or the block count.
pub const READ_MULTIPLE_BLOCK: u8 = 18;
/// CMD19: asks for the tuning block.
pub const SEND_TUNING_BLOCK: u8 = 19;
/// CMD20: controls the speed class recording.
pub const SPEED_CLASS_CONTROL: u8 = 20;
/// CMD22: sets the upper address bits for an SDUC card.
pub const ADDRESS_EXTENSION: u8 = 22;
/// CMD23: sets the number of blocks of the next transfer.
pub const SET_BLOCK_COUNT: u8 = 23;
/// CMD24: writes one block.
pub const WRITE_BLOCK: u8 = 24;
/// CMD25: writes blocks until a stop command or the block count.
pub const WRITE_MULTIPLE_BLOCK: u8 = 25;
/// CMD27: programs the writable bits of the CSD.
pub const PROGRAM_CSD: u8 = 27;
/// CMD28: protects a group of blocks against writing.
pub const SET_WRITE_PROT: u8 = 28;
/// CMD29: removes the protection of a group of blocks.
pub const CLR_WRITE_PROT: u8 = 29;
/// CMD30: asks for the protection of groups of blocks.
pub const SEND_WRITE_PROT: u8 = 30;
/// CMD32: sets the first block to erase.
pub const ERASE_WR_BLK_START: u8 = 32;
/// CMD33: sets the last block to erase.
pub const ERASE_WR_BLK_END: u8 = 33;
/// CMD38: erases or discards the selected blocks.
pub const ERASE: u8 = 38;
/// CMD42: sets or clears the password, or locks or unlocks the card.
pub const LOCK_UNLOCK: u8 = 42;
/// CMD48: reads from an extension register space.
pub const READ_EXTR_SINGLE: u8 = 48;
/// CMD49: writes to an extension register space.
pub const WRITE_EXTR_SINGLE: u8 = 49;
/// CMD52: reads or writes a register of an SDIO card.
pub const IO_RW_DIRECT: u8 = 52;
/// CMD55: announces an application command.
pub const APP_CMD: u8 = 55;
/// CMD56: transfers a block for general or vendor purposes.
pub const GEN_CMD: u8 = 56;
/// CMD58: asks for the OCR in SPI mode.
pub const READ_OCR: u8 = 58;
/// CMD59: turns the CRC check on or off in SPI mode.
pub const CRC_ON_OFF: u8 = 59;

/// Indices of the application commands, which [`APP_CMD`] announces.
pub mod app {
    /// ACMD6: sets the number of data lines.
    pub const SET_BUS_WIDTH: u8 = 6;
    /// ACMD13: asks for the SD Status.
    pub const SD_STATUS: u8 = 13;
    /// ACMD22: asks for the number of blocks written without error.
    pub const SEND_NUM_WR_BLOCKS: u8 = 22;
    /// ACMD23: sets the number of blocks to erase before a write.
    pub const SET_WR_BLK_ERASE_COUNT: u8 = 23;
    /// ACMD41: sends the host's operating conditions, and starts the initialization.
    pub const SD_SEND_OP_COND: u8 = 41;
    /// ACMD42: connects or disconnects the pull-up of DAT3.
    pub const SET_CLR_CARD_DETECT: u8 = 42;
    /// ACMD51: asks for the SCR.
    pub const SEND_SCR: u8 = 51;
}
