//! A minimal host in native mode: it initialises a card, writes blocks over four lines at 50 MHz, reads them back, and
//! detects a damaged block.

use flashlab_block::{Memory, Pages};
use flashlab_sd::opcode;
use flashlab_sd::quirk::Quirk;
use flashlab_sd::{Card, CardParameters, Command, Fault, Identity, Ios, Native, Power, ResponseType, Timing};
use flashlab_sim::Duration;

const LIMIT: Duration = Duration::from_ms(250);

fn card() -> Card {
    let parameters = CardParameters::example(4 << 30);
    let identity = Identity::new(&parameters);
    let bytes = Memory::new(parameters.capacity, Pages::Small).expect("a valid size");
    Card::new(parameters, identity, Some(Box::new(bytes)), 1)
}

/// Initialises the card from power-off to the transfer state, in high-speed mode on four lines.
fn bring_up(slot: &mut Native) -> Result<(), Fault> {
    let mut ios = Ios { power: Power::On, clock_hz: 400_000, ..Ios::OFF };
    slot.set_ios(&ios);
    slot.advance(Duration::from_ms(2));
    slot.command(Command::new(opcode::GO_IDLE_STATE, 0), ResponseType::None)?;
    slot.command(Command::new(opcode::SEND_IF_COND, 0x1aa), ResponseType::R7)?;
    loop {
        slot.command(Command::new(opcode::APP_CMD, 0), ResponseType::R1)?;
        let conditions =
            slot.command(Command::new(opcode::app::SD_SEND_OP_COND, 0x4030_0000), ResponseType::R3)?.word();
        println!("{:>12} ACMD41: {conditions:08x}", format!("{:?}", slot.now()));
        if conditions >> 31 == 1 {
            break;
        }
        slot.advance(Duration::from_ms(20));
    }
    slot.command(Command::new(opcode::ALL_SEND_CID, 0), ResponseType::R2)?;
    let address =
        slot.command(Command::new(opcode::SEND_RELATIVE_ADDR, 0), ResponseType::R6)?.word() & 0xffff_0000;
    slot.command(Command::new(opcode::SELECT_CARD, address), ResponseType::R1b)?;
    slot.command(Command::new(opcode::SWITCH_FUNC, 0x80ff_fff1), ResponseType::R1)?;
    slot.read_block(&mut [0; 64], 64, LIMIT)?;
    slot.command(Command::new(opcode::APP_CMD, address), ResponseType::R1)?;
    slot.command(Command::new(opcode::app::SET_BUS_WIDTH, 2), ResponseType::R1)?;
    (ios.clock_hz, ios.width, ios.timing) = (50_000_000, 4, Timing::HighSpeed);
    slot.set_ios(&ios);
    Ok(())
}

fn main() -> Result<(), Fault> {
    let mut slot = Native::new(Some(card()));
    bring_up(&mut slot)?;

    let began = slot.now();
    slot.command(Command::new(opcode::WRITE_MULTIPLE_BLOCK, 2048), ResponseType::R1)?;
    for n in 0..32 {
        slot.write_block(&[n; 512], 512, LIMIT)?;
    }
    slot.command(Command::new(opcode::STOP_TRANSMISSION, 0), ResponseType::R1b)?;
    slot.wait_ready(LIMIT)?;
    println!("16 KiB written, durable after {}", slot.now().since(began));

    let began = slot.now();
    let mut block = [0; 512];
    slot.command(Command::new(opcode::READ_MULTIPLE_BLOCK, 2048), ResponseType::R1)?;
    for n in 0..32 {
        slot.read_block(&mut block, 512, LIMIT)?;
        assert_eq!(block, [n; 512]);
    }
    slot.command(Command::new(opcode::STOP_TRANSMISSION, 0), ResponseType::R1b)?;
    println!("16 KiB read in {}", slot.now().since(began));

    // From here on, every block is damaged on the wires.
    slot.card_mut().expect("the slot holds a card").quirks_mut().add(Quirk::ReadCrc(1));
    slot.command(Command::new(opcode::READ_SINGLE_BLOCK, 2048), ResponseType::R1)?;
    assert_eq!(slot.read_block(&mut block, 512, LIMIT), Err(Fault::Crc));
    println!("the checksum detects a damaged block");
    Ok(())
}
