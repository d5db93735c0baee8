/* A block device: requests, requests in flight, power cuts, faults, counters, the caller's store, and errors. */

#include "check.h"

enum { BLOCK = 4096 };

static void fill(uint8_t *block, uint8_t value) { memset(block, value, BLOCK); }

static void reads_back_what_it_wrote(void) {
    flashlab_device *device;
    flashlab_geometry geometry;
    uint8_t block[BLOCK], back[BLOCK];
    uint64_t before, after;
    OK(flashlab_device_open("sd/kingston", NULL, &device, &error));
    OK(flashlab_device_geometry(device, &geometry, &error));
    CHECK(geometry.capacity > 1000000000 && geometry.block_size == 512 && geometry.request_max >= BLOCK);
    OK(flashlab_device_now(device, &before, &error));
    fill(block, 0x5a);
    OK(flashlab_device_write(device, 8192, block, BLOCK, &error));
    OK(flashlab_device_write_durable(device, 0, block, BLOCK, &error));
    OK(flashlab_device_flush(device, &error));
    OK(flashlab_device_read(device, 8192, back, BLOCK, &error));
    CHECK(memcmp(block, back, BLOCK) == 0);
    OK(flashlab_device_now(device, &after, &error));
    CHECK(after > before);
    OK(flashlab_device_wait(device, 1000, &error));
    OK(flashlab_device_now(device, &before, &error));
    CHECK(before == after + 1000);
    OK(flashlab_device_discard(device, 8192, BLOCK, &error));
    OK(flashlab_device_read(device, 8192, back, BLOCK, &error));
    CHECK(back[0] == 0 || back[0] == 0x5a);
    flashlab_device_close(device);
}

/* Returns the simulated time of one durable write to a new device. */
static uint64_t time_of_a_write(const char *name) {
    flashlab_device *device;
    uint8_t block[BLOCK];
    uint64_t now;
    fill(block, 1);
    OK(flashlab_device_open(name, NULL, &device, &error));
    OK(flashlab_device_write_durable(device, 0, block, BLOCK, &error));
    OK(flashlab_device_now(device, &now, &error));
    flashlab_device_close(device);
    return now;
}

static void a_changed_number_changes_the_time(void) {
    CHECK(time_of_a_write("sd/kingston") == time_of_a_write("sd/kingston"));
    CHECK(time_of_a_write("sd/kingston:flash.t_prog=20ms") > time_of_a_write("sd/kingston") + 10000000);
}

static void requests_in_flight_complete_in_their_own_order(void) {
    flashlab_device *device;
    flashlab_request request = {FLASHLAB_WRITE, 0, 0, BLOCK, NULL};
    flashlab_completion completion;
    uint8_t block[BLOCK];
    uint64_t first, second, third, last_ns = 0;
    int n;
    bool seen[3] = {false, false, false};
    OK(flashlab_device_open("nvme/p32a80", NULL, &device, &error));
    fill(block, 7);
    request.data = block;
    OK(flashlab_device_submit(device, &request, &first, &error));
    fill(block, 9); /* The library has copied the data. */
    request.operation = FLASHLAB_READ;
    request.offset = 1 << 20;
    request.data = NULL;
    OK(flashlab_device_submit(device, &request, &second, &error));
    request.offset = UINT64_MAX - 4095;
    OK(flashlab_device_submit(device, &request, &third, &error));
    for (n = 0; n < 3; n++) {
        OK(flashlab_device_next_completion(device, &completion, &error));
        CHECK(completion.at_ns >= last_ns);
        last_ns = completion.at_ns;
        CHECK(completion.ticket - first < 3 && !seen[completion.ticket - first]);
        seen[completion.ticket - first] = true;
        if (completion.ticket == second) {
            const uint8_t *data = completion.data;
            CHECK(completion.code == FLASHLAB_OK && completion.length == BLOCK && data[0] == 0 && data[4095] == 0);
        } else {
            CHECK(completion.data == NULL && completion.length == 0);
            CHECK(completion.code == (completion.ticket == third ? FLASHLAB_ERROR_INVALID : FLASHLAB_OK));
        }
    }
    FAILS(flashlab_device_next_completion(device, &completion, &error), FLASHLAB_NONE, "no request is in flight");
    request.offset = 0;
    OK(flashlab_device_submit(device, &request, &first, &error));
    OK(flashlab_device_next_completion(device, &completion, &error));
    CHECK(((const uint8_t *)completion.data)[4095] == 7);
    request.operation = 99;
    FAILS(flashlab_device_submit(device, &request, &first, &error), FLASHLAB_ERROR_ARGUMENT, "operation is 99");
    flashlab_device_close(device);
}

