/* A card in a host controller: brought up with native commands, read, written, busy and without power. */

#include "check.h"

enum { BLOCK = 512 };

#define LIMIT UINT64_C(250000000)

static flashlab_response response;

static void slot_on(flashlab_native *native) {
    flashlab_ios ios = FLASHLAB_IOS_OFF;
    ios.power = FLASHLAB_POWER_ON;
    ios.clock_hz = 400000;
    OK(flashlab_native_set_ios(native, &ios, &error));
    OK(flashlab_native_wait(native, 2000000, &error));
}

/* Section 4.2: from power-up to the transfer state. Returns the relative address in the upper 16 bits. */
static uint32_t bring_up(flashlab_native *native) {
    uint32_t rca;
    int tries = 0;
    slot_on(native);
    OK(flashlab_native_command(native, 0, 0, FLASHLAB_RESPONSE_NONE, &response, &error));
    OK(flashlab_native_command(native, 8, 0x1aa, FLASHLAB_RESPONSE_R7, &response, &error));
    CHECK((response.word & 0xfff) == 0x1aa);
    do {
        CHECK(tries++ < 1000);
        OK(flashlab_native_command(native, 55, 0, FLASHLAB_RESPONSE_R1, &response, &error));
        OK(flashlab_native_command(native, 41, UINT32_C(0x40300000), FLASHLAB_RESPONSE_R3, &response, &error));
    } while ((response.word & UINT32_C(0x80000000)) == 0);
    OK(flashlab_native_command(native, 2, 0, FLASHLAB_RESPONSE_R2, &response, &error));
    CHECK(response.register_bytes[15] & 1); /* The end bit of the CID. */
    CHECK(response.word == ((uint32_t)response.register_bytes[0] << 24 | (uint32_t)response.register_bytes[1] << 16 |
                            (uint32_t)response.register_bytes[2] << 8 | response.register_bytes[3]));
    OK(flashlab_native_command(native, 3, 0, FLASHLAB_RESPONSE_R6, &response, &error));
    rca = response.word & UINT32_C(0xffff0000);
    OK(flashlab_native_command(native, 7, rca, FLASHLAB_RESPONSE_R1B, &response, &error));
    OK(flashlab_native_wait_ready(native, LIMIT, &error));
    return rca;
}

static void widen(flashlab_native *native, uint32_t rca) {
    flashlab_ios ios = FLASHLAB_IOS_OFF;
    OK(flashlab_native_command(native, 55, rca, FLASHLAB_RESPONSE_R1, &response, &error));
    OK(flashlab_native_command(native, 6, 2, FLASHLAB_RESPONSE_R1, &response, &error));
    ios.power = FLASHLAB_POWER_ON;
    ios.clock_hz = 25000000;
    ios.width = 4;
    OK(flashlab_native_set_ios(native, &ios, &error));
}

static void reads_back_what_it_wrote_and_keeps_it_without_power(void) {
    flashlab_native *native;
    flashlab_ios off = FLASHLAB_IOS_OFF;
    flashlab_counter counters[64];
    uint8_t block[BLOCK], back[BLOCK];
    uint64_t before, after;
    size_t count;
    bool busy;
    memset(block, 0x5a, BLOCK);
    OK(flashlab_native_open("sd/kingston", NULL, &native, &error));
    FAILS(flashlab_native_command(native, 8, 0x1aa, FLASHLAB_RESPONSE_R7, &response, &error), FLASHLAB_ERROR_TIMEOUT,
          "in time");
    widen(native, bring_up(native));
    OK(flashlab_native_command(native, 24, 9, FLASHLAB_RESPONSE_R1, &response, &error));
    OK(flashlab_native_write_block(native, block, BLOCK, LIMIT, &error));
    OK(flashlab_native_is_busy(native, &busy, &error));
    CHECK(busy);
    FAILS(flashlab_native_wait_ready(native, 1, &error), FLASHLAB_ERROR_TIMEOUT, "");
    OK(flashlab_native_now(native, &before, &error));
    OK(flashlab_native_wait_ready(native, LIMIT, &error));
    OK(flashlab_native_now(native, &after, &error));
    CHECK(after > before);
    OK(flashlab_native_is_busy(native, &busy, &error));
    CHECK(!busy);
    OK(flashlab_native_command(native, 17, 9, FLASHLAB_RESPONSE_R1, &response, &error));
    OK(flashlab_native_read_block(native, back, BLOCK, LIMIT, &error));
    CHECK(memcmp(block, back, BLOCK) == 0);
    OK(flashlab_native_counters(native, counters, 64, &count, &error));
    CHECK(count > 0);

    OK(flashlab_native_set_ios(native, &off, &error));
    widen(native, bring_up(native));
    memset(back, 0, BLOCK);
    OK(flashlab_native_command(native, 17, 9, FLASHLAB_RESPONSE_R1, &response, &error));
    OK(flashlab_native_read_block(native, back, BLOCK, LIMIT, &error));
    CHECK(memcmp(block, back, BLOCK) == 0);
    /* The host uses one data line, but the card sends on four. */
    off.power = FLASHLAB_POWER_ON;
    off.clock_hz = 25000000;
    OK(flashlab_native_set_ios(native, &off, &error));
    OK(flashlab_native_command(native, 17, 9, FLASHLAB_RESPONSE_R1, &response, &error));
    FAILS(flashlab_native_read_block(native, back, BLOCK, LIMIT, &error), FLASHLAB_ERROR_CRC, "checksum");
    flashlab_native_close(native);
}

