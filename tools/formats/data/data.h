/* SPDX-License-Identifier: MIT */
/* Data files as one source of token ids: text read as bytes, llm.c token files, nanoGPT files.
 *
 * Any number of files of one kind are read one after the other as if they were one. Nothing is
 * held in memory: reads go straight from the store into the caller's ids. Files of documents (JSON
 * lines, tables) are opened and told apart here as well; what they hold becomes a token file
 * (data_tokenise.h), as text does for a model that has a tokenizer. */
#ifndef BP_FORMATS_DATA_H
#define BP_FORMATS_DATA_H

#include "core/run/feed.h"
#include "core/base/store.h"

typedef enum bp_data_format {
    BP_DATA_AUTO, /* by magic, then by ending: ".bin" is nanoGPT, ".jsonl", ".ndjson" and ".json"
                     are JSON lines, ".tsv" and ".csv" tables, ".f32" numbers, "-ubyte" IDX images,
                     ".npy" arrays, all others text; of a packed file by the ending before ".gz",
                     ".gzip", ".zst",
                     ".zstd" */
    BP_DATA_TEXT, /* as a source: id = byte value */
    BP_DATA_LLMC, /* 256 int32 of header; 20240520 version 1: uint16, 20240801 version 7: uint32 */
    BP_DATA_NANOGPT, /* bare uint16, little-endian */
    BP_DATA_JSONL,   /* documents (data_documents.h), an array too; as a source, the file's bytes */
    BP_DATA_TSV,
    BP_DATA_CSV,
    BP_DATA_F32,     /* float32, little-endian; as a source, the file's bytes */
    BP_DATA_CIFAR10, /* images: data_images.h; as a source, the file's bytes */
    BP_DATA_IDX,
    BP_DATA_FOLDER, /* a table of images: data_pnm.h; as a source, the file's bytes */
    BP_DATA_NPY,    /* data_npy.h; as a source, the file's bytes */
    BP_DATA_BYTES,  /* asked for: text whatever it holds; the files' format is then TEXT */
    BP_DATA_TOKENS  /* a token file of bedplate's own (data_tokens.h); as a source, its bytes */
} bp_data_format;

/* One file; the caller gives the rows with `path` set, and what follows it where it is so (the
 * strings must outlive the source). */
typedef struct bp_data_file {
    const char *path;
    const char *stored; /* where its bytes are, if not at `path`: it was unpacked, or read from a
                           pipe; needed until bp_data_open returns */
    bool nameless;      /* the name says nothing of the format: the content is asked */
    bp_file file;
    bool open;
    uint32_t width; /* bytes per token: 1, 2 or 4 */
    uint64_t start; /* bytes before the first token */
    uint64_t first; /* number of its first token in the source */
    uint64_t count; /* tokens */
} bp_data_file;

typedef struct bp_data {
    bp_source source; /* what the feed is given; source.name is the first file's path */
    bp_store *store;
    bp_error *error;
    bp_data_format format; /* what the files turned out to be */
    bp_data_file *files;
    uint32_t file_count;
} bp_data;

/* Opens all files and keeps them open. BP_ERR_DATA, with the file's name: a bad header, a size that
 * does not fit the header's count, an llm.c file that holds no tokens, files of two kinds, an empty
 * set. BP_ERR_STORE: a file cannot be opened or read. After an error nothing is left open. The
 * record must not be moved afterwards. */
bp_status bp_data_open(bp_data *data, bp_store *store, bp_data_file *files, uint32_t file_count,
                       bp_data_format format, bp_error *error) BP_MUST_CHECK;

/* The format that a file's name promises, and the bytes of the ending that says that it is packed
 * (".gz", ".gzip", ".zst", ".zstd"), 0 for none. */
bp_data_format bp_data_format_of_name(const char *path);
size_t bp_data_packed_ending(const char *path);

/* Closes what is open; safe after a failed bp_data_open and when called twice. */
void bp_data_close(bp_data *data);

/* Reads n tokens of `width` bytes (1, 2 or 4), little-endian, at `offset` of an open file. */
bp_status bp_data_read_ids(bp_store *store, bp_file file, const char *path, uint64_t offset,
                           uint32_t width, uint32_t n, int32_t *to, bp_error *error) BP_MUST_CHECK;

#endif