static void flushed_data_survives_a_power_cut(void) {
    flashlab_device *device;
    flashlab_undecided ranges[64];
    uint8_t block[BLOCK], back[BLOCK];
    size_t count, n, needed;
    bool powered;
    OK(flashlab_device_open("nvme/p32a80", NULL, &device, &error));
    FAILS(flashlab_device_last_cut(device, NULL, 0, &count, &error), FLASHLAB_NONE, "no power cut has happened");
    fill(block, 1);
    OK(flashlab_device_write(device, 0, block, BLOCK, &error));
    OK(flashlab_device_flush(device, &error));
    fill(block, 2);
    OK(flashlab_device_write(device, 0, block, BLOCK, &error));
    OK(flashlab_device_write(device, 1 << 20, block, BLOCK, &error));
    OK(flashlab_device_cut_power(device, &error));
    OK(flashlab_device_is_powered(device, &powered, &error));
    CHECK(!powered);
    FAILS(flashlab_device_read(device, 0, back, BLOCK, &error), FLASHLAB_ERROR_POWER_OFF, "power");
    OK(flashlab_device_last_cut(device, NULL, 0, &needed, &error));
    OK(flashlab_device_last_cut(device, ranges, 64, &count, &error));
    CHECK(count == needed && count >= 1 && count <= 64);
    OK(flashlab_device_restore_power(device, &error));
    OK(flashlab_device_is_powered(device, &powered, &error));
    CHECK(powered);
    /* Each range that was not durable reads as its fate says. */
    for (n = 0; n < count; n++) {
        flashlab_code code = flashlab_device_read(device, ranges[n].offset, back, BLOCK, &error);
        uint8_t old = ranges[n].offset < BLOCK ? 1 : 0;
        CHECK(ranges[n].length >= BLOCK);
        if (ranges[n].fate == FLASHLAB_FATE_UNREADABLE) {
            CHECK(code == FLASHLAB_ERROR_MEDIUM);
        } else {
            CHECK(code == FLASHLAB_OK && back[0] == (ranges[n].fate == FLASHLAB_FATE_NEW ? 2 : old));
        }
    }
    flashlab_device_close(device);
}

static void a_planned_cut_interrupts_the_second_write(void) {
    flashlab_device *device;
    uint8_t block[BLOCK];
    uint64_t now;
    size_t count;
    fill(block, 1);
    OK(flashlab_device_open("sd/kingston", NULL, &device, &error));
    FAILS(flashlab_device_cut_power_during_write(device, 0, &error), FLASHLAB_ERROR_ARGUMENT, "number 1");
    OK(flashlab_device_cut_power_during_write(device, 2, &error));
    OK(flashlab_device_write(device, 0, block, BLOCK, &error));
    FAILS(flashlab_device_last_cut(device, NULL, 0, &count, &error), FLASHLAB_NONE, "");
    FAILS(flashlab_device_write(device, BLOCK, block, BLOCK, &error), FLASHLAB_ERROR_POWER_OFF, "power");
    OK(flashlab_device_last_cut(device, NULL, 0, &count, &error));
    OK(flashlab_device_restore_power(device, &error));
    OK(flashlab_device_now(device, &now, &error));
    OK(flashlab_device_cut_power_at(device, now + 1, &error));
    FAILS(flashlab_device_write(device, 0, block, BLOCK, &error), FLASHLAB_ERROR_POWER_OFF, "");
    flashlab_device_close(device);

    OK(flashlab_device_open("memory:size=1MiB", NULL, &device, &error));
    FAILS(flashlab_device_cut_power(device, &error), FLASHLAB_ERROR_NO_POWER, "delay:read=100us");
    flashlab_device_close(device);
}

static void a_rule_makes_requests_fail(void) {
    flashlab_device *device;
    uint8_t block[BLOCK];
    fill(block, 1);
    OK(flashlab_device_open("memory:size=1MiB", NULL, &device, &error));
    OK(flashlab_device_add_fault(device, "write after=1 times=1 EIO", &error));
    OK(flashlab_device_write(device, 0, block, BLOCK, &error));
    FAILS(flashlab_device_write(device, 0, block, BLOCK, &error), FLASHLAB_ERROR_MEDIUM, "medium");
    OK(flashlab_device_write(device, 0, block, BLOCK, &error));
    FAILS(flashlab_device_add_fault(device, "write sometimes", &error), FLASHLAB_ERROR_FAULT_RULE, "sometimes");
    OK(flashlab_device_add_fault(device, "read EIO", &error));
    OK(flashlab_device_clear_faults(device, &error));
    OK(flashlab_device_read(device, 0, block, BLOCK, &error));
    flashlab_device_close(device);
}