static void quirks_apply(void) {
    flashlab_native *native;
    uint8_t block[BLOCK] = {0};
    OK(flashlab_native_open("sd/kingston", NULL, &native, &error));
    bring_up(native);
    OK(flashlab_native_add_quirk(native, "no-data", &error));
    OK(flashlab_native_command(native, 17, 0, FLASHLAB_RESPONSE_R1, &response, &error));
    FAILS(flashlab_native_read_block(native, block, BLOCK, LIMIT, &error), FLASHLAB_ERROR_TIMEOUT, "");
    OK(flashlab_native_add_quirk(native, "silent", &error));
    FAILS(flashlab_native_command(native, 13, 0, FLASHLAB_RESPONSE_R1, &response, &error), FLASHLAB_ERROR_TIMEOUT, "");
    flashlab_native_close(native);
}

static void mistakes_are_errors(void) {
    flashlab_native *native;
    flashlab_ios ios = FLASHLAB_IOS_OFF;
    uint8_t block[BLOCK] = {0};
    FAILS(flashlab_native_open("memory:size=1MiB", NULL, &native, &error), FLASHLAB_ERROR_NOT_A_CARD, "memory:size=1MiB does not accept SD commands");
    OK(flashlab_native_open("sd/kingston", NULL, &native, &error));
    FAILS(flashlab_native_set_ios(native, NULL, &error), FLASHLAB_ERROR_NULL, "ios is NULL");
    ios.width = 8;
    FAILS(flashlab_native_set_ios(native, &ios, &error), FLASHLAB_ERROR_ARGUMENT, "ios->width is 8");
    ios.width = 4;
    ios.timing = 7;
    FAILS(flashlab_native_set_ios(native, &ios, &error), FLASHLAB_ERROR_ARGUMENT, "ios->timing is 7");
    ios.timing = 0;
    ios.vdd = 32;
    FAILS(flashlab_native_set_ios(native, &ios, &error), FLASHLAB_ERROR_ARGUMENT, "ios->vdd is 32");
    FAILS(flashlab_native_command(native, 64, 0, FLASHLAB_RESPONSE_R1, &response, &error), FLASHLAB_ERROR_ARGUMENT,
          "index is 64");
    FAILS(flashlab_native_command(native, 0, 0, 7, &response, &error), FLASHLAB_ERROR_ARGUMENT, "response_type is 7");
    FAILS(flashlab_native_read_block(native, block, 0, LIMIT, &error), FLASHLAB_ERROR_ARGUMENT, "length is 0");
    FAILS(flashlab_native_write_block(native, block, 2049, LIMIT, &error), FLASHLAB_ERROR_ARGUMENT, "length is 2049");
    FAILS(flashlab_native_read_block(native, block, BLOCK, UINT64_MAX, &error), FLASHLAB_ERROR_ARGUMENT, "146 years");
    FAILS(flashlab_native_write_block(native, block, BLOCK, LIMIT, &error), FLASHLAB_ERROR_TIMEOUT, "");
    flashlab_native_close(native);
    flashlab_native_close(NULL);
}

int main(void) {
    reads_back_what_it_wrote_and_keeps_it_without_power();
    quirks_apply();
    mistakes_are_errors();
    return 0;
}
