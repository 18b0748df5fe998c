/* SPDX-License-Identifier: MIT */
/* A libmpi_abi.so.1 for tests: the standard interface of MPI 5 in terms of MPICH's own, so that the
 * third of the interfaces that the program loads is run where no MPI 5 is installed. With
 * BP_ABI_THREADS=no it has no support for threads; with BP_ABI_FAILS=N a message of rank 1
 * fails. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COMM_WORLD ((void *)(uintptr_t)0x101)
#define BYTE       ((void *)(uintptr_t)0x247)

static int wrong;

static void (*mpich(const char *name))(void)
{
    static void *handle;
    void (*entry)(void);
    if (handle == NULL) {
        handle = dlopen("libmpich.so.12", RTLD_NOW | RTLD_LOCAL);
    }
    void *symbol = handle != NULL ? dlsym(handle, name) : NULL;
    if (symbol == NULL) {
        abort();
    }
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

static int world(void *comm)
{
    wrong += comm != COMM_WORLD;
    return wrong == 0 ? 0x44000000 : -1;
}

static int byte(void *type)
{
    wrong += type != BYTE;
    return 0x4c00010d;
}

int MPI_Abi_get_version(int *major, int *minor)
{
    *major = 1;
    *minor = 0;
    return 0;
}

int MPI_Init_thread(int *count, char ***arguments, int required, int *provided)
{
    const char *threads = getenv("BP_ABI_THREADS");
    int result = ((int (*)(int *, char ***, int, int *))mpich("MPI_Init_thread"))(
        count, arguments, required == 1024 ? 1 : 99, provided);
    *provided = *provided * 1024 + (*provided == 3 ? 1024 : 0);
    *provided = threads != NULL && strcmp(threads, "no") == 0 ? 0 : *provided;
    return result;
}

int MPI_Finalize(void)
{
    return ((int (*)(void))mpich("MPI_Finalize"))();
}

int MPI_Abort(void *comm, int code)
{
    return ((int (*)(int, int))mpich("MPI_Abort"))(world(comm), code);
}

int MPI_Comm_rank(void *comm, int *rank)
{
    return ((int (*)(int, int *))mpich("MPI_Comm_rank"))(world(comm), rank);
}

int MPI_Comm_size(void *comm, int *size)
{
    return ((int (*)(int, int *))mpich("MPI_Comm_size"))(world(comm), size);
}

int MPI_Comm_set_errhandler(void *comm, void *handler)
{
    wrong += handler != (void *)(uintptr_t)0x143;
    return ((int (*)(int, int))mpich("MPI_Comm_set_errhandler"))(world(comm), 0x54000001);
}

int MPI_Get_library_version(char *words, int *length)
{
    return ((int (*)(char *, int *))mpich("MPI_Get_library_version"))(words, length);
}

int MPI_Error_string(int result, char *words, int *length)
{
    return ((int (*)(int, char *, int *))mpich("MPI_Error_string"))(result, words, length);
}

/* The Nth message of a call that rank 1 sends. */
static int fails(int tag)
{
    static int sent;
    const char *at = getenv("BP_ABI_FAILS");
    const char *rank = getenv("PMI_RANK");
    if (at == NULL || rank == NULL || strcmp(rank, "1") != 0 || tag < 64) {
        return 0;
    }
    return ++sent == atoi(at) ? 15 : 0;
}

int MPI_Isend(const void *from, int count, void *type, int peer, int tag, void *comm,
              void **request)
{
    int number = 0;
    int result = fails(tag);
    if (result == 0) {
        result = ((int (*)(const void *, int, int, int, int, int, int *))mpich("MPI_Isend"))(
            from, count, byte(type), peer, tag, world(comm), &number);
    }
    *request = (void *)(intptr_t)number;
    return result;
}

int MPI_Irecv(void *to, int count, void *type, int peer, int tag, void *comm, void **request)
{
    int number = 0;
    int result = ((int (*)(void *, int, int, int, int, int, int *))mpich("MPI_Irecv"))(
        to, count, byte(type), peer, tag, world(comm), &number);
    *request = (void *)(intptr_t)number;
    return result;
}

int MPI_Test(void **request, int *done, void *status)
{
    int number = (int)(intptr_t)*request;
    wrong += status != NULL;
    int result =
        ((int (*)(int *, int *, void *))mpich("MPI_Test"))(&number, done, (void *)(uintptr_t)1);
    *request = (void *)(intptr_t)number;
    return result;
}
