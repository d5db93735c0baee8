/*
 * A power cut in the middle of a write: flushed data is intact, and the data after it is old, new or unreadable.
 *
 *     cc power_cut.c $(pkg-config --cflags --libs flashlab) -o power_cut && ./power_cut
 */

#include <flashlab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static flashlab_error error;

static void check(flashlab_code code) {
    if (code != FLASHLAB_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

int main(void) {
    flashlab_device *device;
    uint8_t durable[4096], later[4096], back[4096];
    uint64_t now_ns;
    flashlab_code code;

    memset(durable, 0x5a, sizeof durable);
    memset(later, 0xa5, sizeof later);
    check(flashlab_device_open("sd/kingston", NULL, &device, &error));
    check(flashlab_device_write(device, 0, durable, sizeof durable, &error));
    check(flashlab_device_flush(device, &error));
    check(flashlab_device_now(device, &now_ns, &error));
    printf("durable after %.3f ms of simulated time\n", (double)now_ns / 1e6);

    /* The power fails during the next write, 4 KiB after the data that was flushed. */
    check(flashlab_device_cut_power_during_write(device, 1, &error));
    code = flashlab_device_write(device, 4096, later, sizeof later, &error);
    printf("the write: %s\n", code == FLASHLAB_OK ? "complete" : error.text);
    check(flashlab_device_restore_power(device, &error));

    check(flashlab_device_read(device, 0, back, sizeof back, &error));
    if (memcmp(back, durable, sizeof back) != 0) {
        fprintf(stderr, "flushed data was lost\n");
        return 1;
    }
    code = flashlab_device_read(device, 4096, back, sizeof back, &error);
    printf("the interrupted data: %s\n", code != FLASHLAB_OK ? "unreadable" : back[0] == 0xa5 ? "new" : "old");
    flashlab_device_close(device);
    return 0;
}