static void counters_and_erase_counts_grow_with_writes(void) {
    flashlab_device *device;
    flashlab_counter *counters;
    uint32_t *erase_counts;
    uint64_t erases = 0;
    size_t count, n;
    bool found = false;
    int round;
    static uint8_t unit[1 << 20];
    OK(flashlab_device_open("sd/kingston", NULL, &device, &error));
    for (round = 0; round < 64; round++) {
        OK(flashlab_device_write(device, (uint64_t)(round % 4) << 22, unit, sizeof unit / 2, &error));
    }
    OK(flashlab_device_flush(device, &error));
    OK(flashlab_device_counters(device, NULL, 0, &count, &error));
    CHECK(count > 0);
    counters = calloc(count, sizeof *counters);
    CHECK(counters != NULL);
    OK(flashlab_device_counters(device, counters, count, &count, &error));
    for (n = 0; n < count; n++) {
        CHECK(counters[n].name[0] != 0 && strlen(counters[n].name) < sizeof counters[n].name - 1);
        found |= strstr(counters[n].name, "host") != NULL && counters[n].value == 64 * sizeof unit / 2;
    }
    CHECK(found);
    free(counters);
    OK(flashlab_device_erase_counts(device, NULL, 0, &count, &error));
    CHECK(count > 100);
    erase_counts = calloc(count, sizeof *erase_counts);
    CHECK(erase_counts != NULL);
    OK(flashlab_device_erase_counts(device, erase_counts, count, &count, &error));
    for (n = 0; n < count; n++) {
        erases += erase_counts[n];
    }
    CHECK(erases > 0);
    free(erase_counts);
    flashlab_device_close(device);
}

/* A store of the caller: the first megabyte of the device. Writes beyond it find no space. */
struct store {
    uint8_t bytes[1 << 20];
    flashlab_device *device; /* The device whose store this is, for a call from a callback. */
    flashlab_code code_in_callback;
    int syncs;
};

static flashlab_code store_read(void *context, uint64_t offset, void *buffer, size_t length) {
    struct store *store = context;
    uint64_t now;
    if (store->device != NULL) {
        store->code_in_callback = flashlab_device_now(store->device, &now, NULL);
        flashlab_device_close(store->device); /* Has no effect while a call uses the handle. */
    }
    memset(buffer, 0, length);
    if (offset < sizeof store->bytes) {
        size_t held = sizeof store->bytes - (size_t)offset;
        memcpy(buffer, store->bytes + offset, length < held ? length : held);
    }
    return FLASHLAB_OK;
}

static flashlab_code store_write(void *context, uint64_t offset, const void *data, size_t length) {
    struct store *store = context;
    if (offset + length > sizeof store->bytes) {
        return FLASHLAB_ERROR_NO_SPACE;
    }
    memcpy(store->bytes + offset, data, length);
    return FLASHLAB_OK;
}

static flashlab_code store_sync(void *context) {
    ((struct store *)context)->syncs++;
    return FLASHLAB_OK;
}

static void the_caller_keeps_the_bytes(void) {
    static struct store memory;
    flashlab_store store = {&memory, store_read, store_write, NULL, store_sync};
    flashlab_options *options;
    flashlab_device *device;
    uint8_t block[BLOCK], back[BLOCK];
    OK(flashlab_options_new(&options, &error));
    OK(flashlab_options_set_seed(options, 7, &error));
    OK(flashlab_options_set_store(options, &store, &error));
    OK(flashlab_device_open("sd/kingston", options, &device, &error));
    flashlab_options_close(options);
    fill(block, 6);
    OK(flashlab_device_write(device, BLOCK, block, BLOCK, &error));
    CHECK(memory.bytes[BLOCK] == 6 && memory.bytes[2 * BLOCK - 1] == 6);
    OK(flashlab_device_flush(device, &error));
    memory.bytes[BLOCK] = 8;
    OK(flashlab_device_read(device, BLOCK, back, BLOCK, &error));
    CHECK(back[0] == 8 && back[1] == 6);
    FAILS(flashlab_device_write(device, 1 << 20, block, BLOCK, &error), FLASHLAB_ERROR_NO_SPACE, "");
    /* A callback that calls the library with the same handle is refused. */
    memory.device = device;
    memory.code_in_callback = FLASHLAB_OK;
    OK(flashlab_device_read(device, BLOCK, back, BLOCK, &error));
    CHECK(memory.code_in_callback == FLASHLAB_ERROR_IN_USE);
    memory.device = NULL;
    OK(flashlab_device_discard(device, BLOCK, BLOCK, &error));
    flashlab_device_close(device);

    OK(flashlab_options_new(&options, &error));
    store.write = NULL;
    FAILS(flashlab_options_set_store(options, &store, &error), FLASHLAB_ERROR_NULL, "store->write");
    flashlab_options_close(options);
}

