/* SPDX-License-Identifier: MIT */
/* carry IMAGE BLOCKS in|out FOLDER: a checkpoint from a PC's folder, as `bedplate train` makes it,
 * into the bytes of a flash of so many blocks of 4096 bytes in units of 256; or out of them. In the
 * flash it is run/NAME, NAME being the folder's own (checkpoint-STEP). */
#include <bedplate.h>

#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES 4096
#define UNIT_BYTES  256
#define BLOCKS_MOST 4096
#define FILES       32

static unsigned char image[BLOCKS_MOST * BLOCK_BYTES];
static uint64_t table[BP_FLASH_MEMORY(FILES, BLOCKS_MOST, UNIT_BYTES) / 8];

static bp_status chip_read(void *context, uint32_t block, uint32_t offset, void *to, size_t bytes)
{
    (void)context;
    memcpy(to, image + (size_t)block * BLOCK_BYTES + offset, bytes);
    return BP_OK;
}

static bp_status chip_program(void *context, uint32_t block, uint32_t offset, const void *from,
                              size_t bytes)
{
    (void)context;
    memcpy(image + (size_t)block * BLOCK_BYTES + offset, from, bytes);
    return BP_OK;
}

static bp_status chip_erase(void *context, uint32_t block)
{
    (void)context;
    memset(image + (size_t)block * BLOCK_BYTES, 0xff, BLOCK_BYTES);
    return BP_OK;
}

/* Copies the files of one folder into another one. */
typedef struct copier {
    bp_store *from;
    bp_store *to;
    const char *source;
    const char *target;
} copier;

static bp_status copy_bytes(const copier *c, bp_file from, bp_file to, uint64_t bytes)
{
    static unsigned char piece[BLOCK_BYTES];
    for (uint64_t at = 0; at < bytes; at += sizeof piece) {
        const size_t part = bytes - at < sizeof piece ? (size_t)(bytes - at) : sizeof piece;
        BP_TRY(c->from->read_at(c->from, from, at, piece, part));
        BP_TRY(c->to->write_at(c->to, to, at, piece, part));
    }
    return c->to->sync(c->to, to);
}

static bp_status copy_file(void *user, const char *name)
{
    const copier *c = user;
    char source[BP_STORE_PATH_MAX], target[BP_STORE_PATH_MAX];
    bp_file from, to;
    uint64_t bytes;
    (void)snprintf(source, sizeof source, "%s/%s", c->source, name);
    (void)snprintf(target, sizeof target, "%s/%s", c->target, name);
    BP_TRY(c->from->open_read(c->from, source, &from));
    BP_TRY(c->from->file_size(c->from, from, &bytes));
    BP_TRY(c->to->open_write(c->to, target, &to));
    BP_TRY(copy_bytes(c, from, to, bytes));
    BP_TRY(c->to->close(c->to, to));
    return c->from->close(c->from, from);
}

static bp_status copy_folder(copier *c)
{
    BP_TRY(c->to->make_directory(c->to, c->target));
    BP_TRY(c->from->list(c->from, c->source, copy_file, c));
    return c->to->sync_directory(c->to, c->target);
}

static bp_status carry(bp_store *flash, bp_store *disk, const char *folder, bool in)
{
    char inside[BP_STORE_PATH_MAX];
    const char *name = strrchr(folder, '/');
    (void)snprintf(inside, sizeof inside, "run/%s", name != NULL ? name + 1 : folder);
    copier c = {in ? disk : flash, in ? flash : disk, in ? folder : inside, in ? inside : folder};
    BP_TRY(in ? flash->make_directory(flash, "run") : BP_OK);
    const bp_status status = copy_folder(&c);
    if (status != BP_OK) {
        fprintf(stderr, "carry: %s: %s; %s\n", folder, disk->reason != NULL ? disk->reason : "",
                flash->reason != NULL ? flash->reason : "");
    }
    return status;
}

int main(int argc, char **argv)
{
    unsigned blocks = 0;
    if (argc != 5 || sscanf(argv[2], "%u", &blocks) != 1 || blocks > BLOCKS_MOST) {
        fprintf(stderr, "carry IMAGE BLOCKS in|out FOLDER\n");
        return 2;
    }
    const bp_flash chip = {.block_bytes = BLOCK_BYTES,
                           .block_count = blocks,
                           .unit_bytes = UNIT_BYTES,
                           .read = chip_read,
                           .program = chip_program,
                           .erase = chip_erase};
    const size_t bytes = (size_t)blocks * BLOCK_BYTES;
    static bp_store_flash flash;
    static bp_store_posix disk;
    FILE *file = fopen(argv[1], "rb");
    memset(image, 0xff, bytes);
    if (file != NULL && (fread(image, 1, bytes, file) != bytes || fclose(file) != 0)) {
        fprintf(stderr, "carry: %s has not so many blocks\n", argv[1]);
        return 2;
    }
    bp_status status = bp_store_flash_init(&flash, &chip, FILES, table, sizeof table);
    if (status == BP_OK) {
        status = bp_store_posix_init(&disk, "");
    }
    if (status == BP_OK) {
        status = carry(&flash.store, &disk.store, argv[4], strcmp(argv[3], "in") == 0);
    } else {
        fprintf(stderr, "carry: %s\n", flash.store.reason != NULL ? flash.store.reason : "");
    }
    file = status == BP_OK ? fopen(argv[1], "wb") : NULL;
    if (file != NULL) {
        status = fwrite(image, 1, bytes, file) == bytes ? BP_OK : BP_ERR_STORE;
        status = fclose(file) == 0 ? status : BP_ERR_STORE;
    }
    return bp_status_exit_code(status);
}