static void mistakes_are_errors_with_texts(void) {
    flashlab_device *device = (flashlab_device *)&error;
    flashlab_options *options;
    uint8_t block[BLOCK];
    fill(block, 0);
    FAILS(flashlab_device_open("sd/kingstn", NULL, &device, &error), FLASHLAB_ERROR_OPEN, "sd/kingston");
    CHECK(device == NULL);
    FAILS(flashlab_device_open(NULL, NULL, &device, &error), FLASHLAB_ERROR_NULL, "name is NULL");
    FAILS(flashlab_device_open("\xff", NULL, &device, &error), FLASHLAB_ERROR_ARGUMENT, "UTF-8");
    FAILS(flashlab_device_open("sd/kingston", NULL, NULL, &error), FLASHLAB_ERROR_NULL, "device is NULL");
    FAILS(flashlab_device_open("sd/kingston:flash.t_prog=fast", NULL, &device, &error), FLASHLAB_ERROR_OPEN, "t_prog");
    FAILS(flashlab_device_flush(NULL, &error), FLASHLAB_ERROR_NULL, "flashlab_device_flush: device is NULL");
    CHECK(flashlab_device_flush(NULL, NULL) == FLASHLAB_ERROR_NULL);
    flashlab_device_close(NULL);

    OK(flashlab_options_new(&options, &error));
    FAILS(flashlab_options_add_quirk(options, "busyy=1ms", &error), FLASHLAB_ERROR_QUIRK, "busy");
    FAILS(flashlab_options_set_chip_select(options, 2, &error), FLASHLAB_ERROR_ARGUMENT, "chip_select is 2");
    flashlab_options_close(options);
    flashlab_options_close(NULL);

    OK(flashlab_device_open("memory:size=1MiB", NULL, &device, &error));
    FAILS(flashlab_device_read(device, 0, NULL, BLOCK, &error), FLASHLAB_ERROR_NULL, "buffer is NULL");
    FAILS(flashlab_device_write(device, 0, NULL, BLOCK, &error), FLASHLAB_ERROR_NULL, "data is NULL");
    FAILS(flashlab_device_read(device, 0, block, SIZE_MAX, &error), FLASHLAB_ERROR_TOO_LARGE, "at once");
    FAILS(flashlab_device_write(device, 0, block, SIZE_MAX / 2, &error), FLASHLAB_ERROR_TOO_LARGE, "at once");
    FAILS(flashlab_device_write(device, 1 << 20, block, BLOCK, &error), FLASHLAB_ERROR_NO_SPACE, "space");
    FAILS(flashlab_device_read(device, UINT64_MAX, block, BLOCK, &error), FLASHLAB_ERROR_INVALID, "");
    FAILS(flashlab_device_discard(device, 0, UINT64_MAX, &error), FLASHLAB_ERROR_INVALID, "");
    FAILS(flashlab_device_wait(device, UINT64_MAX, &error), FLASHLAB_ERROR_ARGUMENT, "146 years");
    OK(flashlab_device_read(device, 0, block, BLOCK, &error));
    CHECK(error.text[0] == 0);
    flashlab_device_close(device);
    OK(flashlab_device_open("sd/kingston", NULL, &device, &error));
    FAILS(flashlab_device_write(device, 1, block, 512, &error), FLASHLAB_ERROR_INVALID, "whole blocks");
    flashlab_device_close(device);
    CHECK(strcmp(flashlab_code_text(FLASHLAB_OK), "success") == 0);
    CHECK(strcmp(flashlab_code_text(12345), "unknown code") == 0);
}

int main(void) {
    reads_back_what_it_wrote();
    a_changed_number_changes_the_time();
    requests_in_flight_complete_in_their_own_order();
    flushed_data_survives_a_power_cut();
    a_planned_cut_interrupts_the_second_write();
    a_rule_makes_requests_fail();
    counters_and_erase_counts_grow_with_writes();
    the_caller_keeps_the_bytes();
    mistakes_are_errors_with_texts();
    printf("flashlab %s\n", flashlab_version());
    return 0;
}
